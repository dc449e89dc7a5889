"""Points on a mesh, spread evenly, with outward normals."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.records import ObjectAsset
from stages.crop import farthest_order

Float = NDArray[np.float64]
OVERSAMPLING = 4  # uniform points per anchor, from which the farthest are taken


def anchor_points(asset: ObjectAsset, count: int) -> tuple[Float, Float]:
    """(count, 3) surface points and unit normals, object frame, in farthest-first order.

    Any prefix of them is spread over the whole surface. Depends on the object alone, so chunks
    that take different parts of the order never start from the same point.
    """
    rng = np.random.default_rng(int(asset.sha256[:16], 16))
    points, faces = surface_points(asset.vertices, asset.faces, OVERSAMPLING * count, rng)
    order = farthest_order(points.astype(np.float32), count, 0)
    return points[order], face_normals(asset.vertices, asset.faces)[faces[order]]


def surface_points(
    vertices: NDArray[Any], faces: NDArray[Any], count: int, rng: np.random.Generator
) -> tuple[Float, NDArray[np.int64]]:
    """(count, 3) points uniform over the area of a mesh (V, 3), (F, 3), and the face of each."""
    a, b, c = _corners(vertices, faces)
    area = face_areas(vertices, faces)
    chosen = rng.choice(len(area), size=count, p=area / area.sum())
    u, v = rng.uniform(size=(2, count, 1))
    flip = u + v > 1  # fold the unit square onto the triangle
    u, v = np.where(flip, 1 - u, u), np.where(flip, 1 - v, v)
    return a[chosen] + u * (b - a)[chosen] + v * (c - a)[chosen], chosen


def face_areas(vertices: NDArray[Any], faces: NDArray[Any]) -> Float:
    """(F,) m^2."""
    return np.linalg.norm(_doubled(vertices, faces), axis=1) / 2


def face_normals(vertices: NDArray[Any], faces: NDArray[Any]) -> Float:
    """(F, 3) unit outward normals; zero for a degenerate face."""
    normals = _doubled(vertices, faces)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.divide(normals, length, out=np.zeros_like(normals), where=length > 0)


def _doubled(vertices: NDArray[Any], faces: NDArray[Any]) -> Float:
    """(F, 3) outward normals whose lengths are twice the areas."""
    a, b, c = _corners(vertices, faces)
    return np.cross(b - a, c - a)


def _corners(vertices: NDArray[Any], faces: NDArray[Any]) -> tuple[Float, Float, Float]:
    corners = np.asarray(vertices, np.float64)[faces]
    return corners[:, 0], corners[:, 1], corners[:, 2]
