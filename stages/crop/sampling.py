"""Choosing among points. Each function returns sorted indices into the (N, 3) points."""

import numpy as np
from numpy.typing import NDArray

from stages.crop.spec import CropSpec

Points = NDArray[np.float32]
Index = NDArray[np.int64]


def inliers(points: Points, cell: float, min_points: int) -> Index:
    """Points with at least `min_points` points, themselves included, in their 3x3x3 cells.

    `cell` is the edge of a cell, m. A rule on cells instead of distances: it costs one sort, and
    keeps every point that has enough neighbours within one `cell`.
    """
    if len(points) == 0:
        return np.empty(0, np.int64)
    # Two free cells around the bounding box, so that no neighbour key wraps into another row.
    grid = np.floor((points - points.min(axis=0)) / np.float32(cell)).astype(np.int64) + 1
    size = grid.max(axis=0) + 2
    keys = (grid[:, 0] * size[1] + grid[:, 1]) * size[2] + grid[:, 2]
    cells, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    total = np.zeros(len(cells), np.int64)
    for dx in (-1, 0, 1):
        for dy in (-1, 0, 1):
            for dz in (-1, 0, 1):
                near = cells + (dx * size[1] + dy) * size[2] + dz
                at = np.minimum(np.searchsorted(cells, near), len(cells) - 1)
                total += np.where(cells[at] == near, counts[at], 0)
    return np.flatnonzero(total[inverse] >= min_points)


def random_points(count: int, keep: int, rng: np.random.Generator) -> Index:
    """`keep` of `count` indices, uniform, without replacement; all of them if there are fewer."""
    if count <= keep:
        return np.arange(count)
    return np.sort(rng.choice(count, keep, replace=False))


def voxel_points(points: Points, size: float) -> Index:
    """One point per occupied cell of edge `size` m: the one nearest to the cell's centre.

    Cells are aligned to the origin of the points' frame, so equal points always meet equally.
    """
    if len(points) == 0:
        return np.empty(0, np.int64)
    scaled = points.astype(np.float64) / size
    grid = np.floor(scaled).astype(np.int64)
    distance = ((scaled - grid - 0.5) ** 2).sum(axis=1)
    order = np.lexsort((distance, grid[:, 2], grid[:, 1], grid[:, 0]))
    ordered = grid[order]
    first = np.ones(len(order), bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return np.sort(order[first])


def farthest_order(points: Points, keep: int, first: int) -> Index:
    """`keep` indices in the order of farthest-point sampling (Gonzalez 1985) from `first`.

    Every next point is the one farthest from all before it. O(N keep) time; keep <= N.
    """
    chosen = np.empty(keep, np.int64)
    chosen[0] = first
    nearest = np.full(len(points), np.inf, np.float32)
    for i in range(1, keep):
        offset = points - points[chosen[i - 1]]
        np.minimum(nearest, np.einsum("ij,ij->i", offset, offset), out=nearest)
        chosen[i] = np.argmax(nearest)
    return chosen


def farthest_points(points: Points, keep: int, rng: np.random.Generator) -> Index:
    """Farthest-point sampling from a random first point; all points if there are fewer.

    Sorted indices, so the order of the points does not tell when each was taken.
    """
    if len(points) <= keep:
        return np.arange(len(points))
    return np.sort(farthest_order(points, keep, int(rng.integers(len(points)))))


def spatial_sample(points: Points, spec: CropSpec, rng: np.random.Generator) -> Index | None:
    """Indices that `spec.sampling` keeps by where the points are, or None for all."""
    if spec.sampling == "voxel":
        return voxel_points(points, spec.voxel_size)
    if spec.sampling == "farthest":
        return farthest_points(points, spec.num_points, rng)
    return None


def sample(points: Points, spec: CropSpec, rng: np.random.Generator) -> Index | None:
    """Indices that `spec.sampling` keeps, or None for all."""
    if spec.sampling == "random":
        return random_points(len(points), spec.num_points, rng)
    return spatial_sample(points, spec, rng)
