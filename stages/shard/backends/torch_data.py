"""The dataset for `torch.utils.data.DataLoader`, and how its items become batches."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from schemas.frames import invert
from stages.crop import CropSpec
from stages.shard.backends.torch_transport import Layout
from stages.shard.clouds import PER_POINT, SAMPLINGS, CloudTable, sample_rows
from stages.shard.errors import UnknownChoiceError
from stages.shard.fuse import FusedTable
from stages.shard.grasps import GraspTable, joined_visibility
from stages.storage import output_path

Item = dict[str, Any]
Augment = Callable[[Item, np.random.Generator], Item]


class PointCloudDataset(Dataset[Item]):
    """Map-style: one item per (scene, view) of a split, in the order of the index.

    Items: points (N, 3) float32 m, segment (N,) int64, T_world_cam (4, 4) float64,
    intrinsics (6,) fx fy cx cy width height, object_poses (O, 7) world, object_ids, scene_id,
    view, and with a hand `grasps` (see GraspTable.of_scene), in the frame of the points. Where the
    dataset has them: normals (N, 3) float32, colour (N, 3) uint8, distortion (6,),
    buried_fraction (O,) float64, NaN in scenes without grains, also (G,) in grasps, of the grasp's
    object, and in grasps visibility (G,) float32. With `fuse`: one item per scene, view_of_point
    (N,), and view (V,), T_world_cam (V, 4, 4), intrinsics (V, 6) of its V views (see
    stages/shard/fuse.py).

    `PointCloudLoader` reads it in shuffled batches. With a DataLoader of your own pass
    `collate_fn=dataset.collate`.
    """

    def __init__(
        self,
        out: str | Path,
        *,
        split: str = "train",
        points: int | None = None,
        sampling: str = "random",
        frame: str | None = None,
        hand: str | None = None,
        protocol: str | None = None,
        min_points: int | None = None,
        fuse: bool = False,
        augment: Augment | None = None,
        seed: int = 0,
    ) -> None:
        """
        `points`: sample every cloud to this size (anew in each epoch); None leaves them ragged.
        `sampling`: "random" or "farthest", as in the crop.
        `frame`: "camera" or "world"; None takes the frame that is stored.
        `hand`, `protocol`: add grasps of the cloud's objects, and their labels.
        `min_points`: leave out smaller clouds; by default empty ones when `points` is given.
        `fuse`: one item per scene, all its views in one cloud in the world frame, with the view
        of each point. `points` is then the size of the fused cloud.
        `augment`: called with each item and a generator of its own; returns the item to use. For
        spawned workers it must pickle: a function of a module, or an object of a class of one.
        """
        if points is not None and points < 1:
            raise ValueError(f"points: expected a size >= 1 or None, got {points}")
        if sampling not in SAMPLINGS:
            raise UnknownChoiceError("sampling", sampling, SAMPLINGS)
        if protocol is not None and hand is None:
            raise ValueError(f"protocol {protocol!r} needs a hand; pass hand=... too")
        least = min_points if min_points is not None else int(points is not None)
        self.points, self.seed, self.augment = points, seed, augment
        self._spec = None if points is None else CropSpec(sampling=sampling, num_points=points)  # pyright: ignore[reportArgumentType]
        if fuse and frame is None:
            frame = "world"
        clouds = CloudTable(
            out=output_path(out),
            split=split,
            frame=frame,
            min_points=max(least, int(points is not None)),
            hand=hand,
        )
        self.table = FusedTable(clouds=clouds) if fuse else clouds
        # Shared memory, so that workers which persist over epochs see the new number.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()
        self.grasps = (
            GraspTable(output_path(out), split, hand, protocol) if hand is not None else None
        )
        self.collate = collate_fixed if points is not None else collate_ragged

    @property
    def epoch(self) -> int:
        return int(self._epoch.item())

    def set_epoch(self, epoch: int) -> None:
        """Other samples and augmentations, from the next item on."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> Item:
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"cloud {index}: this split has {len(self)}")
        return self.item(index, self.epoch)

    def item(self, index: int, epoch: int) -> Item:
        """Cloud `index` as it comes in an epoch, whatever rank, worker and batch it comes in.

        Random numbers are drawn from (seed, epoch, index), of which no two clouds of an epoch
        have the same.
        """
        cloud = self.table.read(index, index + 1)[0]
        per_point = {key: np.array(cloud[key]) for key in _PER_POINT if key in cloud}
        if self._spec is not None and len(per_point["points"]) != self.points:
            rng = np.random.default_rng([self.seed, epoch, index])
            rows = sample_rows(per_point["points"], self._spec, rng)
            per_point = {key: array[rows] for key, array in per_point.items()}
        # int64, since torch indexes and computes losses with nothing smaller.
        per_point["segment"] = per_point["segment"].astype(np.int64)
        about = {key: cloud[key] for key in _ABOUT if key in cloud}
        item = tensors_of(per_point | self._with_grasps(about))
        if self.augment is not None:
            item = self.augment(item, np.random.default_rng([self.seed, epoch, index, 1]))
        return item

    def batch(self, indices: Sequence[int], epoch: int) -> Item:
        """`collate` of the items."""
        return tensors_of(self.batch_arrays(indices, epoch))

    @property
    def plain(self) -> bool:
        """Whether batches are of one size and are read as they are stored."""
        table = self.table
        whole = isinstance(table, CloudTable) and table.frame == table.stored_frame
        return whole and self._spec is not None and self.augment is None

    def layout(self, size: int) -> Layout:
        """Shape and dtype of the arrays (size, points, ...) of a plain batch."""
        table = self.table
        assert isinstance(table, CloudTable)
        found = {key: table.layout(key, size, self.points or 0) for key in table.per_point}
        return found | {"segment": (found["segment"][0], np.dtype(np.int64))}

    def batch_arrays(self, indices: Sequence[int], epoch: int, out: Item | None = None) -> Item:
        """`batch` as numpy; clouds of a plain one are read to their place in it.

        `out`: the arrays of `layout` to read into; without, new ones are made.
        """
        table = self.table
        if not self.plain or not isinstance(table, CloudTable):
            return arrays_of(self.collate([self.item(i, epoch) for i in indices]))
        if out is None:
            out = {key: np.empty(*of) for key, of in self.layout(len(indices)).items()}
        out = dict(out)
        for k in table.read_fixed(indices, out):
            cloud = table.points_of(indices[k])
            rng = np.random.default_rng([self.seed, epoch, indices[k]])
            rows = sample_rows(cloud["points"], self._spec, rng)
            for key, array in out.items():
                array[k] = cloud[key].take(rows, axis=0)
        if self.grasps is None and "distortion" not in table.optional:
            return _collate(table.abouts(indices), out)
        return _collate(_columns([self._with_grasps(table.about(i)) for i in indices]), out)

    def _with_grasps(self, about: dict[str, Any]) -> Item:
        """What an item has beside its points, as numpy; `about` as CloudTable gives it."""
        if self.grasps is not None:
            world = self.table.frame == "world"
            T_frame_world = np.eye(4) if world else invert(about["T_world_cam"])
            found = self.grasps.of_scene(about["object_ids"], about["object_poses"], T_frame_world)
            if "visibility" in about:
                found["visibility"] = joined_visibility(found, about.pop("visibility"))
            if "buried_fraction" in about:
                found["buried_fraction"] = about["buried_fraction"][found["object_slot"]]
            about["grasps"] = found
        return about


