"""Time and memory of the robot's crop on 640x480 frames: back-projection, crop, 2048 points.

    python benchmarks/bench_crop.py [--frames 200] [--capture FILE.npz]

One core, processor time a frame. Without --capture a made-up scene: a table with objects on 8 % of
the pixels, 39 % missing as in the reference captures. The memory line is the peak that Python
allocates while the second half of the frames is cropped, less that of the first half: about 0 when
nothing grows with the number of frames.
"""

import argparse
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np

from schemas.camera import Intrinsics
from schemas.frames import look_at
from stages.crop import CropSpec, slopes_at
from stages.robot import Frame, open_source
from stages.robot.deploy import RobotCrop

K = Intrinsics(fx=616.0, fy=616.0, cx=311.0, cy=237.0, width=640, height=480)
BOX = {"box_min": (-0.35, -0.35, -0.02), "box_max": (0.35, 0.35, 0.4)}
SPECS = {
    "objects, camera frame": CropSpec(sampling="random"),
    "objects in a box, world frame": CropSpec(sampling="random", frame="world", **BOX),
    "all but the table in a box, world frame": CropSpec(
        extract_segments=(), remove_segments=("table",), sampling="random", frame="world", **BOX
    ),
    "a box without segments, world frame": CropSpec(
        extract_segments=(), sampling="random", frame="world", **BOX
    ),
}


def made_up() -> Frame:
    """A table from 0.6 m, objects of 8 cm on it."""
    T = look_at([0.0, -0.45, 0.42], [0.0, 0.0, 0.0])
    x, y = slopes_at(np.arange(K.width * K.height), K)
    down = T[2, 0] * x + T[2, 1] * y + T[2, 2]
    depth = (-T[2, 3] / down).astype(np.float32).reshape(K.height, K.width)
    ids = np.ones(depth.shape, np.uint16)
    for i, (row, column) in enumerate(((200, 200), (230, 420), (330, 300))):
        place = np.s_[row - 45 : row + 45, column - 45 : column + 45]
        depth[place] -= 0.08
        ids[place] = 2 + i
    rng = np.random.default_rng(0)
    depth[rng.random(depth.shape) < 0.39] = np.nan
    table = {"background": 0, "table": 1, "object:0": 2, "object:1": 3, "object:2": 4}
    return Frame(depth=depth, intrinsics=K, segment=ids, segment_table=table, T_world_cam=T)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--capture", type=Path)
    args = parser.parse_args()
    frame = made_up() if args.capture is None else open_source(args.capture).read()
    if frame.T_world_cam is None:
        frame = replace(frame, T_world_cam=np.eye(4))
    height, width = frame.depth.shape
    print(f"{width}x{height}, {np.isfinite(frame.depth).mean():.0%} measured")
    for name, spec in SPECS.items():
        crop = RobotCrop(spec=spec)
        spent = []
        for i in range(args.frames):
            start = time.process_time()
            cloud = crop(frame, seed=i)
            spent.append(time.process_time() - start)
        middle, slow = 1e3 * np.quantile(spent, (0.5, 0.95))
        print(
            f"{name:<42} median {middle:5.2f} ms, 95 % {slow:5.2f} ms, {len(cloud.points)} of "
            f"{cloud.valid_count} points"
        )
    crop, half = RobotCrop(spec=SPECS["objects in a box, world frame"]), max(1, args.frames // 2)
    peaks = []
    tracemalloc.start()
    for part in range(2):
        tracemalloc.reset_peak()
        for i in range(half):
            crop(frame, seed=part * half + i)
        peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    print(f"peak memory grew by {(peaks[1] - peaks[0]) / 1024:.0f} KiB from the first half of "
          f"{2 * half} frames to the second ({peaks[0] / 2**20:.1f} MiB)")  # fmt: skip


if __name__ == "__main__":
    main()
