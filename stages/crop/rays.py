"""Which ray each pixel looks along. The one function for rendering and for the robot."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics

F32 = NDArray[np.float32]


def pixel_slopes(intrinsics: Intrinsics) -> tuple[F32, F32]:
    """x/z of each column (W,) and y/z of each row (H,), at pixel centres (+0.5), camera frame.

    Those of an ideal lens; `slopes_at` takes the lens's distortion into account.
    """
    column, row = _ideal_slopes(intrinsics)
    return column.astype(np.float32), row.astype(np.float32)


def slopes_at(pixel: NDArray[np.integer], intrinsics: Intrinsics) -> tuple[F32, F32]:
    """x/z (M,) and y/z (M,) of pixels (M,) row * width + column, at their centres, camera frame.

    NaN where no ray comes out of a distorted lens; never for an ideal one.
    """
    x, y = _cached_slopes(intrinsics)
    return x[pixel], y[pixel]


def _ideal_slopes(K: Intrinsics) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    column, row = np.arange(K.width, dtype=np.float64), np.arange(K.height, dtype=np.float64)
    return (column + 0.5 - K.cx) / K.fx, (row + 0.5 - K.cy) / K.fy


@lru_cache(maxsize=4)
def _cached_slopes(K: Intrinsics) -> tuple[F32, F32]:
    """(H * W,) each: a gather costs less than rows and columns of pixels."""
    if not K.distortion:
        column, row = pixel_slopes(K)
        return np.tile(column, K.height), np.repeat(row, K.width)
    column, row = _ideal_slopes(K)
    distorted_y, distorted_x = np.meshgrid(row, column, indexing="ij")
    x, y = K.distortion.undistort(distorted_x.reshape(-1), distorted_y.reshape(-1))
    return x.astype(np.float32), y.astype(np.float32)