def collate_fixed(items: Sequence[Item]) -> Item:
    """points (B, N, 3), segment (B, N); the rest as in collate_ragged."""
    arrays = [arrays_of(item) for item in items]
    keys = [key for key in _PER_POINT if key in items[0]]
    stacked = {key: np.stack([x[key] for x in arrays]) for key in keys}
    return tensors_of(_collate(_columns(arrays), stacked))


def collate_ragged(items: Sequence[Item]) -> Item:
    """points (sum N_i, 3), segment (sum N_i,), point_cloud (sum N_i,): which item each is of.

    T_world_cam (B, 4, 4), intrinsics (B, 6), view (B,); scene_id, object_ids lists of length B;
    object_poses (sum O_i, 7) with object_cloud (sum O_i,); grasps: arrays one after the other,
    with grasp_cloud (sum G_i,). Fused clouds: T_world_cam (sum V_i, 4, 4), intrinsics
    (sum V_i, 6), view (sum V_i,), with camera_cloud (sum V_i,). What an augmentation added is
    stacked, (B, ...), when it is an array, else a list.
    """
    arrays = [arrays_of(item) for item in items]
    keys = [key for key in _PER_POINT if key in items[0]]
    out: Item = {key: np.concatenate([x[key] for x in arrays]) for key in keys}
    out["point_cloud"] = _owner([len(x["points"]) for x in arrays])
    return tensors_of(_collate(_columns(arrays), out))


