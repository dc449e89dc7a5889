"""Our reader of Zarr against zarr-python and TensorStore; damage and foreign layouts."""

import json

import numpy as np
import pytest
import tensorstore as ts
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stages.shard.backends.chunks import ChunkCache, ChunkReader
from stages.shard.backends.zarr3 import write_array
from stages.shard.config import COMPRESSIONS, ShardConfig
from stages.shard.errors import DatasetError


def written(path, array, compression="none", chunk=7, chunks=3):
    config = ShardConfig(chunk_points=chunk, chunks_per_file=chunks, compression=compression)
    dimensions = (None,) * array.ndim
    write_array(path, array, dimensions=dimensions, attributes={}, config=config)
    return path


@given(
    rows=st.integers(0, 60),
    tail=st.sampled_from([(), (3,), (4, 4)]),
    dtype=st.sampled_from(["float32", "float64", "uint16", "uint8", "int64", "bool"]),
    compression=st.sampled_from(COMPRESSIONS),
    empty=st.booleans(),
    cut=st.tuples(st.integers(0, 60), st.integers(0, 60)),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_reads_what_the_others_read(tmp_path, rows, tail, dtype, compression, empty, cut):
    rng = np.random.default_rng(rows)
    array = rng.integers(0, 2, (rows, *tail)).astype(dtype)
    if empty:  # chunks and files of zeros are not written at all
        array[5:45] = 0
    path = written(tmp_path / "a", array, compression)
    cache = ChunkCache(200)
    reader = ChunkReader(path, cache)
    start, stop = cut
    reader.ahead(min(start, rows), rows)  # advice, which changes nothing
    for part in (slice(None), slice(start, stop)):
        np.testing.assert_array_equal(reader.read(part.start, part.stop), array[part], strict=True)
    np.testing.assert_array_equal(zarr.open_array(path, mode="r")[:], array)
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    np.testing.assert_array_equal(ts.open(spec, open=True).result().read().result(), array)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_damage_is_named(tmp_path, compression):
    array = np.random.default_rng(0).random((50, 3))
    path = written(tmp_path / "a", array, compression)
    file = path / "c/0/0"
    whole = file.read_bytes()
    file.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with pytest.raises(DatasetError, match="index of its chunks is damaged; run `verify`"):
        ChunkReader(path).read()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_file_that_was_cut_is_named(tmp_path, compression):
    """Nothing is left, or its index is whole but names bytes that are not there."""
    array = np.random.default_rng(0).random((50, 3))
    path = written(tmp_path / "a", array, compression)
    file = path / "c/0/0"
    file.write_bytes(file.read_bytes()[-3 * 16 - 4 - 100 :])
    with pytest.raises(DatasetError, match="index of its chunks names other bytes; run `verify`"):
        ChunkReader(path).read()
    for left in (b"", b"cut"):
        file.write_bytes(left)
        with pytest.raises(DatasetError, match="index of its chunks is damaged; run `verify`"):
            ChunkReader(path).read()


def test_other_layouts_are_refused(tmp_path):
    array = zarr.create_array(tmp_path / "a", shape=(9, 3), chunks=(3, 3), dtype="f4")
    array[:] = 1
    with pytest.raises(DatasetError, match="not an array of this project"):
        ChunkReader(tmp_path / "a")
    path = written(tmp_path / "b", np.ones((20, 3)))
    node = json.loads((path / "zarr.json").read_bytes())
    (path / "zarr.json").write_text(json.dumps(node | {"fill_value": 1.0}))
    with pytest.raises(DatasetError, match="read it with zarr"):
        ChunkReader(path)


def test_files_are_closed(tmp_path, monkeypatch):
    monkeypatch.setattr("stages.shard.backends.chunks.OPEN_FILES", 2)
    readers = [ChunkReader(written(tmp_path / str(i), np.full((40, 3), i + 1))) for i in range(5)]
    for _ in range(2):
        for i, reader in enumerate(readers):
            assert (reader.read() == i + 1).all()
    assert len(ChunkReader._maps) <= 2
