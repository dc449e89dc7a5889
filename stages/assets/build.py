"""One mesh file -> one ObjectAsset, or a coded reason why not."""

import hashlib
from collections.abc import Sequence

import numpy as np

from schemas.records import ObjectAsset
from stages.assets.config import AssetsConfig
from stages.assets.convex import convex_pieces
from stages.assets.errors import ConvexError, MeshFileError
from stages.assets.hull import Hull
from stages.assets.inertia import MassProperties, mass_properties, union_mass_properties
from stages.assets.lint import FATAL, Problem, describe, lint
from stages.assets.load import Mesh, load_mesh, nearest_colours
from stages.assets.repair import open_edges, repair, thin
from stages.assets.sources import ObjectSource
from stages.assets.stable import stable_poses
from stages.contract import Outcome


def build_asset(source: ObjectSource, sha256: str, config: AssetsConfig) -> Outcome:
    """The whole way from bytes to record. `sha256` is what was planned; other bytes fail."""

    def failed(code: str, message: str) -> Outcome:
        return Outcome(id=source.object_id, code=code, message=f"{source.uri}: {message}")

    try:
        size = source.path.stat().st_size
        if size > config.max_object_bytes:
            return failed(
                "too_large",
                f"{size} bytes, expected at most {config.max_object_bytes}; simplify the mesh or "
                "raise assets.max_object_bytes",
            )
        data = source.path.read_bytes()
    except OSError as error:
        return failed("missing_mesh", f"cannot be read: {error.strerror}; it was there to plan")
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        return failed(
            "changed_mesh", f"sha256 {found[:12]} where {sha256[:12]} was planned; run again"
        )
    try:
        raw = load_mesh(data, source.path.suffix, config.scale, config.colour)
    except MeshFileError as error:
        return failed("bad_mesh", str(error))
    problems = lint(raw, config.min_extent, config.max_extent)
    if any(problem.kind in FATAL for problem in problems):
        return failed("bad_mesh", describe(problems))
    solid = repair(raw)
    try:
        pieces = convex_pieces(solid, config.convex, config.convex_timeout_s)
    except ConvexError as error:
        listed = f" (mesh: {describe(problems)})" if problems else ""
        return failed(error.code, f"{error}{listed}")
    mass, method = _mass_properties(solid, pieces)
    if not mass.volume > 0 or not _physical(mass.inertia):
        problems.append(
            Problem(kind="no_volume", message=f"volume {mass.volume:.3g} m^3 {method}; thicken it")
        )
        return failed("bad_mesh", describe(problems))
    notes = _notes(problems, raw, solid, method)
    return Outcome(
        id=source.object_id,
        record=_record(source, sha256, config, raw, solid, pieces, mass, notes),
    )


def packed(pieces: Sequence[Hull | Mesh]) -> dict[str, np.ndarray]:
    """The four arrays in which an ObjectAsset holds its convex pieces, in their order."""
    return {
        "piece_vertices": np.concatenate([p.vertices for p in pieces]).astype(np.float32),
        "piece_faces": np.concatenate([p.faces for p in pieces]).astype(np.int32),
        "piece_vertex_offsets": _offsets([len(p.vertices) for p in pieces]),
        "piece_face_offsets": _offsets([len(p.faces) for p in pieces]),
    }


def _offsets(counts: Sequence[int]) -> np.ndarray:
    return np.cumsum([0, *counts]).astype(np.int64)


def _mass_properties(solid: Mesh, pieces: list[Hull]) -> tuple[MassProperties, str]:
    """From the closed surface; from the union of the pieces when it is open or inside out."""
    whole = mass_properties(solid.vertices, solid.faces)
    if not open_edges(solid.faces) and whole.volume > 0:
        return whole, "from the closed mesh"
    union = union_mass_properties([(p.vertices, p.faces) for p in pieces])
    return union, "from the union of the convex pieces"


def _physical(inertia: np.ndarray) -> bool:
    """Positive moments that obey the triangle inequality, as engines demand."""
    moments = np.linalg.eigvalsh(inertia)
    return bool(moments[0] > 0 and moments[0] + moments[1] >= moments[2] * (1 - 1e-9))


def _notes(problems: list[Problem], raw: Mesh, solid: Mesh, method: str) -> str:
    notes = [f"found {describe(problems)}"] if problems else []
    left = open_edges(solid.faces)
    if any(problem.kind != "several_bodies" for problem in problems):
        state = f"{left} edges still open" if left else "closed"
        notes.append(
            f"repaired: {len(raw.faces)} -> {len(solid.faces)} triangles, {state}; mass {method}"
        )
    return "; ".join(notes)


def _record(
    source: ObjectSource,
    sha256: str,
    config: AssetsConfig,
    raw: Mesh,
    solid: Mesh,
    pieces: list[Hull],
    mass: MassProperties,
    notes: str,
) -> ObjectAsset:
    seen = thin(solid, config.max_faces)
    kilograms = config.mass if config.mass is not None else config.density * mass.volume
    density = kilograms / mass.volume
    # the pieces are what touches the plane in physics, so the poses are theirs
    rest = stable_poses(
        np.concatenate([p.vertices for p in pieces]),
        mass.center_of_mass,
        config.stable_merge_deg,
        config.stable_min_probability,
        config.stable_max_poses,
    )
    return ObjectAsset(
        object_id=source.object_id,
        source=source.uri,
        licence=source.licence,
        sha256=sha256,
        scale=config.scale,
        vertices=seen.vertices.astype(np.float32),
        faces=seen.faces.astype(np.int32),
        **packed(pieces),
        volume=mass.volume,
        density=density,
        mass=kilograms,
        center_of_mass=mass.center_of_mass,
        inertia=mass.inertia * density,
        stable_poses=rest.poses,
        stable_probabilities=rest.probabilities,
        notes=notes,
        vertex_colours=nearest_colours(raw, seen.vertices),
    )
