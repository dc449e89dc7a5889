"""Read a dataset three ways: with PyTorch, with zarr alone, and its manifest.

python examples/03_read_a_shard.py [dataset]
"""

import argparse
import json
from pathlib import Path

import zarr
from torch.utils.data import DataLoader

from stages.shard.read import PointCloudDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset", type=Path, nargs="?", default=Path("data/out/demo"))
    parser.add_argument("--smoke", action="store_true", help="small batches")
    arguments = parser.parse_args()
    out, size = arguments.dataset, 2 if arguments.smoke else 4
    manifest = json.loads((out / "dataset.json").read_text())
    print(f"seed {manifest['seed']}, splits of objects:")
    for split, objects in manifest["splits"].items():
        print(f"  {split}: {len(objects)} objects")

    hand = sorted(next(iter(manifest["statistics"].values()))["grasps"])[0]
    dataset = PointCloudDataset(out, split="train", points=1024, hand=hand, protocol="fc")
    loader = DataLoader(dataset, batch_size=size, collate_fn=dataset.collate)
    batch = next(iter(loader))
    grasps = batch["grasps"]
    print(f"{len(dataset)} clouds; one batch: points {tuple(batch['points'].shape)}")
    share = grasps["success"].float().mean()
    print(f"{len(grasps['success'])} grasps of {hand} on its objects, {share:.0%} succeed under fc")

    # The same arrays without this project: plain Zarr v3.
    shard = zarr.open_group(out / "shards" / "train-00000.zarr", mode="r")
    start, stop = shard["cloud_offsets"][0], shard["cloud_offsets"][1]
    points = shard["points"][start:stop]
    print(f"cloud 0: {points.shape} {points.dtype}, unit {shard['points'].attrs['unit']}, ", end="")
    print(f"frame {shard['points'].attrs['frame']}, T_world_cam:\n{shard['T_world_cam'][0]}")


if __name__ == "__main__":
    main()
