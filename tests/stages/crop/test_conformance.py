"""The corpus: the crop gives its bits, another implementation wrote it, and a slip shows."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stages.crop import selftest
from tests.program import ROOT


def test_every_case_gives_the_bits() -> None:
    cases = sorted(selftest.CORPUS.glob("*.npz"))
    assert len(cases) >= 17
    for path in cases:
        assert selftest.run_case(path) == "", path.stem


def test_the_corpus_is_what_the_plain_loops_give() -> None:
    """`scripts/write_conformance.py` computes it a pixel at a time, without `stages.crop`."""
    done = subprocess.run(
        [sys.executable, "scripts/write_conformance.py", "--check"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_corpus_covers_every_choice_of_the_crop() -> None:
    specs = []
    for path in selftest.CORPUS.glob("*.npz"):
        with np.load(path) as data:
            specs.append(json.loads(str(data["meta"]))["spec"])
            assert len(data["points"]) > 20, path
            assert data["valid_count"] < np.isfinite(data["depth"]).sum(), path
    for name, values in (
        ("sampling", {"none", "random", "voxel", "farthest"}),
        ("frame", {"camera", "world"}),
        ("box_frame", {"camera", "world"}),
    ):
        assert {spec[name] for spec in specs} == values
    assert any(spec["outlier_cell"] > 0 for spec in specs)
    assert any(spec["remove_segments"] for spec in specs)


@pytest.mark.parametrize("key", ["points", "out_segment", "pixel", "valid_count", "depth"])
def test_one_bit_fails(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with np.load(selftest.CORPUS / "all_of_it.npz") as data:
        arrays = {name: data[name] for name in data.files}
    value = arrays[key].copy()
    if key == "depth":  # another input must give another output
        row, column = np.divmod(int(arrays["pixel"][0]), value.shape[1])
        value[row, column] = np.nextafter(value[row, column], np.float32(9))
    else:
        flat = value.reshape(-1).view(np.uint8)
        flat[0] ^= 1
    np.savez(tmp_path / "case.npz", **(arrays | {key: value}))
    assert selftest.run_case(tmp_path / "case.npz") != ""
    monkeypatch.setattr(selftest, "CORPUS", tmp_path)
    assert selftest.main() == 1
    (tmp_path / "case.npz").unlink()
    assert selftest.main() == 1  # no corpus is no pass


def test_the_selftest_needs_numpy_alone(tmp_path: Path) -> None:
    folder = Path(str(np.__file__)).parent
    (tmp_path / "numpy").symlink_to(folder)
    libs = folder.parent / "numpy.libs"
    if libs.is_dir():
        (tmp_path / "numpy.libs").symlink_to(libs)
    program = (
        f"import sys\nsys.path[:0] = [{str(ROOT)!r}, {str(tmp_path)!r}]\n"
        "from stages.crop.selftest import main\nsys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 of 17 cases give the same bits" in done.stdout
