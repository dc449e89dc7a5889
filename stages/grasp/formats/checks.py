"""Checks on what a file holds; every failure names the file and the field."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import FrameError
from schemas.frames import check_quaternion, check_transform
from stages.grasp.errors import GraspFormatError

Float = NDArray[np.float64]


def member(path: Path, values: Any, *keys: str) -> Any:
    """`values[key][...]`, through nested mappings."""
    for depth, key in enumerate(keys):
        place = "/".join(keys[:depth]) or "the file"
        if not isinstance(values, Mapping):
            raise GraspFormatError(
                path,
                place,
                expected=f"a mapping with {key!r}",
                got=type(values).__name__,
                fix="check that the file is of the format it is read as",
            )
        if key not in values:
            raise GraspFormatError(
                path,
                place,
                expected=f"the key {key!r}",
                got=f"the keys {sorted(map(str, values))}",
                fix="check that the file is of the format it is read as",
            )
        values = values[key]
    return values


def numbers(path: Path, name: str, value: Any, shape: tuple[int | None, ...]) -> Float:
    """`value` as finite float64 of `shape`, in which None stands for any positive length."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise GraspFormatError(
            path,
            name,
            expected="an array of numbers",
            got=f"{type(value).__name__} ({error})",
            fix="the rows may differ in length; repair or drop them",
        ) from error
    fits = array.ndim == len(shape) and all(
        n == want or (want is None and n > 0) for n, want in zip(array.shape, shape, strict=True)
    )
    if not fits:
        want = tuple("N > 0" if n is None else n for n in shape)
        raise GraspFormatError(
            path,
            name,
            expected=f"shape {want}",
            got=f"{array.shape}",
            fix="check that the file is of this format and this hand",
        )
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        raise GraspFormatError(
            path,
            name,
            expected="finite numbers",
            got=f"NaN or infinity in {len(bad)} places, first at {bad[0].tolist()}",
            fix="drop those grasps",
        )
    return array


def unit_quaternions(path: Path, name: str, q_wxyz: Float) -> None:
    """Check (N, 4) quaternions."""
    _each_row(path, name, q_wxyz, check_quaternion, "a unit quaternion wxyz")


def rigid_transforms(path: Path, name: str, value: Any) -> Float:
    """(N, 4, 4) rigid transforms."""
    transforms = numbers(path, name, value, (None, 4, 4))
    _each_row(path, name, transforms, check_transform, "a rigid transform")
    return transforms


def _each_row(
    path: Path, name: str, rows: Float, check: Callable[[Float], object], expected: str
) -> None:
    for i, row in enumerate(rows):
        try:
            check(row)
        except FrameError as error:
            raise GraspFormatError(
                path,
                f"{name}, row {i}",
                expected=expected,
                got=f"{row.tolist()}",
                fix=str(error),
            ) from error


def object_scale(path: Path, value: Any) -> float:
    """A positive scale; equal copies of it, one a grasp, count as one."""
    scales = np.unique(numbers(path, "object scale", np.ravel(value), (None,)))
    if len(scales) != 1 or not scales[0] > 0:
        raise GraspFormatError(
            path,
            "object scale",
            expected="one positive number",
            got=f"{scales.tolist()}",
            fix="split the file by scale",
        )
    return float(scales[0])


def success_flags(path: Path, name: str, value: Any, count: int) -> NDArray[np.bool_]:
    """(count,) of 0 and 1, or of booleans."""
    flags = numbers(path, name, np.ravel(value), (count,))
    if not np.isin(flags, (0.0, 1.0)).all():
        raise GraspFormatError(
            path,
            name,
            expected="0 or 1",
            got=f"{np.unique(flags).tolist()[:5]}",
            fix="threshold the values first",
        )
    return flags.astype(np.bool_)
