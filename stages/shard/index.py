"""index.parquet: one row per view, for choosing clouds without opening a shard."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("scene", "kind", "view", "split", "shard", "row", "points", "valid_count", "object_ids")


def index_bytes(rows: list[dict[str, Any]]) -> bytes:
    """Parquet bytes of rows that hold COLUMNS; equal rows give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, number = pa.string(), pa.int64()
    types = [text, text, number, text, text, number, number, number, pa.list_(text)]
    schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    return bytes(sink.getvalue())


def read_index(path: Path) -> list[dict[str, Any]]:
    """Rows as dicts, in the order written: by split, then scene, then view."""
    return _table(path).to_pylist()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SplitIndex:
    """C clouds of one split in the order of the index, as arrays: some 30 bytes a cloud.

    Millions of Python objects would be copied into every worker that a loader forks, as soon as
    it counts its references to them.
    """

    shards: tuple[str, ...]
    shard: NDArray[np.int32]  # (C,) number in `shards`
    row: NDArray[np.int64]  # (C,) in the shard
    points: NDArray[np.int64]  # (C,)
    view: NDArray[np.int64]  # (C,)
    scene: NDArray[np.int32]  # (C,) number in `scenes`
    scenes: "pa.StringArray"

    def __len__(self) -> int:
        return len(self.row)

    @property
    def keys(self) -> list[tuple[str, int]]:
        """Scene and view of every cloud."""
        names = self.scenes.to_pylist()
        return [(names[s], v) for s, v in zip(self.scene.tolist(), self.view.tolist(), strict=True)]

    def key(self, i: int) -> tuple[str, int]:
        """Scene and view of a cloud."""
        return self.scenes[int(self.scene[i])].as_py(), int(self.view[i])

    def place(self, i: int) -> tuple[str, int]:
        """Shard of a cloud, and its row there."""
        return self.shards[self.shard[i]], int(self.row[i])


def read_split(path: Path, split: str, min_points: int) -> SplitIndex:
    """Clouds of a split that have at least so many points."""
    import pyarrow.compute as pc

    table = _table(path).select(["split", "shard", "row", "points", "view", "scene"])
    mine = pc.and_(pc.equal(table["split"], split), pc.greater_equal(table["points"], min_points))  # pyright: ignore[reportAttributeAccessIssue]
    table = table.filter(mine).combine_chunks()
    shard, scene = (table[name].combine_chunks().dictionary_encode() for name in ("shard", "scene"))
    return SplitIndex(
        shards=tuple(shard.dictionary.to_pylist()),
        shard=shard.indices.to_numpy(),
        scene=scene.indices.to_numpy(),
        scenes=scene.dictionary,
        **{name: table[name].to_numpy() for name in ("row", "points", "view")},
    )


def _table(path: Path) -> "pa.Table":
    import pyarrow.parquet as pq

    # ParquetFile, not read_table: the latter starts the dataset machinery for one small file.
    return pq.ParquetFile(io.BytesIO(path.read_bytes())).read()
