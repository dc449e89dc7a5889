"""The datasets for `torch.utils.data.DataLoader`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from schemas.frames import invert
from stages.shard.clouds import PER_POINT, CloudTable, sample_rows
from stages.shard.fuse import FusedTable
from stages.shard.grasps import GraspTable, joined_visibility

Item = dict[str, Any]


class _Source:
    """What both datasets share: the table, the size of a cloud, grasps, the epoch."""

    def __init__(
        self,
        out: str | Path,
        *,
        split: str = "train",
        points: int | None = None,
        frame: str | None = None,
        hand: str | None = None,
        protocol: str | None = None,
        min_points: int | None = None,
        fuse: bool = False,
        seed: int = 0,
    ) -> None:
        """
        `points`: sample every cloud to this size (anew in each epoch); None leaves them ragged.
        `frame`: "camera" or "world"; None takes the frame that is stored.
        `hand`, `protocol`: add grasps of the cloud's objects, and their labels.
        `min_points`: leave out smaller clouds; by default empty ones when `points` is given.
        `fuse`: one item per scene, all its views in one cloud in the world frame, with the view
        of each point. `points` is then the size of the fused cloud.
        """
        if points is not None and points < 1:
            raise ValueError(f"points: expected a size >= 1 or None, got {points}")
        if protocol is not None and hand is None:
            raise ValueError(f"protocol {protocol!r} needs a hand; pass hand=... too")
        least = min_points if min_points is not None else int(points is not None)
        self.points, self.seed = points, seed
        if fuse and frame is None:
            frame = "world"
        clouds = CloudTable(
            out=Path(out),
            split=split,
            frame=frame,
            min_points=max(least, int(points is not None)),
            hand=hand,
        )
        self.table = FusedTable(clouds=clouds) if fuse else clouds
        # Shared memory, so that workers which persist over epochs see the new number.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self.grasps = GraspTable(Path(out), split, hand, protocol) if hand is not None else None
        self.collate = collate_fixed if points is not None else collate_ragged

    @property
    def epoch(self) -> int:
        return int(self._epoch.item())

    def set_epoch(self, epoch: int) -> None:
        """Other samples, and another order of a stream, from the next iteration on."""
        self._epoch.fill_(epoch)

    def item(self, cloud: dict[str, Any], epoch: int) -> Item:
        per_point = {key: np.array(cloud[key]) for key in _PER_POINT if key in cloud}
        # int64, since torch indexes and computes losses with nothing smaller.
        per_point["segment"] = per_point["segment"].astype(np.int64)
        if self.points is not None:
            rng = np.random.default_rng([self.seed, epoch, cloud["index"]])
            rows = sample_rows(len(per_point["points"]), self.points, rng)
            per_point = {key: array[rows] for key, array in per_point.items()}
        arrays = [key for key in (*_PER_CAMERA, "object_poses") if key in cloud]
        item: Item = {
            **{key: torch.from_numpy(array) for key, array in per_point.items()},
            **{key: torch.from_numpy(np.array(cloud[key])) for key in arrays},
            "object_ids": cloud["object_ids"],
            "scene_id": cloud["scene_id"],
            "view": cloud["view"],
        }
        if self.grasps is not None:
            world = self.table.frame == "world"
            T_frame_world = np.eye(4) if world else invert(cloud["T_world_cam"])
            found = self.grasps.of_scene(cloud["object_ids"], cloud["object_poses"], T_frame_world)
            if "visibility" in cloud:
                found["visibility"] = joined_visibility(found, cloud["visibility"])
            item["grasps"] = {name: torch.from_numpy(array) for name, array in found.items()}
        return item


class PointCloudDataset(_Source, Dataset[Item]):
    """Map-style: one item per (scene, view) of a split, in the order of the index.

    Items: points (N, 3) float32 m, segment (N,) int64, T_world_cam (4, 4) float64,
    intrinsics (6,) fx fy cx cy width height, object_poses (O, 7) world, object_ids, scene_id,
    view, and with a hand `grasps` (see GraspTable.of_scene), in the frame of the points. Where the
    dataset has them: normals (N, 3) float32, colour (N, 3) uint8, distortion (6,), and in grasps
    visibility (G,) float32. With `fuse`: one item per scene, view_of_point (N,), and view (V,),
    T_world_cam (V, 4, 4), intrinsics (V, 6) of its V views (see stages/shard/fuse.py).
    Pass `collate_fn=dataset.collate` to the DataLoader.
    """

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Item:
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"cloud {index}: this split has {len(self)}")
        return self.item(self.table.read(index, index + 1)[0], self.epoch)


class PointCloudStream(_Source, IterableDataset[Item]):
    """Iterable: the same items in an order shuffled anew by `set_epoch`, read block by block.

    `block` neighbouring clouds are one read; clouds of `mix` blocks are shuffled together. Every
    cloud comes exactly once over all ranks and DataLoader workers. Ranks may differ by some
    clouds, so use `join` with DistributedDataParallel. There is no len(): with several workers
    the last batches are ragged, and torch warns of every length that one could give.
    """

    def __init__(
        self,
        out: str | Path,
        *,
        shuffle: bool = True,
        block: int = 16,
        mix: int = 8,
        rank: int = 0,
        world_size: int = 1,
        **source: Any,
    ) -> None:
        super().__init__(out, **source)
        if block < 1 or mix < 1:
            raise ValueError(f"block and mix: expected >= 1, got {block} and {mix}")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank: expected 0 <= rank < {world_size}, got {rank}")
        self.shuffle, self.block, self.mix = shuffle, block, mix
        self.rank, self.world_size = rank, world_size

    def __iter__(self) -> Iterator[Item]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        epoch = self.epoch
        blocks = self.table.blocks(self.block)
        order = np.arange(len(blocks))
        if self.shuffle:
            order = np.random.default_rng([self.seed, epoch]).permutation(len(blocks))
        mine = order[self.rank :: self.world_size][worker::workers]
        for start in range(0, len(mine), self.mix):
            clouds = [cloud for b in mine[start : start + self.mix]
                      for cloud in self.table.read(*blocks[b])]  # fmt: skip
            if self.shuffle:
                rng = np.random.default_rng([self.seed, epoch, 1 + int(mine[start])])
                clouds = [clouds[i] for i in rng.permutation(len(clouds))]
            for cloud in clouds:
                yield self.item(cloud, epoch)


def collate_fixed(items: Sequence[Item]) -> Item:
    """points (B, N, 3), segment (B, N); the rest as in collate_ragged."""
    keys = [key for key in _PER_POINT if key in items[0]]
    return _collate(items, {key: torch.stack([x[key] for x in items]) for key in keys})


def collate_ragged(items: Sequence[Item]) -> Item:
    """points (sum N_i, 3), segment (sum N_i,), point_cloud (sum N_i,): which item each is of.

    T_world_cam (B, 4, 4), intrinsics (B, 6), view (B,); scene_id, object_ids lists of length B;
    object_poses (sum O_i, 7) with object_cloud (sum O_i,); grasps: arrays one after the other,
    with grasp_cloud (sum G_i,). Fused clouds: T_world_cam (sum V_i, 4, 4), intrinsics
    (sum V_i, 6), view (sum V_i,), with camera_cloud (sum V_i,).
    """
    keys = [key for key in _PER_POINT if key in items[0]]
    out: Item = {key: torch.cat([x[key] for x in items]) for key in keys}
    return _collate(items, out | {"point_cloud": _owner([len(x["points"]) for x in items])})


_PER_POINT = ("points", "segment", *PER_POINT, "view_of_point")
_PER_CAMERA = ("T_world_cam", "intrinsics", "distortion")


def _owner(counts: Sequence[int]) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))


def _collate(items: Sequence[Item], out: Item) -> Item:
    fused = "view_of_point" in items[0]
    for key in _PER_CAMERA:
        if key in items[0]:
            out[key] = (torch.cat if fused else torch.stack)([x[key] for x in items])
    if fused:
        out["view"] = torch.cat([torch.as_tensor(x["view"]) for x in items])
        out["camera_cloud"] = _owner([len(x["view"]) for x in items])
    else:
        out["view"] = torch.tensor([x["view"] for x in items])
    for key in ("scene_id", "object_ids"):
        out[key] = [x[key] for x in items]
    out["object_poses"] = torch.cat([x["object_poses"] for x in items])
    out["object_cloud"] = _owner([len(x["object_poses"]) for x in items])
    if "grasps" in items[0]:
        grasps = [x["grasps"] for x in items]
        out["grasps"] = {key: torch.cat([g[key] for g in grasps]) for key in grasps[0]}
        out["grasps"]["grasp_cloud"] = _owner([len(g["grasp_index"]) for g in grasps])
    return out
