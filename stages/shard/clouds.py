"""Clouds of one split as numpy, opened where they are read; what `read.py` turns to tensors."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schemas.dataset import field_of
from schemas.frames import invert, transform_points
from stages.crop import CropSpec
from stages.crop.sampling import sample
from stages.shard.errors import UnknownChoiceError
from stages.shard.index import read_index
from stages.shard.layout import INDEX
from stages.shard.open import array_nodes, check_shard, load_commit, load_manifest, read_groups
from stages.storage import output_path

if TYPE_CHECKING:
    from stages.shard.backends.chunks import ChunkCache, ChunkReader

Array = NDArray[Any]
FRAMES = ("camera", "world")
CACHE_BYTES = 256 * 2**20
"""Decoded chunks kept in a process, so that clouds of one chunk are decompressed once."""

_SMALL = (
    "cloud_offsets", "cloud_scene", "view", "intrinsics", "T_world_cam",
    "scenes/object_offsets", "scenes/object_index", "scenes/object_pose",
)  # fmt: skip
PER_POINT = ("normals", "colour")
"""Optional arrays (point, 3)."""
SAMPLINGS = ("random", "farthest")
BURIED = "scenes/buried_fraction"
VISIBILITY = ("object_slot", "grasp_index", "share")


@dataclass(kw_only=True, slots=True)
class _Shard:
    per_point: dict[str, "ChunkReader"]
    small: dict[str, Array]
    offsets: list[int]  # cloud_offsets
    places: list[list[int]]  # scene and view of each cloud
    scenes: list[dict[str, Any]]  # scene_id, object_ids, object_poses


@dataclass(kw_only=True, slots=True)
class CloudTable:
    """Rows of the index that belong to one split, and their arrays.

    Picklable and fork-safe: what it has open has neither threads nor a position in a file.
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
    _cache: "ChunkCache | None" = None

    def __post_init__(self) -> None:
        self.out = output_path(self.out)
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
        return state | {"_open": {}, "_cache": None}

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
        (schemas/distortion.py), buried_fraction (O,), NaN without grains, and with `hand`
        visibility: a dict of object_slot, grasp_index and share, (G,) each.
        """
        shard = self._shard(self.rows[start][0])
        first = shard.offsets[self.rows[start][1]]
        last = shard.offsets[self.rows[stop - 1][1] + 1]
        read = {key: array.read(first, last) for key, array in shard.per_point.items()}
        for key in set(self.per_point) - set(read):  # this shard has no point at all
            read[key] = self.empty_rows(key, 0)
        out: list[dict[str, Any]] = []
        for i in range(start, stop):
            row = self.rows[i][1]
            part = slice(shard.offsets[row] - first, shard.offsets[row + 1] - first)
            cloud = {key: a[part] for key, a in read.items()} | self.about(i)
            out.append(self._in_frame(cloud | {"index": i}))
        return out

    @property
    def per_point(self) -> tuple[str, ...]:
        """Names of the arrays that each point has a row of."""
        return ("points", "segment", *(key for key in PER_POINT if key in self.optional))

    def empty_rows(self, key: str, *shape: int) -> Array:
        """An array (*shape, ...) whose rows are as those of an array of `per_point`."""
        of = field_of(key)
        return np.empty((*shape, *(n for n in of.shape if isinstance(n, int))), of.dtype)

    def read_fixed(self, indices: Sequence[int], out: dict[str, Array]) -> list[int]:
        """Read clouds as stored into arrays (B, N, ...), by name in `per_point`.

        Returns the places k whose cloud indices[k] has other than N points; they are left as is.
        """
        size = next(iter(out.values())).shape[1]
        views = [(key, a.nbytes // max(1, len(a)), a.reshape(-1).view(np.uint8).data)
                 for key, a in out.items()]  # fmt: skip
        others: list[int] = []
        for k, index in enumerate(indices):
            name, row = self.rows[index]
            shard = self._open.get(name) or self._shard(name)
            start = shard.offsets[row]
            if shard.offsets[row + 1] - start != size:
                others.append(k)
                continue
            for key, width, view in views:
                shard.per_point[key].read_bytes(start, size, view[k * width : (k + 1) * width])
        return others

    def about(self, index: int) -> dict[str, Any]:
        """What `read` gives of a cloud beside its points."""
        name, row = self.rows[index]
        shard = self._shard(name)
        small, (scene, view) = shard.small, shard.places[row]
        more: dict[str, Any] = {}
        if "distortion" in self.optional:
            more["distortion"] = small["distortion"][row] if "distortion" in small else np.zeros(6)
        if "visibility/row_offsets" in small:
            seen = slice(*small["visibility/row_offsets"][row : row + 2].tolist())
            more["visibility"] = {k: small[f"visibility/{k}"][seen] for k in VISIBILITY}
        return {
            **more,
            "T_world_cam": small["T_world_cam"][row],
            "intrinsics": small["intrinsics"][row],
            "view": view,
            **shard.scenes[scene],
        }

    def _in_frame(self, cloud: dict[str, Any]) -> dict[str, Any]:
        if self.frame != self.stored_frame:
            T_world_cam = cloud["T_world_cam"]
            T = invert(T_world_cam) if self.frame == "camera" else T_world_cam
            cloud["points"] = transform_points(T, cloud["points"]).astype(np.float32)
            if "normals" in cloud:
                cloud["normals"] = (cloud["normals"] @ T[:3, :3].T).astype(np.float32)
        return cloud

    def _shard(self, name: str) -> _Shard:
        if name not in self._open:
            from stages.shard.backends.chunks import ChunkCache, ChunkReader, read_array

            shard = check_shard(self.out, name, self.commit)
            there = set(array_nodes(shard))
            small = {f: read_array(shard / f) for f in _SMALL}
            if "distortion" in there:
                small["distortion"] = read_array(shard / "distortion")
            if BURIED in there:
                small[BURIED] = read_array(shard / BURIED)
            if f"visibility/{self.hand}/share" in there:
                for key in ("row_offsets", *VISIBILITY):
                    path = shard / "visibility" / str(self.hand) / key
                    small[f"visibility/{key}"] = read_array(path)
            root = read_groups(shard)[""]
            if self._cache is None:
                self._cache = ChunkCache(CACHE_BYTES)
            self._open[name] = _Shard(
                per_point={
                    f: ChunkReader(shard / f, self._cache) for f in self.per_point if f in there
                },
                small=small,
                offsets=small["cloud_offsets"].tolist(),
                places=list(
                    zip(small["cloud_scene"].tolist(), small["view"].tolist(), strict=True)
                ),
                scenes=[
                    {
                        "scene_id": scene_id,
                        "object_ids": tuple(
                            root["object_ids"][k] for k in small["scenes/object_index"][a:b]
                        ),
                        "object_poses": small["scenes/object_pose"][a:b],
                    }
                    | ({"buried_fraction": small[BURIED][a:b]} if BURIED in small else {})
                    for scene_id, (a, b) in zip(
                        root["scene_ids"],
                        pairwise(small["scenes/object_offsets"].tolist()),
                        strict=True,
                    )
                ],
            )
        return self._open[name]


def sample_rows(points: Array, spec: CropSpec, rng: np.random.Generator) -> NDArray[np.int64]:
    """`spec.num_points` rows of points (N, 3), N >= 1, by the crop's sampling.

    Without repeats when there are enough, else all and some again.
    """
    rows = sample(points, spec, rng)
    rows = np.arange(len(points)) if rows is None else rows
    missing = max(0, spec.num_points - len(points))
    return np.concatenate([rows, rng.integers(0, len(points), missing)]) if missing else rows
