"""Child process: `python -m stages.assets.convex_worker IN.npz OUT.npz TIME_LIMIT_S`.

CoACD can crash or hang on some meshes, so it never runs in the process that called for it.
"""

import json
import math
import os
import signal
import sys
from pathlib import Path

import numpy as np


def main(source: Path, target: Path, time_limit_s: float) -> None:
    """Decompose the mesh of `source` and write the pieces, as CoACD gives them, to `target`."""
    # A parent that was killed cannot stop its child; the alarm's default action does.
    signal.alarm(math.ceil(time_limit_s) + 5)
    import coacd

    with np.load(source) as arrays:
        vertices, faces = arrays["vertices"], arrays["faces"]
        options = json.loads(str(arrays["options"]))
    # worked at unit size: CoACD's tolerances are absolute
    low = vertices.min(axis=0)
    extent = float((vertices.max(axis=0) - low).max())
    coacd.set_log_level("error")
    parts = coacd.run_coacd(coacd.Mesh((vertices - low) / extent, faces), **options)
    points = [np.asarray(v, np.float64) * extent + low for v, _ in parts]
    temporary = target.with_name(f"part-{target.name}")
    np.savez(
        temporary,
        points=np.concatenate(points),
        offsets=np.cumsum([0, *(len(p) for p in points)]),
    )
    os.replace(temporary, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
