"""Grasp files that hold a pickled dict or list: read by `schemas.pickled`, written here."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from schemas.errors import ForeignFileError
from schemas.pickled import read_pickled as read_any
from stages.grasp.errors import GraspFormatError


def read_pickled(path: Path, encoding: str = "ASCII") -> Any:
    """`schemas.pickled.read_pickled`, for which GraspFormatError says what to do."""
    try:
        return read_any(path, encoding)
    except ForeignFileError as error:
        raise GraspFormatError(
            path,
            "content",
            expected="a .npy file of numbers, or a pickled dict or list of arrays, scalars, "
            "text and plain containers",
            got=error.problem,
            fix="do not unpickle it by other means unless you trust its author; ask for a "
            "file without other objects",
        ) from error


def pickled_bytes(value: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    """A `.npy` file of `value`, as `numpy.save` makes it from a dict or a list of dicts."""
    if isinstance(value, list):
        array = np.empty(len(value), object)
        array[:] = value
    else:
        array = np.array(value, object)
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()