_PER_POINT = ("points", "segment", *PER_POINT, "view_of_point")
_PER_CAMERA = ("T_world_cam", "intrinsics", "distortion")
_PER_OBJECT = ("object_poses", "buried_fraction")
_ABOUT = (*_PER_CAMERA, *_PER_OBJECT, "object_ids", "scene_id", "view", "visibility")


def arrays_of(item: Item) -> Item:
    """Tensors as numpy, the same memory."""
    out = {key: v.numpy() if isinstance(v, torch.Tensor) else v for key, v in item.items()}
    return out | ({"grasps": arrays_of(item["grasps"])} if "grasps" in item else {})


def tensors_of(item: Item) -> Item:
    out = {key: _tensor(v) if isinstance(v, np.ndarray) else v for key, v in item.items()}
    return out | ({"grasps": tensors_of(item["grasps"])} if "grasps" in item else {})


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    # A view would keep the shard's arrays alive, and let the caller write into them.
    return torch.from_numpy(array if array.base is None else array.copy())


def _owner(counts: Sequence[int]) -> NDArray[np.int64]:
    return np.repeat(np.arange(len(counts)), counts)


def _columns(items: Sequence[Item]) -> Item:
    return {key: [x[key] for x in items] for key in items[0]}


def _collate(columns: Item, out: Item) -> Item:
    """Add to `out`, which has the arrays by point, the rest of the items; all numpy.

    `columns`: by name, a value for each item.
    """
    fused = int(np.ndim(columns["view"][0]) == 1)
    for key in _PER_CAMERA:
        if key in columns:
            values = columns[key]
            # As np.stack, which takes several times longer.
            flat = values if isinstance(values, np.ndarray) else np.concatenate(values)
            out[key] = flat.reshape(-1, *values[0].shape[fused:])
    if fused:
        out["view"] = np.concatenate(columns["view"])
        out["camera_cloud"] = _owner([len(view) for view in columns["view"]])
    else:
        out["view"] = np.array(columns["view"])
    for key in ("scene_id", "object_ids"):
        out[key] = columns[key]
    for key in _PER_OBJECT:
        if key in columns:
            out[key] = np.concatenate(columns[key])
    out["object_cloud"] = _owner([len(poses) for poses in columns["object_poses"]])
    if "grasps" in columns:
        grasps = columns["grasps"]
        out["grasps"] = {key: np.concatenate([g[key] for g in grasps]) for key in grasps[0]}
        out["grasps"]["grasp_cloud"] = _owner([len(g["grasp_index"]) for g in grasps])
    for key, values in columns.items():
        if key not in out:
            out[key] = np.stack(values) if isinstance(values[0], np.ndarray) else values
    return out
