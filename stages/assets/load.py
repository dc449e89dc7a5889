"""A mesh file's bytes -> triangles. Never follows a reference out of the file."""

import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.assets.errors import MeshFileError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Mesh:
    """Triangles in the object frame, metres once scaled."""

    vertices: NDArray[np.float64]  # (V, 3)
    faces: NDArray[np.int64]  # (F, 3), outward by the right-hand rule when well formed


def load_mesh(data: bytes, suffix: str, scale: float = 1.0) -> Mesh:
    """Triangles of a whole file, all its parts in one mesh, times `scale`.

    `suffix` is the file's ending with its dot. The bytes are parsed without a resolver, so
    textures, materials and external buffers are not looked for. Axes are kept as the file has
    them (a glb is often y-up).
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
    count = 0
    for part in parts:
        if isinstance(part, trimesh.Trimesh):  # a scene may hold lines and points as well
            vertices.append(np.asarray(part.vertices, np.float64).reshape(-1, 3) * scale)
            faces.append(np.asarray(part.faces, np.int64).reshape(-1, 3) + count)
            count += len(vertices[-1])
    if not vertices:
        return Mesh(vertices=np.zeros((0, 3)), faces=np.zeros((0, 3), np.int64))
    return Mesh(vertices=np.concatenate(vertices), faces=np.concatenate(faces))
