"""Reading this project's Zarr v3 arrays straight from their files, without threads.

An inner chunk without compression is read where its rows lie, into the array that wants them: no
chunk is decoded, nothing is copied twice, and one cloud costs one system call. Nothing here breaks
in a process that was forked, as a DataLoader's workers are.
"""

import json
import os
from collections import OrderedDict
from itertools import count
from os import preadv
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from google_crc32c import value as crc32c
from numcodecs import Blosc, Zstd
from numpy.typing import NDArray

from stages.shard.errors import DatasetError

MISSING = 2**64 - 1
"""Offset of an inner chunk that was not written: it holds the fill value, 0."""
OPEN_FILES = 256
DECODERS = {"zstd": Zstd, "blosc": Blosc}


class _File:
    """A descriptor that is closed with its last reference; reads name their offset."""

    __slots__ = ("fd",)

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)


class ChunkCache:
    """Decoded chunks of several arrays, the last used ones, at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0
        self._chunks: OrderedDict[tuple[int, int], memoryview] = OrderedDict()

    def get(self, key: tuple[int, int]) -> memoryview | None:
        if key in self._chunks:
            self._chunks.move_to_end(key)
        return self._chunks.get(key)

    def put(self, key: tuple[int, int], chunk: memoryview) -> None:
        self._chunks[key] = chunk
        self.held += chunk.nbytes
        while self.held > self.limit and len(self._chunks) > 1:
            self.held -= self._chunks.popitem(last=False)[1].nbytes


class ChunkReader:
    """Rows of one array that `zarr3.write_array` wrote. Raises DatasetError for other layouts."""

    _files: ClassVar[OrderedDict[tuple[int, int], tuple["ChunkReader", _File]]] = OrderedDict()
    """Open files of all readers, since a process has few descriptors; by reader and number."""

    def __init__(self, path: Path, cache: ChunkCache | None = None) -> None:
        self.path = path
        node = json.loads((path / "zarr.json").read_bytes())
        try:
            [sharding] = node["codecs"]
            inner = sharding["configuration"]
            first, *packing = inner["codecs"]
            grid = node["chunk_grid"]["configuration"]["chunk_shape"]
            chunk = inner["chunk_shape"]
            sound = (
                (sharding["name"], first["name"]) == ("sharding_indexed", "bytes")
                and grid[1:] == chunk[1:] == node["shape"][1:]
                and first.get("configuration", {"endian": "little"})["endian"] == "little"
                and [c["name"] for c in inner.get("index_codecs", _INDEX)] == ["bytes", "crc32c"]
                and inner.get("index_location", "end") == "end"
                and not node["fill_value"]
                and len(packing) <= 1
            )
            self._decoder = DECODERS[packing[0]["name"]]() if packing else None
        except (KeyError, ValueError, TypeError) as error:
            raise DatasetError(f"{path}: not an array of this project ({error!r})") from error
        if not sound:
            raise DatasetError(f"{path}: not an array of this project; read it with zarr")
        self.shape: tuple[int, ...] = tuple(node["shape"])
        self.dtype = np.dtype(node["data_type"]).newbyteorder("<")
        self._rows: int = chunk[0]
        self._per_file: int = grid[0] // chunk[0]
        self.row_bytes = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        self._tail = "/0" * (len(self.shape) - 1)
        self._index: dict[int, list[tuple[int, int]]] = {}
        self._spans: dict[int, tuple[_File | None, int, int]] = {}
        self._cache = cache if cache is not None else ChunkCache(0)
        self._identity = next(_identities)

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, start: int | None = None, stop: int | None = None) -> NDArray[Any]:
        """Rows start:stop, all when left out."""
        start, stop, _ = slice(start, stop).indices(len(self))
        out = np.empty((max(0, stop - start), *self.shape[1:]), self.dtype)
        self.read_into(start, out)
        return out

    def read_into(self, start: int, out: NDArray[Any]) -> None:
        """Fill `out` (contiguous, of this dtype and row shape) with the rows from `start` on."""
        if not out.size:
            return
        view = memoryview(out.reshape(-1).view(np.uint8))
        self.read_bytes(start, len(out), view)

    def read_bytes(self, start: int, count: int, view: memoryview) -> None:
        """`read_into` for `count` rows, into bytes of exactly their size."""
        number, skip = divmod(start, self._rows)
        width = self.row_bytes
        while count > 0:
            rows = min(self._rows - skip, count)
            length = rows * width
            part = view if rows == count else view[:length]
            file, offset, size = self._spans.get(number) or self._span(number)
            if file is None:
                part[:] = bytes(length)
            elif self._decoder is not None:
                chunk = self._chunk(number, file, offset, size)
                part[:] = chunk[skip * width : skip * width + length]
            elif preadv(file.fd, (part,), offset + skip * width) != length:
                raise DatasetError(f"{self.path}: chunk {number} is cut short; run `verify`")
            number, skip, count, view = number + 1, 0, count - rows, view[length:]

    def _chunk(self, number: int, file: _File, offset: int, size: int) -> memoryview:
        """The bytes of a decoded chunk."""
        key = (self._identity, number)
        found = self._cache.get(key)
        if found is not None:
            return found
        chunk = np.empty(self._rows * self.row_bytes, np.uint8)
        try:
            assert self._decoder is not None
            self._decoder.decode(os.pread(file.fd, size, offset), out=chunk)
        except (RuntimeError, ValueError) as error:
            raise DatasetError(
                f"{self.path}: chunk {number} is damaged ({error}); run `verify`"
            ) from error
        self._cache.put(key, chunk.data)
        return chunk.data

    def _span(self, number: int) -> tuple[_File | None, int, int]:
        """File, offset and bytes of an inner chunk; None for one that was not written."""
        file, k = divmod(number, self._per_file)
        if file not in self._index:
            self._index[file] = self._read_index(file)
        offset, size = self._index[file][k]
        span = (None, 0, 0) if offset == MISSING else (self._file(file), offset, size)
        self._spans[number] = span
        return span

    def _file(self, number: int) -> _File:
        key, files = (self._identity, number), ChunkReader._files
        if key not in files:
            files[key] = self, _File(self.path / f"c/{number}{self._tail}")
        file = files[key][1]
        while len(files) > OPEN_FILES:
            reader, _ = files.popitem(last=False)[1]
            reader._spans = {}
        return file

    def _read_index(self, file: int) -> list[tuple[int, int]]:
        """Zarr's shard index: offset and size of each inner chunk, then their CRC-32C."""
        path = self.path / f"c/{file}{self._tail}"
        if not path.exists():  # all of it is the fill value; a lost file is found by check_shard
            return [(MISSING, MISSING)] * self._per_file
        length = 16 * self._per_file
        with open(path, "rb") as opened:
            opened.seek(-length - 4, os.SEEK_END)
            data = opened.read()
        if crc32c(data[:length]) != int.from_bytes(data[length:], "little"):
            raise DatasetError(f"{path}: the index of its chunks is damaged; run `verify`")
        pairs = np.frombuffer(data[:length], "<u8").reshape(-1, 2).tolist()
        return [(offset, size) for offset, size in pairs]


_identities = count()
_INDEX = [{"name": "bytes"}, {"name": "crc32c"}]


def read_array(path: Path) -> NDArray[Any]:
    """A whole array as numpy."""
    return ChunkReader(path).read()
