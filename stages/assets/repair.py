"""Heals what can be healed: merging, degenerate and repeated triangles, winding, holes."""

import numpy as np
from numpy.typing import NDArray

from stages.assets.inertia import mass_properties
from stages.assets.load import Mesh

Faces = NDArray[np.int64]


def repair(mesh: Mesh) -> Mesh:
    """A mesh as closed and outward as the known remedies make it.

    Vertices keep their places; triangles are added only across holes. What remains open is seen
    by `open_edges`.
    """
    import trimesh

    clean = merged(mesh)
    if not len(clean.faces):
        return clean
    body = trimesh.Trimesh(clean.vertices, clean.faces, process=False, validate=False)
    trimesh.repair.fix_winding(body)
    if not body.is_watertight:
        trimesh.repair.fill_holes(body)
    trimesh.repair.fix_winding(body)
    out = merged(Mesh(vertices=np.asarray(body.vertices), faces=np.asarray(body.faces, np.int64)))
    if not open_edges(out.faces) and mass_properties(out.vertices, out.faces).volume < 0:
        out = Mesh(vertices=out.vertices, faces=np.ascontiguousarray(out.faces[:, ::-1]))
    return out


def merged(mesh: Mesh) -> Mesh:
    """Equal places become one vertex (in float32, as stored), bad triangles are dropped.

    Order is kept: of repeated triangles the first stays.
    """
    places = mesh.vertices.astype(np.float32)
    _, first, inverse = np.unique(places, axis=0, return_index=True, return_inverse=True)
    # number the vertices by first use in the file, not by coordinate
    order = np.argsort(first, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    vertices = places[first[order]].astype(np.float64)
    faces = rank[inverse.reshape(-1)[mesh.faces]]
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    _, keep = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    faces = faces[np.sort(keep)]
    used, faces = np.unique(faces, return_inverse=True)
    return Mesh(vertices=vertices[used], faces=faces.reshape(-1, 3).astype(np.int64))


def open_edges(faces: Faces) -> int:
    """Edges that do not join exactly two triangles; 0 for a watertight mesh."""
    edges = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    _, counts = np.unique(edges, axis=0, return_counts=True)
    return int((counts != 2).sum())


def winding_conflicts(faces: Faces) -> int:
    """Directed edges that two triangles run through the same way; 0 when all agree."""
    edges = faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    _, counts = np.unique(edges, axis=0, return_counts=True)
    return int((counts - 1).sum())


def thin(mesh: Mesh, max_faces: int) -> Mesh:
    """At most `max_faces` triangles, by clustering vertices in the finest grid that does it.

    Rossignac and Borrel 1993; each cell keeps its mean vertex, so points move by less than a
    cell's diagonal. Meshes that are small enough come back as they are.
    """
    if len(mesh.faces) <= max_faces:
        return mesh
    low = mesh.vertices.min(axis=0)
    extent = float((mesh.vertices.max(axis=0) - low).max())
    cells, best = 1024.0, mesh
    while len(best.faces) > max_faces:
        keys = np.floor((mesh.vertices - low) * (cells / extent)).astype(np.int64)
        _, inverse = np.unique(keys, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        counts = np.bincount(inverse)
        means = np.stack(
            [np.bincount(inverse, mesh.vertices[:, i]) / counts for i in range(3)], axis=1
        )
        best = merged(Mesh(vertices=means, faces=inverse[mesh.faces]))
        cells *= 0.9
    return best
