"""Foreign files, read within limits: a size before the bytes, a shape before the memory."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas.errors import ForeignFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

JSON_LIMIT = 2**28  # bytes; a million grasps as text are about this
NPY_LIMIT = 2**31  # bytes


def read_limited(path: Path, limit: int) -> bytes:
    """All bytes of a plain file; ForeignFileError when there are more than `limit`, or no file.

    FileNotFoundError and PermissionError are passed on.
    """
    try:
        if path.exists() and not path.is_file():
            raise ForeignFileError(path, "expected a plain file, got a folder or a device")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except ValueError as error:
        if isinstance(error, ForeignFileError):
            raise
        raise ForeignFileError(path, str(error)) from error  # a null byte in the name
    if len(data) > limit:
        raise ForeignFileError(path, f"expected at most {limit} bytes, got more")
    return data


def read_json(path: Path, limit: int = JSON_LIMIT) -> Any:
    """The value of a JSON file; ForeignFileError when it is no JSON, too long or too deep."""
    data = read_limited(path, limit)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ForeignFileError(path, f"not JSON: {error}") from error


def load_npy(path: Path, limit: int = NPY_LIMIT) -> "NDArray[Any]":
    """The array of a .npy file of plain numbers, text or booleans; ForeignFileError otherwise.

    The header's shape is compared with the bytes that follow before memory is asked for.
    """
    import numpy as np  # markers are read by processes that need no arrays

    data = read_limited(path, limit)
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        size = dtype.itemsize
        for length in shape:
            size *= length
        if dtype.hasobject or min(shape, default=0) < 0 or size != len(data) - file.tell():
            raise ValueError(
                f"{dtype} {shape} needs {size} bytes, but {len(data) - file.tell()} follow"
            )
        return np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # numpy parses the header as Python, which fails in many ways
        raise ForeignFileError(path, f"not a .npy file of numbers: {error}") from error
