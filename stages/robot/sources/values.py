"""A value out of a file of another program: `FILE` or `FILE#KEY`."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from schemas.errors import ForeignFileError
from schemas.files import NPY_LIMIT, load_npy, read_json, read_limited
from schemas.pickled import read_pickled
from stages.crop.errors import ImageFileError
from stages.crop.files import read_png
from stages.robot.errors import CaptureError


def read_value(folder: Path, reference: str) -> Any:
    """The value that `reference`, relative to `folder`, names. Raises CaptureError.

    `.npy` (plain, or a pickled dict with KEY), `.pkl`, `.npz`, `.json`, `.mat` (needs scipy),
    `.png` (needs Pillow).
    """
    name, _, key = reference.partition("#")
    path = folder / name
    try:
        found = _READERS[path.suffix](path)
    except KeyError:
        kinds = ", ".join(_READERS)
        raise CaptureError(f"{path}: expected one of {kinds}, got {path.suffix!r}") from None
    except FileNotFoundError as error:
        raise CaptureError(f"{path}: no such file") from error
    except (OSError, ForeignFileError, ImageFileError) as error:
        raise CaptureError(f"{error}") from error
    if not key:
        if isinstance(found, Mapping):
            keys = ", ".join(sorted(map(str, cast(Mapping[str, Any], found))))
            raise CaptureError(f"{path}: holds several values, say which: {name}#KEY of {keys}")
        return found
    if not isinstance(found, Mapping) or key not in found:
        held = sorted(map(str, found)) if isinstance(found, Mapping) else type(found).__name__
        raise CaptureError(f"{path}: expected {key!r}, it holds {held}")
    return cast(Mapping[str, Any], found)[key]


def read_numbers(folder: Path, reference: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """A finite array of `shape` that `reference` names; -1 in `shape` is any length."""
    value = read_value(folder, reference)
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise CaptureError(f"{folder / reference}: expected numbers: {error}") from error
    if array.ndim != len(shape) or any(
        want not in (-1, got) for want, got in zip(shape, array.shape, strict=True)
    ):
        raise CaptureError(f"{folder / reference}: expected shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise CaptureError(f"{folder / reference}: holds NaN or infinity")
    return array


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a `.npz` file of plain numbers. Raises CaptureError."""
    data = read_limited(path, NPY_LIMIT)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            if sum(entry.file_size for entry in arrays.zip.infolist()) > NPY_LIMIT:
                raise ValueError(f"over {NPY_LIMIT} bytes when unpacked")
            return {name: np.asarray(arrays[name]) for name in arrays.files}
    except Exception as error:  # zip and npy headers fail in many ways
        raise CaptureError(f"{path}: cannot be read as .npz: {error}") from error


def _npy(path: Path) -> Any:
    try:
        return load_npy(path)
    except ForeignFileError:
        return read_pickled(path, "latin1")


def _pickle(path: Path) -> Any:
    return read_pickled(path, "latin1")


def _mat(path: Path) -> dict[str, Any]:
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise CaptureError(f"{path}: .mat needs scipy: pip install scipy") from error
    data = read_limited(path, NPY_LIMIT)
    try:
        return cast(dict[str, Any], loadmat(io.BytesIO(data)))
    except Exception as error:  # scipy fails in many ways on a broken file
        raise CaptureError(f"{path}: cannot be read as .mat: {error}") from error


_READERS: dict[str, Any] = {
    ".npy": _npy,
    ".pkl": _pickle,
    ".npz": read_npz,
    ".json": read_json,
    ".mat": _mat,
    ".png": read_png,
}
