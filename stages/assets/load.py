"""A mesh file's bytes -> triangles. Never follows a reference out of the file."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.assets.errors import MeshFileError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Mesh:
    """Triangles in the object frame, metres once scaled."""

    vertices: NDArray[np.float64]  # (V, 3)
    faces: NDArray[np.int64]  # (F, 3), outward by the right-hand rule when well formed
    colours: NDArray[np.uint8] | None = None  # (V, 3) RGB; None when unknown or not asked for


def load_mesh(data: bytes, suffix: str, scale: float = 1.0, colour: bool = False) -> Mesh:
    """Triangles of a whole file, all its parts in one mesh, times `scale`.

    `suffix` is the file's ending with its dot. The bytes are parsed without a resolver, so
    textures, materials and external buffers are not looked for. Axes are kept as the file has
    them (a glb is often y-up). With `colour`, colours of vertices and of textures inside the file
    become colours of vertices, 0 0 0 for parts that have none.
    """
    import trimesh

    try:
        loaded = trimesh.load(
            io.BytesIO(data), file_type=suffix.lower().lstrip("."), process=False, resolver=None
        )
        parts = loaded.dump() if isinstance(loaded, trimesh.Scene) else [loaded]
    except Exception as error:  # every parser fails in its own way on a broken file
        raise MeshFileError(
            f"cannot be read as {suffix}: {type(error).__name__}: {error}; is the file whole, "
            "and self-contained?"
        ) from error
    vertices: list[NDArray[np.float64]] = []
    faces: list[NDArray[np.int64]] = []
    colours: list[NDArray[np.uint8] | None] = []
    count = 0
    for part in parts:
        if isinstance(part, trimesh.Trimesh):  # a scene may hold lines and points as well
            v, f = np.asarray(part.vertices, np.float64), np.asarray(part.faces, np.int64)
            if not (v.size % 3 == f.size % 3 == 0 and v.shape[-1:] in ((3,), (0,))):
                raise MeshFileError(
                    f"cannot be read as {suffix}: expected three coordinates a vertex and three "
                    f"corners a face, got arrays of {v.shape} and {f.shape}; is the file whole?"
                )
            v, f = v.reshape(-1, 3), f.reshape(-1, 3)
            if f.size and not (f.min() >= 0 and f.max() < len(v)):
                raise MeshFileError(
                    f"cannot be read as {suffix}: a face names vertex {f.max()} or {f.min()} of "
                    f"{len(v)}; is the file whole?"
                )
            vertices.append(v * scale)
            faces.append(f + count)
            count += len(vertices[-1])
            colours.append(_colours(part) if colour else None)
    if not vertices:
        return Mesh(vertices=np.zeros((0, 3)), faces=np.zeros((0, 3), np.int64))
    painted = None
    if any(part is not None for part in colours):
        painted = np.concatenate(
            [np.zeros((len(v), 3), np.uint8) if c is None else c
             for v, c in zip(vertices, colours, strict=True)]
        )  # fmt: skip
    return Mesh(vertices=np.concatenate(vertices), faces=np.concatenate(faces), colours=painted)


def _colours(part: Any) -> NDArray[np.uint8] | None:
    """(V, 3) RGB of a trimesh's vertices; None when the file gives it no colour."""
    visual = part.visual
    if visual.kind == "texture":
        image = getattr(visual.material, "baseColorTexture", None)
        if image is None and getattr(visual.material, "image", None) is None:
            return None  # a texture that lies outside the file
        visual = visual.to_color()
    elif visual.kind is None:
        return None
    return np.array(visual.vertex_colors, np.uint8)[:, :3]


def nearest_colours(mesh: Mesh, vertices: NDArray[np.float64]) -> NDArray[np.uint8]:
    """(V, 3) RGB of the nearest vertex of `mesh`, for vertices (V, 3); (0, 3) when it has none.

    Repairs and thinning merge and move vertices; a seam takes one of its colours.
    """
    if mesh.colours is None:
        return np.zeros((0, 3), np.uint8)
    from scipy.spatial import cKDTree

    _, nearest = cKDTree(mesh.vertices).query(vertices)
    return mesh.colours[nearest]
