"""Look at one cloud: what is stored with it, and a picture.

    python examples/00_look_at_one_cloud.py [dataset] [picture.png]

For a window or a web page with all clouds, cameras and hands: python -m pipeline view DATASET.
"""

import argparse
from pathlib import Path

import numpy as np

from pipeline.pictures.cloud import load_picture, render_picture
from pipeline.pictures.points import save
from stages.shard.read import PointCloudDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset", type=Path, nargs="?", default=Path("data/out/demo"))
    parser.add_argument("picture", type=Path, nargs="?", default=Path("cloud.png"))
    parser.add_argument("--smoke", action="store_true", help="draw with numpy, without a driver")
    arguments = parser.parse_args()

    cloud = PointCloudDataset(arguments.dataset, split="train", frame="world")[0]
    points, segment = np.asarray(cloud["points"]), np.asarray(cloud["segment"])
    print(f"{cloud['scene_id']} view {cloud['view']}: {points.shape} {points.dtype}, metres, world")
    for i in np.unique(segment):
        name = "the table" if i == 1 else cloud["object_ids"][i - 2]
        low, high = points[segment == i].min(axis=0), points[segment == i].max(axis=0)
        print(f"  segment {i} is {name}: {(segment == i).sum()} points, extent {high - low} m")
    print(f"camera at {np.asarray(cloud['T_world_cam'])[:3, 3]}, its K {cloud['intrinsics']}")

    picture = load_picture(arguments.dataset, "train", cloud["scene_id"], cloud["view"], None)
    image, renderer = render_picture(picture, "numpy" if arguments.smoke else "auto")
    save(image, arguments.picture)
    print(f"{arguments.picture}: drawn with {renderer}")


if __name__ == "__main__":
    main()
