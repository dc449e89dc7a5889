"""Writing Zarr v3 arrays through TensorStore: an inner chunk is what is read, a file holds many."""

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
    elif config.compression == "blosc":
        blosc = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}
        codecs.append(
            {"name": "blosc", "configuration": blosc | {"typesize": array.dtype.itemsize}}
        )
    sharding = {
        "name": "sharding_indexed",
        "configuration": {"chunk_shape": chunk, "codecs": codecs},
    }
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
