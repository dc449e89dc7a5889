"""Objects as other projects publish them: a mesh, or a folder with its convex pieces.

A label depends on the convex pieces, so where a publication has its own they are taken as they are.
"""

import hashlib
from pathlib import Path

import numpy as np

from schemas.files import read_limited
from schemas.records import ObjectAsset
from stages.assets.build import build_asset, packed
from stages.assets.config import AssetsConfig
from stages.assets.errors import MeshFileError
from stages.assets.inertia import mass_properties, union_mass_properties
from stages.assets.lint import body_of_faces
from stages.assets.load import Mesh, load_mesh
from stages.assets.sources import FORMATS, ObjectSource

PIECES = "urdf/meshes/convex_piece_*.obj"  # DexGraspBench; the order of the names is the order
SURFACE = "mesh/simplified.obj"  # DexGraspBench
DECOMPOSED = ("coacd/decomposed.obj", "decomposed.obj")  # DexGraspNet; each component is a piece


def published_asset(
    folder: Path, object_id: str, scale: float, object_file: str = ""
) -> ObjectAsset:
    """The object `object_id` under `folder`, times `scale`; mass from a uniform 1000 kg/m^3.

    Looked for are the folder `object_id` (SURFACE with PIECES, or DECOMPOSED), a mesh of that name,
    and `object_file`. Raises MeshFileError when there is none, or it cannot be used.
    """
    home = folder / object_id
    names = [home / name for name in (SURFACE, *DECOMPOSED)]
    names += [folder / f"{object_id}{suffix}" for suffix in FORMATS]
    names += [folder / object_file] if object_file else []
    inside = folder.resolve()
    try:
        surface = next((path for path in names if path.is_file()), None)
        outside = surface is not None and not surface.resolve().is_relative_to(inside)
    except ValueError as error:  # a null byte in a name
        raise MeshFileError(f"object {object_id!r}: {error}") from error
    if outside:
        raise MeshFileError(
            f"object {object_id!r}: its mesh {surface} lies outside {folder}; a grasp file may "
            "name meshes below that folder only"
        )
    if surface is None:
        raise MeshFileError(
            f"object {object_id!r}: no mesh under {folder}; expected the folder {object_id} with "
            f"{' or '.join((SURFACE, *DECOMPOSED))}, or a mesh file {object_id}.obj"
        )
    pieces = sorted(home.glob(PIECES))
    if pieces and surface == home / SURFACE:
        return _from_pieces(object_id, scale, surface, pieces)
    if surface.parent.is_relative_to(home) and surface.name == Path(DECOMPOSED[0]).name:
        return _from_pieces(object_id, scale, surface, [])
    source = ObjectSource(object_id=object_id, uri=surface.name, path=surface, licence="")
    outcome = build_asset(source, source.sha256(), AssetsConfig(scale=scale))
    if not isinstance(outcome.record, ObjectAsset):
        raise MeshFileError(f"object {object_id!r}: {outcome.message}")
    return outcome.record


def _from_pieces(object_id: str, scale: float, surface: Path, files: list[Path]) -> ObjectAsset:
    """From piece `files`; without any, the components of the surface are the pieces."""
    digest = hashlib.sha256()

    def read(path: Path) -> Mesh:
        data = read_limited(path, AssetsConfig().max_object_bytes)
        digest.update(data)
        return load_mesh(data, path.suffix, scale)

    whole = read(surface)
    pieces = [read(path) for path in files] or _components(whole)
    mass = mass_properties(whole.vertices, whole.faces)
    if not files or not mass.volume > 0:
        mass = union_mass_properties([(p.vertices, p.faces) for p in pieces])
    density = 1000.0
    return ObjectAsset(
        object_id=object_id,
        source=f"{object_id}/{surface.name}",
        licence="",
        sha256=digest.hexdigest(),
        scale=scale,
        vertices=whole.vertices.astype(np.float32),
        faces=whole.faces.astype(np.int32),
        **packed(pieces),
        volume=mass.volume,
        density=density,
        mass=mass.volume * density,
        center_of_mass=mass.center_of_mass,
        inertia=mass.inertia * density,
        stable_poses=np.zeros((0, 7)),
        stable_probabilities=np.zeros(0),
        notes="convex pieces as published",
    )


def _components(mesh: Mesh) -> list[Mesh]:
    """The parts of a mesh that share no vertex, in the order of their first triangle."""
    of_face = body_of_faces(mesh.faces, len(mesh.vertices))
    parts: list[Mesh] = []
    for part in dict.fromkeys(of_face.tolist()):
        used, faces = np.unique(mesh.faces[of_face == part], return_inverse=True)
        parts.append(Mesh(vertices=mesh.vertices[used], faces=faces.reshape(-1, 3)))
    return parts
