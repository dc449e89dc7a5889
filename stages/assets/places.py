"""Places spread evenly over a surface, without random numbers."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]


def surface_area(vertices: ArrayLike, faces: ArrayLike) -> float:
    """m^2 of a mesh (V, 3) m, (F, 3)."""
    return float(_areas(*_corners(vertices, faces)).sum())


def even_places(
    vertices: ArrayLike, faces: ArrayLike, count: int
) -> tuple[Float, NDArray[np.int64]]:
    """(count, 3) points of a mesh, each standing for the same area, and the face of each.

    Even steps along the summed area; the place within a face by a Kronecker sequence (Roberts
    2018), which spreads better than random numbers and needs no seed.
    """
    a, ab, ac = _corners(vertices, faces)
    area = _areas(a, ab, ac)
    step = (np.arange(count) + 0.5) * area.sum() / count
    face = np.minimum(np.searchsorted(np.cumsum(area), step), len(area) - 1)
    n = np.arange(count)
    u, v = (n * 0.7548776662466927) % 1.0, (n * 0.5698402909980532) % 1.0
    flip = u + v > 1
    u, v = np.where(flip, 1 - u, u)[:, None], np.where(flip, 1 - v, v)[:, None]
    return a[face] + u * ab[face] + v * ac[face], face


def _corners(vertices: ArrayLike, faces: ArrayLike) -> tuple[Float, Float, Float]:
    corners = np.asarray(vertices, np.float64)[np.asarray(faces)]
    a = corners[:, 0]
    return a, corners[:, 1] - a, corners[:, 2] - a


def _areas(a: Float, ab: Float, ac: Float) -> Float:
    return np.linalg.norm(np.cross(ab, ac), axis=1) / 2
