"""The robot's side: frames of a depth camera in, the clouds that training saw out.

    python examples/04_crop_on_robot.py [DATASET] [CAPTURE] [CONVENTION] [--smoke]

Needs numpy only. The CropSpec comes from the dataset and its digest is checked, so that a network
gets what it was trained on. CAPTURE is `realsense:` for a live camera, or a capture in files (some
need Pillow); without one, or with --smoke, a made-up frame stands in for it.
"""

import sys
from pathlib import Path

import numpy as np

from schemas.camera import Intrinsics
from schemas.frames import look_at
from stages.crop import slopes_at
from stages.robot import Frame, open_source
from stages.robot.deploy import RobotCrop
from stages.robot.segments import OnTheTable
from stages.robot.table import calibrate_table


def main(dataset: str = "data/out/demo", capture: str = "", convention: str = "") -> None:
    if capture:
        source = open_source(capture, Path(convention) if convention else None)
        frame = source.read()
        source.close()
    else:
        frame = made_up()
    table = calibrate_table(frame)  # once; keep the file that `pipeline calibrate-table` writes
    print(f"table: {1000 * table.residual:.2f} mm rms of {table.points} points")
    segmenter = OnTheTable(table_pose=table.table_pose)
    crop = RobotCrop.of_dataset(dataset, segmenter=segmenter, table=table)
    cloud = crop(frame)  # as often as you like
    print(
        f"{len(cloud.points)} points in the {crop.spec.frame} frame, crop "
        f"{crop.spec.digest()[:12]}, objects {sorted(set(cloud.segment.tolist()) - {0, 1})}"
    )
    if len(cloud.points):
        print("nearest", cloud.points.min(axis=0), "farthest", cloud.points.max(axis=0))


def made_up() -> Frame:
    """A table seen from 0.6 m with a block of 8 cm on it: depth in metres, NaN missing."""
    K = Intrinsics(fx=615.0, fy=615.0, cx=320.0, cy=240.0, width=640, height=480)
    T = look_at([0.0, -0.45, 0.42], [0.0, 0.0, 0.0])
    x, y = slopes_at(np.arange(K.width * K.height), K)
    ray = np.stack([x, y, np.ones_like(x)], axis=1) @ T[:3, :3].T
    depth = -T[2, 3] / ray[:, 2]
    top = (0.08 - T[2, 3]) / ray[:, 2]
    on_top = np.abs(T[:2, 3] + ray[:, :2] * top[:, None]).max(axis=1) < 0.04
    depth[on_top] = top[on_top]
    depth = depth.astype(np.float32).reshape(K.height, K.width)
    depth[:40] = np.nan
    return Frame(depth=depth, intrinsics=K, name="made up")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--smoke"]
    main(*(words[:1] if "--smoke" in sys.argv else words))
