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
from stages.shard.index import SplitIndex, read_split
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
    "cloud_offsets", "cloud_scene", "intrinsics", "T_world_cam",
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
    more: dict[str, Array]  # distortion and visibility, where it has them
    scenes: list[dict[str, Any]]  # scene_id, object_ids, object_poses


@dataclass(kw_only=True, slots=True)
class _Opened:
    """What shards say of each of C clouds beside its points, from when they are opened on."""

    start: NDArray[np.int64]  # (C,) row of its first point in its shard
    scene: NDArray[np.int32]  # (C,) row in the scenes of its shard
    T_world_cam: Array
    intrinsics: Array
    shards: dict[int, _Shard]  # by number in the index


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
    index: SplitIndex = field(init=False)
    commit: dict[str, Any] = field(default_factory=dict)
    optional: tuple[str, ...] = ()  # arrays that some shard of the dataset has beyond the usual
    _opened: _Opened = field(init=False)
    _cache: "ChunkCache | None" = None

    def __post_init__(self) -> None:
        self.out = output_path(self.out)
        self.manifest, self.commit = load_manifest(self.out), load_commit(self.out)
        splits = set(self.manifest["splits"])
        if self.split not in splits:
            raise UnknownChoiceError("split", self.split, splits)
        self.stored_frame = self.manifest["frame"]
        self.frame = self.frame or self.stored_frame
        if self.frame not in FRAMES:
            raise UnknownChoiceError("frame", self.frame, FRAMES)
        self.index = read_split(self.out / INDEX, self.split, self.min_points)
        self._opened = self._nothing_opened()
        self.optional = tuple(self.manifest.get("optional", ()))

    def _nothing_opened(self) -> _Opened:
        count = len(self.index)
        return _Opened(
            start=np.zeros(count, np.int64),
            scene=np.zeros(count, np.int32),
            T_world_cam=np.zeros((count, 4, 4)),
            intrinsics=np.zeros((count, 6)),
            shards={},
        )

    def __len__(self) -> int:
        return len(self.index)

    def __getstate__(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in self.__slots__ if k not in ("_opened", "_cache")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._opened, self._cache = self._nothing_opened(), None

    def blocks(self, size: int) -> NDArray[np.int64]:
        """(B, 2) runs start, stop of at most `size` clouds that lie side by side in one shard."""
        return side_by_side(self.index.shard, size)

    def read(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Clouds start:stop, all of one shard, with one read of its points.

        Each: points (N, 3) float32 m in `frame`, segment (N,) uint16, T_world_cam (4, 4),
        intrinsics (6,), scene_id, view, object_ids, object_poses (O, 7) world, index. Where the
        dataset has them: normals (N, 3) float32 in `frame`, colour (N, 3) uint8, distortion (6,)
        (schemas/distortion.py), buried_fraction (O,), NaN without grains, and with `hand`
        visibility: a dict of object_slot, grasp_index and share, (G,) each.
        """
        shard = self._shard(int(self.index.shard[start]))
        starts = self._opened.start[start:stop].tolist()
        ends = (self._opened.start[start:stop] + self.index.points[start:stop]).tolist()
        first, last = starts[0], ends[-1]
        read = {key: array.read(first, last) for key, array in shard.per_point.items()}
        for key in set(self.per_point) - set(read):  # this shard has no point at all
            read[key] = np.empty(*self.layout(key, 0))
        out: list[dict[str, Any]] = []
        for i, begin, end in zip(range(start, stop), starts, ends, strict=True):
            part = slice(begin - first, end - first)
            cloud = {key: a[part] for key, a in read.items()} | self.about(i)
            out.append(self._in_frame(cloud | {"index": i}))
        return out

    @property
    def per_point(self) -> tuple[str, ...]:
        """Names of the arrays that each point has a row of."""
        return ("points", "segment", *(key for key in PER_POINT if key in self.optional))

    def layout(self, key: str, *shape: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape (*shape, ...) and dtype of rows of an array of `per_point`."""
        of = field_of(key)
        return (*shape, *(n for n in of.shape if isinstance(n, int))), np.dtype(of.dtype)

    def read_fixed(self, indices: Sequence[int], out: dict[str, Array]) -> list[int]:
        """Read clouds as stored into arrays (B, N, ...), by name in `per_point`.

        Returns the places k whose cloud indices[k] has other than N points; they are left as is.
        """
        at = np.asarray(indices)
        fit = self.index.points[at] == next(iter(out.values())).shape[1]
        readers = [self._shard(number).per_point for number in self.index.shard[at].tolist()]
        starts = self._opened.start[at].tolist()
        for key, array in out.items():
            for k in np.flatnonzero(fit).tolist():
                readers[k][key].read_into(starts[k], array[k])
        return np.flatnonzero(~fit).tolist()

    def points_of(self, index: int) -> dict[str, Array]:
        """The arrays of `per_point` (N, ...) of a cloud of at least one point, as stored."""
        per_point = self._shard(int(self.index.shard[index])).per_point
        first, count = int(self._opened.start[index]), int(self.index.points[index])
        return {key: array.read(first, first + count) for key, array in per_point.items()}

    def ahead(self, indices: NDArray[np.int64]) -> None:
        """Have the system read what these clouds are made of, without waiting for it."""
        for a, b in side_by_side(self.index.shard, 2**30, np.sort(indices)):
            shard = self._shard(int(self.index.shard[a]))
            last = int(self._opened.start[b - 1] + self.index.points[b - 1])
            for array in shard.per_point.values():
                array.ahead(int(self._opened.start[a]), last)

    def about(self, index: int) -> dict[str, Any]:
        """What `read` gives of a cloud beside its points."""
        more: dict[str, Any] = {}
        stored, row = self._shard(int(self.index.shard[index])).more, int(self.index.row[index])
        if "distortion" in self.optional:
            more["distortion"] = (
                stored["distortion"][row] if "distortion" in stored else np.zeros(6)
            )
        if "row_offsets" in stored:
            seen = slice(*stored["row_offsets"][row : row + 2].tolist())
            more["visibility"] = {k: stored[k][seen] for k in VISIBILITY}
        return more | {key: values[0] for key, values in self.abouts([index]).items()}

    def abouts(self, indices: Sequence[int]) -> dict[str, Any]:
        """`about` by name, each a list or an array (B, ...), without distortion and visibility."""
        at, opened = np.asarray(indices), self._opened
        shards = [self._shard(number) for number in self.index.shard[at].tolist()]
        scenes = [s.scenes[i] for s, i in zip(shards, opened.scene[at].tolist(), strict=True)]
        return {
            "T_world_cam": opened.T_world_cam[at],
            "intrinsics": opened.intrinsics[at],
            "view": self.index.view[at].tolist(),
            **{key: [scene[key] for scene in scenes] for key in scenes[0]},
        }

    def _in_frame(self, cloud: dict[str, Any]) -> dict[str, Any]:
        if self.frame != self.stored_frame:
            T_world_cam = cloud["T_world_cam"]
            T = invert(T_world_cam) if self.frame == "camera" else T_world_cam
            cloud["points"] = transform_points(T, cloud["points"]).astype(np.float32)
            if "normals" in cloud:
                cloud["normals"] = (cloud["normals"] @ T[:3, :3].T).astype(np.float32)
        return cloud

    def _shard(self, number: int) -> _Shard:
        return self._opened.shards.get(number) or self._open(number)

    def _open(self, number: int) -> _Shard:
        from stages.shard.backends.chunks import ChunkCache, ChunkReader, read_array

        shard = check_shard(self.out, self.index.shards[number], self.commit)
        there = set(array_nodes(shard))
        small = {f: read_array(shard / f) for f in _SMALL}
        more = {f: read_array(shard / f) for f in ("distortion",) if f in there}
        seen = f"visibility/{self.hand}"
        if f"{seen}/share" in there:
            more |= {key: read_array(shard / seen / key) for key in ("row_offsets", *VISIBILITY)}
        buried = read_array(shard / BURIED) if BURIED in there else None
        root = read_groups(shard)[""]
        scenes: list[dict[str, Any]] = []
        cuts = pairwise(small["scenes/object_offsets"].tolist())
        for scene_id, (a, b) in zip(root["scene_ids"], cuts, strict=True):
            names = tuple(root["object_ids"][k] for k in small["scenes/object_index"][a:b])
            scene = {"scene_id": scene_id, "object_ids": names,
                     "object_poses": small["scenes/object_pose"][a:b]}  # fmt: skip
            scenes.append(scene | ({} if buried is None else {"buried_fraction": buried[a:b]}))
        opened, mine = self._opened, self.index.shard == number
        rows = self.index.row[mine]
        opened.start[mine] = small["cloud_offsets"][rows]
        opened.scene[mine] = small["cloud_scene"][rows]
        opened.T_world_cam[mine] = small["T_world_cam"][rows]
        opened.intrinsics[mine] = small["intrinsics"][rows]
        self._cache = self._cache or ChunkCache(CACHE_BYTES)
        readers = {f: ChunkReader(shard / f, self._cache) for f in self.per_point if f in there}
        return opened.shards.setdefault(number, _Shard(per_point=readers, more=more, scenes=scenes))


def side_by_side(
    shard: NDArray[np.int32], size: int, rows: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """(B, 2) runs start, stop of at most `size` of the sorted rows, all if not given.

    The rows of a run follow each other, and `shard`, by row, is the same for all.
    """
    rows = np.arange(len(shard)) if rows is None else rows
    cut = np.flatnonzero((np.diff(rows) != 1) | (np.diff(shard[rows]) != 0)) + 1
    edges = np.concatenate([[0], cut, [len(rows)]])
    runs = [np.arange(a, b, size) for a, b in pairwise(edges.tolist())]
    starts = np.concatenate([np.zeros(0, np.int64), *runs])
    stops = np.append(starts[1:], len(rows))[: len(starts)]
    return np.stack([rows[starts], rows[stops - 1] + 1], axis=1)


def sample_rows(points: Array, spec: CropSpec, rng: np.random.Generator) -> NDArray[np.int64]:
    """`spec.num_points` rows of points (N, 3), N >= 1, by the crop's sampling.

    Without repeats when there are enough, else all and some again.
    """
    rows = sample(points, spec, rng)
    rows = np.arange(len(points)) if rows is None else rows
    missing = max(0, spec.num_points - len(points))
    return np.concatenate([rows, rng.integers(0, len(points), missing)]) if missing else rows
