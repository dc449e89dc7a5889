"""Arrays of an npz that holds thousands of small ones, several times as fast as numpy.load.

numpy evaluates the header of every array as Python and opens every member as a file, which was
most of what writing a dataset took. But headers repeat, and what numpy.savez writes lies there as
it is.
"""

import io
import zipfile
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

LOCAL_HEADER = 30  # bytes, before the name and the extra field; their lengths are its last two
MAGIC = b"\x93NUMPY\x01\x00"


def read_npz(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays that `numpy.load(..., allow_pickle=False)` gives, by name.

    `data` is as long and has the checksum that it should; the archive's own are not looked at.
    Raises ValueError or zipfile.BadZipFile for what is no npz of plain arrays.
    """
    view, out = memoryview(data), dict[str, NDArray[Any]]()
    with np.load(io.BytesIO(data), allow_pickle=False) as npz:
        for member in npz.zip.infolist():
            lengths = member.header_offset + LOCAL_HEADER - 4
            name, extra = np.frombuffer(data, "<u2", 2, lengths).tolist()
            start = lengths + 4 + name + extra
            content = view[start : start + member.file_size]
            # Else: compressed, or of a longer header, or of names that are not ASCII.
            stored = member.compress_type == zipfile.ZIP_STORED
            key = member.filename.removesuffix(".npy")
            out[key] = (
                _array(content) if stored and bytes(content[: len(MAGIC)]) == MAGIC else npz[key]
            )
    return out


def _array(content: memoryview) -> NDArray[Any]:
    start = len(MAGIC) + 2
    stop = start + int.from_bytes(content[start - 2 : start], "little")
    shape, fortran, dtype = _header(bytes(content[start - 2 : stop]))
    try:
        order = "F" if fortran else "C"
        return np.ndarray(shape, dtype, content, stop, order=order).copy(order="K")
    except TypeError as error:
        raise ValueError(f"an array {dtype} {shape} in {len(content)} bytes: {error}") from error


@lru_cache(maxsize=1024)
def _header(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(text))
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which is a pickle and is not read")
    return shape, fortran, dtype
