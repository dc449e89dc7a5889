"""Convex hulls in one canonical form, so that equal shapes are equal bytes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Hull:
    """Vertices sorted by coordinate; each face starts at its lowest index, faces sorted."""

    vertices: NDArray[np.float32]  # (v, 3) m
    faces: NDArray[np.int32]  # (f, 3) outward
    volume: float  # m^3


def convex_hull(points: ArrayLike) -> Hull | None:
    """Hull of (N, 3) points rounded to float32, as stored; None when they are flat."""
    from scipy.spatial import ConvexHull, QhullError

    places = np.unique(np.asarray(points, np.float32), axis=0)
    if len(places) < 4:
        return None
    exact = places.astype(np.float64)
    try:
        hull = ConvexHull(exact)
    except QhullError:
        return None
    used, faces = np.unique(hull.simplices, return_inverse=True)
    faces = faces.reshape(-1, 3)
    corner = exact[used][faces]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    inward = np.einsum("ij,ij->i", normal, hull.equations[:, :3]) < 0
    faces[inward] = faces[inward][:, ::-1]
    start = faces.argmin(axis=1)
    faces = faces[np.arange(len(faces))[:, None], (start[:, None] + np.arange(3)) % 3]
    faces = faces[np.lexsort(faces.T[::-1])]
    return Hull(vertices=places[used], faces=faces.astype(np.int32), volume=float(hull.volume))


def in_order(hulls: list[Hull]) -> list[Hull]:
    """Sorted by their vertices: engines that sum over pieces then always sum the same way."""
    return sorted(hulls, key=lambda hull: (hull.vertices.ravel().tolist(), hull.faces.tolist()))
