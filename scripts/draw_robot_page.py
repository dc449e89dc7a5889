"""Draw docs/images/robot_captures.png: real captures, what was found on them, and the clouds.

    python scripts/draw_robot_page.py CAPTURES [--out docs/images/robot_captures.png]

CAPTURES holds the folders of 6dof-graspnet and hggd as they were published; both are MIT. Above
each photograph with what stands on its table; below the clouds that a crop to the objects and the
table gives, from the side.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pipeline.pictures.points import PALETTE, around, draw, paint_segments, tile  # noqa: E402
from stages.crop import CropSpec  # noqa: E402
from stages.robot import Frame, open_source  # noqa: E402
from stages.robot.deploy import RobotCrop  # noqa: E402
from stages.robot.segments import OnTheTable, segmented  # noqa: E402
from stages.robot.table import calibrate_table  # noqa: E402

SHOWN = (
    ("6dof-graspnet/cheezit.npy", "6dof_graspnet", "6-DOF GraspNet"),
    ("6dof-graspnet/blue_mug.npy", "6dof_graspnet", "6-DOF GraspNet"),
    ("6dof-graspnet/green_bowl.npy", "6dof_graspnet", "6-DOF GraspNet"),
    ("hggd", "hggd", "HGGD"),
)
SIZE = (320, 240)
CROP = CropSpec(
    extract_segments=("table", "object:*"), frame="world", box_min=(-0.5, -0.4, -0.02),
    box_max=(0.5, 0.4, 0.5), sampling="voxel", voxel_size=0.004,
)  # fmt: skip


def coloured(frame: Frame) -> np.ndarray:
    """The photograph, objects in the colours of their segments."""
    ids = frame.segment.astype(int)
    ink = PALETTE[np.where(ids < 2, 0, 2 + (ids - 2) % (len(PALETTE) - 2))]
    mixed = np.where(ids[..., None] > 1, frame.colour // 3 + ink // 3 * 2, frame.colour)
    picture = Image.fromarray(mixed.astype(np.uint8))
    picture.thumbnail(SIZE)
    out = Image.new("RGB", SIZE, "white")
    out.paste(picture, ((SIZE[0] - picture.width) // 2, (SIZE[1] - picture.height) // 2))
    return np.asarray(out)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("captures", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/images/robot_captures.png")
    args = parser.parse_args()
    photos, clouds, titles = [], [], []
    for where, convention, title in SHOWN:
        file = ROOT / "configs" / "captures" / f"{convention}.json"
        frame = open_source(args.captures / where, file).read()
        frame = replace(frame, segment=None, segment_table=None)
        # the world on the table, whatever frame the capture came with
        table = calibrate_table(replace(frame, T_world_cam=None))
        frame = segmented(replace(frame, T_world_cam=table.T_world_cam), OnTheTable())
        cloud = RobotCrop.of_spec(CROP, table=table)(frame)
        paint = paint_segments(cloud.points, cloud.segment)
        side = table.T_world_cam[:3, 3] * [0.6, 0.6, 0.5] + [0.25, 0, 0]
        clouds.append(draw(paint, *around(paint, side, SIZE), radius=1))
        photos.append(coloured(frame))
        objects = len(np.unique(cloud.segment[cloud.segment > 1]))
        titles.append(f"{title}\nobjects {objects}, table {1000 * table.residual:.1f} mm rms")
    sheet = Image.fromarray(tile([*photos, *clouds], [*titles, *([""] * len(SHOWN))], 4))
    sheet.quantize(96, dither=Image.Dither.NONE).save(args.out, optimize=True)
    print(args.out)


if __name__ == "__main__":
    main()
