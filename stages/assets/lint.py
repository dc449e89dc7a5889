"""Everything that is wrong with a mesh, at once, each with its kind and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.assets.inertia import mass_properties
from stages.assets.load import Mesh

UNITS = (("millimetres", 0.001), ("centimetres", 0.01), ("inches", 0.0254), ("feet", 0.3048))
FATAL = frozenset({"empty", "non_finite", "bad_index", "scale", "flat"})
"""Kinds that no repair can heal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def describe(problems: Iterable[Problem]) -> str:
    return "; ".join(str(problem) for problem in problems)


def lint(mesh: Mesh, min_extent: float = 0.005, max_extent: float = 1.0) -> list[Problem]:
    """All problems of a mesh; the band is that of its bounding box's longest side, metres."""
    vertices, faces = mesh.vertices, mesh.faces
    if not len(vertices) or not len(faces):
        return [
            Problem(
                kind="empty",
                message=f"{len(vertices)} vertices and {len(faces)} triangles; expected a "
                "triangle mesh, export one",
            )
        ]
    problems: list[Problem] = []
    finite = np.isfinite(vertices).all(axis=1)
    if not finite.all():
        problems.append(
            Problem(
                kind="non_finite",
                message=f"{int((~finite).sum())} of {len(vertices)} vertices are NaN or infinite; "
                "export the mesh again",
            )
        )
    if faces.min() < 0 or faces.max() >= len(vertices):
        problems.append(
            Problem(
                kind="bad_index",
                message=f"a triangle names vertex {int(faces.max())}, there are {len(vertices)}; "
                "the file is damaged",
            )
        )
        return problems
    problems += _lint_scale(vertices[finite], min_extent, max_extent)
    problems += _lint_faces(mesh)
    if finite.all():
        problems += _lint_solid(mesh)
    return problems


def _lint_scale(vertices: NDArray[np.float64], low: float, high: float) -> list[Problem]:
    if not len(vertices):
        return []
    extents = vertices.max(axis=0) - vertices.min(axis=0)
    extent = float(extents.max())
    problems: list[Problem] = []
    if not low <= extent <= high:
        if extent > high:
            fits = [(unit, f) for unit, f in UNITS if low <= extent * f <= high]
            # of all units that fit, a hand-sized object is the likeliest
            fits.sort(key=lambda pair: abs(np.log(extent * pair[1] / 0.15)))
            hint = "; ".join(f"looks like {unit}: set scale {f:g}" for unit, f in fits[:1])
        else:
            hint = "was it scaled twice? set a larger scale" if extent > 0 else "all points agree"
        band = f"{low * 1e3:g} mm to {high:g} m"
        problems.append(
            Problem(
                kind="scale",
                message=f"extent {extent:.3g} m is outside {band}; "
                f"{hint or 'set scale, or min_extent and max_extent'}",
            )
        )
    if extent > 0 and float(extents.min()) < 1e-6 * extent:
        problems.append(
            Problem(
                kind="flat",
                message=f"bounding box {' x '.join(f'{e:.3g}' for e in extents)} m has no "
                "thickness; give the sheet one",
            )
        )
    return problems


def _lint_faces(mesh: Mesh) -> list[Problem]:
    problems: list[Problem] = []
    # compared by place, not by index: an STL has three vertices of its own per triangle
    _, inverse = np.unique(mesh.vertices, axis=0, return_inverse=True)
    faces = np.sort(inverse.reshape(-1)[mesh.faces], axis=1)
    degenerate = (faces[:, 0] == faces[:, 1]) | (faces[:, 1] == faces[:, 2])
    if degenerate.any():
        problems.append(
            Problem(
                kind="degenerate_faces",
                message=f"{int(degenerate.sum())} of {len(faces)} triangles have no area",
            )
        )
    proper = faces[~degenerate]
    twice = len(proper) - len(np.unique(proper, axis=0))
    if twice:
        problems.append(
            Problem(
                kind="duplicate_faces",
                message=f"{twice} of {len(faces)} triangles repeat another one",
            )
        )
    return problems


def _lint_solid(mesh: Mesh) -> list[Problem]:
    from stages.assets.repair import merged, open_edges, winding_conflicts

    clean = merged(mesh)
    if not len(clean.faces):
        return [Problem(kind="empty", message="no triangle has an area")]
    problems: list[Problem] = []
    edges = open_edges(clean.faces)
    if edges:
        problems.append(
            Problem(
                kind="not_watertight",
                message=f"{edges} edges do not join exactly two triangles; close the holes",
            )
        )
    conflicts = winding_conflicts(clean.faces)
    if conflicts:
        problems.append(
            Problem(
                kind="winding", message=f"{conflicts} neighbouring triangles face opposite ways"
            )
        )
    bodies = body_count(clean.faces, len(clean.vertices))
    if bodies > 1:
        problems.append(
            Problem(kind="several_bodies", message=f"{bodies} parts that share no vertex")
        )
    volume = mass_properties(clean.vertices, clean.faces).volume
    if not volume > 0:
        problems.append(
            Problem(
                kind="inverted",
                message=f"signed volume {volume:.3g} m^3 is not positive; the triangles face "
                "inwards, flip them",
            )
        )
    return problems


def body_count(faces: NDArray[np.int64], vertex_count: int) -> int:
    """Parts connected through vertices; vertices of no face do not count."""
    return len(np.unique(body_of_faces(faces, vertex_count)))


def body_of_faces(faces: NDArray[np.int64], vertex_count: int) -> NDArray[np.int32]:
    """(F,) a number of the part that each face belongs to; parts share no vertex."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    a = np.concatenate([faces[:, 0], faces[:, 1]])
    b = np.concatenate([faces[:, 1], faces[:, 2]])
    graph = coo_matrix((np.ones(len(a), np.int8), (a, b)), shape=(vertex_count, vertex_count))
    _, labels = connected_components(graph, directed=False)
    return labels[faces[:, 0]]
