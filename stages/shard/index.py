"""index.parquet: one row per view, for choosing clouds without opening a shard."""

import io
from pathlib import Path
from typing import Any

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
    import pyarrow.parquet as pq

    # ParquetFile, not read_table: the latter starts the dataset machinery for one small file.
    return pq.ParquetFile(io.BytesIO(path.read_bytes())).read().to_pylist()
