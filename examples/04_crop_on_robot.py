"""The robot's side: a depth image and a mask in, the cloud that training saw out.

    python examples/04_crop_on_robot.py [dataset]

Needs numpy only. The images here are made up; take your camera's. The CropSpec comes from the
dataset, and its digest is checked, so that the network gets what it was trained on.
"""

import json
import sys
from pathlib import Path

import numpy as np

from schemas.camera import Intrinsics
from stages.crop import CropSpec, crop_depth


def main(dataset: Path) -> None:
    manifest = json.loads((dataset / "dataset.json").read_text())
    spec = CropSpec.from_dict(manifest["crop"])
    spec.check_digest(manifest["crop_digest"])

    # A camera: K belongs to an image size, and another size is an error.
    intrinsics = Intrinsics(fx=615.0, fy=615.0, cx=320.0, cy=240.0, width=640, height=480)
    # A depth image in metres, NaN where the sensor saw nothing, and a mask of one object.
    depth = np.full((480, 640), 0.8, np.float32)
    depth[:40] = np.nan
    mask = np.zeros((480, 640), np.uint8)
    mask[200:300, 250:400] = 1

    cloud = crop_depth(
        depth,
        intrinsics,
        spec,
        seed=0,
        segment=mask,
        segment_table={"background": 0, "object:0": 1},
        T_world_cam=np.eye(4),  # needed when the crop works in the world frame
        table_pose=(0, 0, 0, 1, 0, 0, 0),
    )
    print(f"{len(cloud.points)} points in the {spec.frame} frame, crop {spec.digest()[:12]}")
    print("nearest", cloud.points.min(axis=0), "farthest", cloud.points.max(axis=0))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "data/out/demo"))
