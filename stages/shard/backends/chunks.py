"""Reading this project's Zarr v3 arrays straight from their files, without threads.

Files are mapped into memory. Rows without compression are copied from where they lie into the array
that wants them: no chunk is decoded, nothing is copied twice, and a cloud costs no system call.
Nothing here breaks in a process that was forked, as a DataLoader's workers are. Shards never change
where they lie, a new one takes the place of the old: so a map stays what it was when it was made.
"""

import json
import mmap
import os
from collections import OrderedDict
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from google_crc32c import value as crc32c
from numcodecs import Blosc, Zstd
from numpy.typing import NDArray

from stages.shard.errors import DatasetError

MISSING = 2**64 - 1
"""Offset of an inner chunk that was not written: it holds the fill value, 0."""
OPEN_FILES = 256
"""Files that a process keeps mapped; each map holds a descriptor."""
DECODERS = {"zstd": Zstd, "blosc": Blosc}


class ChunkCache:
    """Decoded chunks of several arrays, the last used ones, at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit, self.held = limit, 0
        self._chunks: OrderedDict[tuple[int, int], NDArray[Any]] = OrderedDict()

    def get(self, key: tuple[int, int]) -> NDArray[Any] | None:
        if key in self._chunks:
            self._chunks.move_to_end(key)
        return self._chunks.get(key)

    def put(self, key: tuple[int, int], chunk: NDArray[Any]) -> None:
        self._chunks[key] = chunk
        self.held += chunk.nbytes
        while self.held > self.limit and len(self._chunks) > 1:
            self.held -= self._chunks.popitem(last=False)[1].nbytes


class ChunkReader:
    """Rows of one array that `zarr3.write_array` wrote. Raises DatasetError for other layouts."""

    _maps: ClassVar[OrderedDict[tuple[int, int], "ChunkReader"]] = OrderedDict()
    """Who has a file mapped, since a process has few descriptors; by reader and number of file."""

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
        self._file_rows = self._rows * self._per_file
        self._chunk_bytes = self._rows * self.dtype.itemsize * int(np.prod(self.shape[1:]))
        self._tail = "/0" * (len(self.shape) - 1)
        self._files: dict[int, _File] = {}
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
        """Fill `out` (R, ...), of a dtype that holds the values, with rows from `start` on."""
        number, first = divmod(start, self._file_rows)
        file, rows = self._files.get(number), len(out)
        if file is not None and file.rows is not None and first + rows <= len(file.rows):
            out[...] = file.rows[first : first + rows]
            return
        done = 0
        while done < rows:
            number, first = divmod(start + done, self._rows)
            part = self._chunk(number)[first : first + rows - done]
            out[done : done + len(part)] = part
            done += len(part)

    def ahead(self, start: int, stop: int) -> None:
        """Ask the system to read the rows start:stop from disk, without waiting for them."""
        for number in range(start // self._file_rows, -(-stop // self._file_rows)):
            file = self._file(number)
            first = max(0, start // self._rows - number * self._per_file)
            last = min(self._per_file, -(-stop // self._rows) - number * self._per_file)
            spans = [(a, a + n) for a, n in file.index[first:last] if a != MISSING]
            if file.data is not None and spans:
                begin = min(spans)[0] // mmap.PAGESIZE * mmap.PAGESIZE
                file.data.madvise(mmap.MADV_WILLNEED, begin, max(spans)[1] - begin)

    def _chunk(self, number: int) -> NDArray[Any]:
        """The rows of an inner chunk, decoded."""
        of, k = divmod(number, self._per_file)
        file = self._file(of)
        offset, size = file.index[k]
        if file.data is None or offset == MISSING:
            return np.broadcast_to(np.zeros((), self.dtype), (self._rows, *self.shape[1:]))
        if self._decoder is None:
            return self._as_rows(np.frombuffer(file.data, np.uint8, size, offset))
        key = (self._identity, number)
        found = self._cache.get(key)
        if found is not None:
            return found
        decoded = np.empty(self._chunk_bytes, np.uint8)
        try:
            self._decoder.decode(file.data[offset : offset + size], out=decoded)
        except (RuntimeError, ValueError) as error:
            raise DatasetError(
                f"{self.path}: chunk {number} is damaged ({error}); run `verify`"
            ) from error
        self._cache.put(key, chunk := self._as_rows(decoded))
        return chunk

    def _as_rows(self, data: NDArray[np.uint8]) -> NDArray[Any]:
        return data.view(self.dtype).reshape(-1, *self.shape[1:])

    def _file(self, number: int) -> "_File":
        if number not in self._files:
            self._files[number] = self._map(number)
            ChunkReader._maps[self._identity, number] = self
            while len(ChunkReader._maps) > OPEN_FILES:
                (_, oldest), reader = ChunkReader._maps.popitem(last=False)
                del reader._files[oldest]
        return self._files[number]

    def _map(self, number: int) -> "_File":
        """Map a file and read its end, Zarr's shard index: offset and size of each inner chunk."""
        path = self.path / f"c/{number}{self._tail}"
        if not path.exists():  # all of it is the fill value; a lost file is found by check_shard
            return _File(None, [(MISSING, MISSING)] * self._per_file, None)
        with open(path, "rb") as opened:
            empty = not os.fstat(opened.fileno()).st_size  # which cannot be mapped
            data = b"" if empty else mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        end = len(data) - 16 * self._per_file - 4
        index = data[max(0, end) : -4]
        if (
            isinstance(data, bytes)
            or end < 0
            or crc32c(index) != int.from_bytes(data[-4:], "little")
        ):
            raise DatasetError(f"{path}: the index of its chunks is damaged; run `verify`")
        pairs = np.frombuffer(index, "<u8").reshape(-1, 2)
        there = pairs[pairs[:, 0] != MISSING]
        wrong = (there[:, 0] > end) | (there[:, 1] > end) | (there.sum(axis=1) > end)
        if self._decoder is None:
            wrong |= there[:, 1] != self._chunk_bytes
        if wrong.any():
            raise DatasetError(f"{path}: the index of its chunks names other bytes; run `verify`")
        rows = None
        in_order = np.arange(len(there), dtype=np.uint64) * np.uint64(self._chunk_bytes)
        if self._decoder is None and np.array_equal(pairs[: len(there), 0], in_order):
            rows = self._as_rows(np.frombuffer(data, np.uint8, len(there) * self._chunk_bytes))
        return _File(data, pairs.tolist(), rows)


class _File(NamedTuple):
    data: mmap.mmap | None
    index: list[tuple[int, int]]  # offset and bytes of each inner chunk
    rows: NDArray[Any] | None  # what lies in it, where its chunks lie one behind the other


_identities = count()
_INDEX = [{"name": "bytes"}, {"name": "crc32c"}]


def read_array(path: Path) -> NDArray[Any]:
    """A whole array as numpy."""
    return ChunkReader(path).read()
