"""Clouds of one split as numpy, opened where they are read; what `read.py` turns to tensors."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.frames import invert, transform_points
from stages.crop.sampling import random_points
from stages.shard.errors import UnknownChoiceError
from stages.shard.index import read_index
from stages.shard.layout import INDEX
from stages.shard.open import array_nodes, check_shard, load_commit, load_manifest, read_groups

Array = NDArray[Any]
FRAMES = ("camera", "world")
CACHE_BYTES = 64 * 2**20
"""Decoded chunks kept per open array, so that clouds of one chunk are decompressed once."""

_SMALL = (
    "cloud_offsets", "cloud_scene", "view", "intrinsics", "T_world_cam",
    "scenes/object_offsets", "scenes/object_index", "scenes/object_pose",
)  # fmt: skip
PER_POINT = {"normals": "float32", "colour": "uint8"}
"""Optional arrays (point, 3), by dtype."""
VISIBILITY = ("object_slot", "grasp_index", "share")


@dataclass(kw_only=True, slots=True)
class _Shard:
    points: Any
    segment: Any
    per_point: dict[str, Any]
    small: dict[str, Array]
    root: dict[str, Any]


@dataclass(kw_only=True, slots=True)
class CloudTable:
    """Rows of the index that belong to one split, and their arrays.

    Picklable and fork-safe: a handle is used only in the process that opened it.
    """

    out: Path
    split: str
    frame: str | None = None
    min_points: int = 0
    hand: str | None = None
    stored_frame: str = ""
    manifest: dict[str, Any] = field(default_factory=dict)
    rows: list[tuple[str, int]] = field(default_factory=list)  # (shard, row)
    keys: list[tuple[str, int]] = field(default_factory=list)  # (scene, view) of each row
    commit: dict[str, Any] = field(default_factory=dict)
    optional: tuple[str, ...] = ()  # arrays that some shard of the dataset has beyond the usual
    _open: dict[str, _Shard] = field(default_factory=dict)
    _pid: int = 0

    def __post_init__(self) -> None:
        self.out = Path(self.out)
        self.manifest, self.commit = load_manifest(self.out), load_commit(self.out)
        index = read_index(self.out / INDEX)
        splits = set(self.manifest["splits"])
        if self.split not in splits:
            raise UnknownChoiceError("split", self.split, splits)
        self.stored_frame = self.manifest["frame"]
        self.frame = self.frame or self.stored_frame
        if self.frame not in FRAMES:
            raise UnknownChoiceError("frame", self.frame, FRAMES)
        mine = [
            row for row in index if row["split"] == self.split and row["points"] >= self.min_points
        ]
        self.rows = [(row["shard"], row["row"]) for row in mine]
        self.keys = [(row["scene"], row["view"]) for row in mine]
        self.optional = tuple(self.manifest.get("optional", ()))

    def __len__(self) -> int:
        return len(self.rows)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in self.__slots__}
        return state | {"_open": {}, "_pid": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def blocks(self, size: int) -> list[tuple[int, int]]:
        """Runs start:stop of at most `size` clouds that lie side by side in one shard."""
        out: list[tuple[int, int]] = []
        start = 0
        for i in range(1, len(self.rows) + 1):
            if i == len(self.rows) or self.rows[i][0] != self.rows[start][0] or i - start == size:
                out.append((start, i))
                start = i
        return out

    def read(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Clouds start:stop, all of one shard, with one read of its points.

        Each: points (N, 3) float32 m in `frame`, segment (N,) uint16, T_world_cam (4, 4),
        intrinsics (6,), scene_id, view, object_ids, object_poses (O, 7) world, index. Where the
        dataset has them: normals (N, 3) float32 in `frame`, colour (N, 3) uint8, distortion (6,)
        (schemas/distortion.py), and with `hand` visibility: a dict of object_slot, grasp_index and
        share, (G,) each.
        """
        name = self.rows[start][0]
        shard = self._shard(name)
        local = [self.rows[i][1] for i in range(start, stop)]
        offsets = shard.small["cloud_offsets"]
        first, last = int(offsets[local[0]]), int(offsets[local[-1] + 1])
        read = {"points": shard.points.read(first, last)}
        read["segment"] = shard.segment.read(first, last)
        for field_, dtype in PER_POINT.items():
            if field_ in shard.per_point:
                read[field_] = shard.per_point[field_].read(first, last)
            elif field_ in self.optional:  # this shard has no point at all
                read[field_] = np.zeros((last - first, 3), dtype)
        out: list[dict[str, Any]] = []
        for i, row in enumerate(local, start):
            part = slice(int(offsets[row]) - first, int(offsets[row + 1]) - first)
            out.append(self._cloud(shard, i, row, {key: a[part] for key, a in read.items()}))
        return out

    def _cloud(
        self, shard: _Shard, index: int, row: int, per_point: dict[str, Array]
    ) -> dict[str, Any]:
        small, root = shard.small, shard.root
        scene = int(small["cloud_scene"][row])
        placed = slice(*small["scenes/object_offsets"][scene : scene + 2].tolist())
        T_world_cam = small["T_world_cam"][row]
        if self.frame != self.stored_frame:
            T = invert(T_world_cam) if self.frame == "camera" else T_world_cam
            per_point["points"] = transform_points(T, per_point["points"]).astype(np.float32)
            if "normals" in per_point:
                turned = per_point["normals"] @ T[:3, :3].T
                per_point["normals"] = turned.astype(np.float32)
        more: dict[str, Any] = {}
        if "distortion" in self.optional:
            more["distortion"] = small["distortion"][row] if "distortion" in small else np.zeros(6)
        if "visibility/row_offsets" in small:
            seen = slice(*small["visibility/row_offsets"][row : row + 2].tolist())
            more["visibility"] = {k: small[f"visibility/{k}"][seen] for k in VISIBILITY}
        return {
            **per_point,
            **more,
            "T_world_cam": T_world_cam,
            "intrinsics": small["intrinsics"][row],
            "scene_id": root["scene_ids"][scene],
            "view": int(small["view"][row]),
            "object_ids": tuple(
                root["object_ids"][k] for k in small["scenes/object_index"][placed]
            ),
            "object_poses": small["scenes/object_pose"][placed],
            "index": index,
        }

    def _shard(self, name: str) -> _Shard:
        if self._pid != os.getpid():
            self._open, self._pid = {}, os.getpid()
        if name not in self._open:
            from stages.shard.backends.zarr3 import ArrayReader

            shard = check_shard(self.out, name, self.commit)
            there = set(array_nodes(shard))
            small = {f: ArrayReader(shard / f).read() for f in _SMALL}
            if "distortion" in there:
                small["distortion"] = ArrayReader(shard / "distortion").read()
            if f"visibility/{self.hand}/share" in there:
                for key in ("row_offsets", *VISIBILITY):
                    path = shard / "visibility" / str(self.hand) / key
                    small[f"visibility/{key}"] = ArrayReader(path).read()
            self._open[name] = _Shard(
                per_point={f: ArrayReader(shard / f, CACHE_BYTES) for f in PER_POINT if f in there},
                points=ArrayReader(shard / "points", CACHE_BYTES),
                segment=ArrayReader(shard / "segment", CACHE_BYTES),
                small=small,
                root=read_groups(shard)[""],
            )
        return self._open[name]


def sample_rows(count: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`size` of `count` rows: without repeats when there are enough, else all and some again."""
    rows = random_points(count, size, rng)
    if count >= size:
        return rows
    return np.concatenate([rows, rng.integers(0, count, size - count)])
