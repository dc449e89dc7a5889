"""Volume, centre of mass and inertia of a solid of uniform density."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MassProperties:
    """At density 1 kg/m^3; multiply `inertia` by the density."""

    volume: float  # m^3, negative when the triangles face inwards
    center_of_mass: Float  # (3,) m
    inertia: Float  # (3, 3) about the centre of mass, object axes, m^5


def mass_properties(vertices: ArrayLike, faces: ArrayLike) -> MassProperties:
    """Of the solid inside a closed surface, exactly, by signed tetrahedra from one point.

    vertices (V, 3) metres, faces (F, 3) outward. Integrals as in Eberly, "Polyhedral Mass
    Properties (Revisited)", 2002; taken about the vertices' mean so that a mesh far from its
    origin loses no digits.
    """
    vertices = np.asarray(vertices, np.float64)
    origin = vertices.mean(axis=0)
    triangles = (vertices - origin)[np.asarray(faces)]
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    six_volumes = np.einsum("ij,ij->i", a, np.cross(b, c))
    volume = float(six_volumes.sum() / 6)
    if volume == 0:
        return MassProperties(volume=0.0, center_of_mass=origin, inertia=np.zeros((3, 3)))
    total = a + b + c
    first = (six_volumes[:, None] * total).sum(axis=0) / 24
    # int x x^T over a tetrahedron with one corner at 0: 6V/120 (sum a a^T + s s^T)
    second = sum(np.einsum("i,ij,ik->jk", six_volumes, p, p) for p in (a, b, c, total)) / 120
    return _about_centre(volume, first, np.asarray(second), origin)


def union_mass_properties(
    pieces: list[tuple[ArrayLike, ArrayLike]], cells: int = 96
) -> MassProperties:
    """Of the union of convex pieces (vertices (v, 3), outward faces (f, 3)), which may overlap.

    Sums over a grid of `cells` cubes along the longest side, so volumes are good to about 1 %.
    For meshes that stay open after repair, whose signed volume means nothing.
    """
    arrays = [(np.asarray(v, np.float64), np.asarray(f)) for v, f in pieces]
    low = np.min([v.min(axis=0) for v, _ in arrays], axis=0)
    high = np.max([v.max(axis=0) for v, _ in arrays], axis=0)
    step = float((high - low).max()) / cells
    counts = np.maximum(np.ceil((high - low) / step).astype(int), 1)
    axes = [low[i] + step * (np.arange(counts[i]) + 0.5) for i in range(3)]
    inside = np.zeros(counts, bool)
    for v, f in arrays:
        # only the cells of the piece's own box are tried
        spans = [
            slice(
                int(np.searchsorted(axes[i], v[:, i].min())),
                int(np.searchsorted(axes[i], v[:, i].max())),
            )
            for i in range(3)
        ]
        grid = np.meshgrid(*(axes[i][spans[i]] for i in range(3)), indexing="ij")
        points = np.stack(grid, axis=-1)
        normals = np.cross(v[f[:, 1]] - v[f[:, 0]], v[f[:, 2]] - v[f[:, 0]])
        offsets = np.einsum("ij,ij->i", normals, v[f[:, 0]])
        hit = np.ones(points.shape[:3], bool)
        for normal, offset in zip(normals, offsets, strict=True):
            hit &= points @ normal <= offset
        inside[tuple(spans)] |= hit
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)[inside]
    origin = (low + high) / 2
    points = points - origin
    cell = step**3
    volume = cell * len(points)
    if volume == 0:
        return MassProperties(volume=0.0, center_of_mass=origin, inertia=np.zeros((3, 3)))
    # the last term is the second moment of each cube about its own centre
    second = cell * (points.T @ points) + np.eye(3) * (volume * step**2 / 12)
    return _about_centre(volume, cell * points.sum(axis=0), second, origin)


def _about_centre(volume: float, first: Float, second: Float, origin: Float) -> MassProperties:
    centre = first / volume
    second = second - volume * np.outer(centre, centre)
    inertia = np.trace(second) * np.eye(3) - second
    return MassProperties(
        volume=volume, center_of_mass=origin + centre, inertia=(inertia + inertia.T) / 2
    )
