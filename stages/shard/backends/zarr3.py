"""Zarr v3 arrays through TensorStore: one inner chunk is what is read, one file holds many."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore as ts
from numpy.typing import NDArray

from stages.shard.config import ShardConfig
from stages.shard.layout import canonical


def write_group(path: Path, attributes: dict[str, Any]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    node = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (path / "zarr.json").write_bytes(canonical(node))


def write_array(
    path: Path,
    array: NDArray[Any],
    *,
    dimensions: tuple[str | None, ...],
    attributes: dict[str, Any],
    config: ShardConfig,
) -> None:
    """Write a whole array at once; the bytes on disk depend on the arguments only.

    The file (Zarr shard) is whole chunks long, so it may be longer than the array.
    """
    rows = max(1, min(config.chunk_points, len(array)))
    chunk = [rows, *array.shape[1:]]
    chunks = max(1, min(config.chunks_per_file, -(-len(array) // rows)))
    codecs: list[dict[str, Any]] = [{"name": "bytes"}]
    if array.dtype.itemsize > 1:
        codecs[0]["configuration"] = {"endian": "little"}
    if config.compression == "zstd":
        codecs.append({"name": "zstd", "configuration": {"level": config.compression_level}})
    sharding = {
        "name": "sharding_indexed",
        "configuration": {"chunk_shape": chunk, "codecs": codecs},
    }
    global _used
    _used = True
    store = ts.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": str(path)},
            "create": True,
            "delete_existing": True,
            "metadata": {
                "shape": list(array.shape),
                "data_type": array.dtype.name,
                "fill_value": False if array.dtype == bool else 0,
                "chunk_grid": {
                    "name": "regular",
                    "configuration": {"chunk_shape": [rows * chunks, *array.shape[1:]]},
                },
                "codecs": [sharding],
                "attributes": attributes,
                "dimension_names": list(dimensions),
            },
        }
    ).result()
    store.write(np.ascontiguousarray(array)).result()


class ArrayReader:
    """Rows of one array on disk, opened once."""

    def __init__(self, path: Path, cache_bytes: int = 0) -> None:
        self._store: Any = _open_forked(path) if _forked else _open(path, cache_bytes)

    def read(self, start: int | None = None, stop: int | None = None) -> NDArray[Any]:
        """Rows start:stop as numpy, all when left out."""
        part = self._store[start:stop]
        return part if isinstance(part, np.ndarray) else np.asarray(part.read().result())


def read_array(path: Path) -> NDArray[Any]:
    """A whole array as numpy."""
    return ArrayReader(path).read()


_used = False  # TensorStore has started its threads in this process
_forked = False  # this process was forked from one that had


def _after_fork() -> None:
    global _forked
    _forked = _forked or _used


# TensorStore aborts the process when its threads did not survive a fork, as they never do. A
# DataLoader forks by default, so a worker forked after the first read goes on with zarr-python.
os.register_at_fork(after_in_child=_after_fork)


def _open(path: Path, cache_bytes: int) -> Any:
    global _used
    _used = True
    context = ts.Context({"cache_pool": {"total_bytes_limit": cache_bytes}})
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(path)},
        "recheck_cached_data": False,
        "recheck_cached_metadata": False,
    }
    return ts.open(spec, open=True, read=True, context=context).result()


def _open_forked(path: Path) -> Any:
    import zarr

    return zarr.open_array(path, mode="r")
