"""`python -m stages.crop.selftest`: does this machine give the corpus's bits? numpy is enough."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from stages.crop.crop import CroppedCloud, crop_depth
from stages.crop.spec import CropSpec

CORPUS = Path(__file__).parent / "conformance"


def run_case(path: Path) -> str:
    """Run one case of the corpus; "" when every bit is right, else what is not."""
    with np.load(path, allow_pickle=False) as data:
        arrays: dict[str, NDArray[Any]] = {name: data[name] for name in data.files}
    meta = json.loads(str(arrays["meta"]))
    cloud = crop_depth(
        arrays["depth"],
        Intrinsics.from_array(arrays["intrinsics"], arrays["distortion"]),
        CropSpec.from_dict(meta["spec"]),
        seed=int(meta["seed"]),
        segment=arrays.get("segment"),
        segment_table=meta["segment_table"],
        T_world_cam=arrays.get("T_world_cam"),
        table_pose=arrays.get("table_pose"),
    )
    return difference(cloud, arrays)


def difference(cloud: CroppedCloud, wanted: dict[str, NDArray[Any]]) -> str:
    """The first array of `cloud` that differs from the corpus's in a bit, or ""."""
    count = int(wanted["valid_count"])
    if cloud.valid_count != count:
        return f"valid_count: expected {count}, got {cloud.valid_count}"
    for name, got in (
        ("pixel", cloud.pixel),
        ("points", cloud.points),
        ("out_segment", cloud.segment),
    ):
        want = wanted[name]
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"{name}: expected {want.dtype} {want.shape}, got {got.dtype} {got.shape}"
        if got.tobytes() != want.tobytes():
            rows = int((got != want).reshape(len(got), -1).any(axis=1).sum())
            return f"{name}: {rows} of {len(got)} rows differ"
    return ""


def main() -> int:
    """0 when all cases pass."""
    cases = sorted(CORPUS.glob("*.npz"))
    failed = 0
    for path in cases:
        problem = run_case(path)
        failed += bool(problem)
        print(f"{path.stem:<24} {problem or 'ok'}")
    print(f"{len(cases) - failed} of {len(cases)} cases give the same bits, numpy {np.__version__}")
    if not cases:
        print(f"no corpus at {CORPUS}: is the package installed whole?")
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
