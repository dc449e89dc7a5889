"""What stages hand to each other: frozen records of numpy arrays and plain scalars.

`encode` and `decode` turn a record into named arrays and back without pickle, so a block of
records is an ordinary `.npz` file.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from schemas.errors import SchemaError

R = TypeVar("R")


def _no_vectors() -> NDArray[np.float32]:
    return np.zeros((0, 3), np.float32)


def _no_colours() -> NDArray[np.uint8]:
    return np.zeros((0, 3), np.uint8)


def _no_numbers() -> NDArray[np.float64]:
    return np.zeros(0)


BACKGROUND, TABLE, FIRST_OBJECT = 0, 1, 2
"""Segment ids: ours, never a simulator's. Objects of a scene count up from FIRST_OBJECT."""
TABLE_THICKNESS = 0.02  # m, of the plate under the table top; seen only from the side


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ObjectAsset:
    """One object, repaired and ready for rays and physics. Object frame, metres, kilograms.

    The origin of the object frame is that of the source mesh (times `scale`).
    """

    object_id: str
    source: str  # a path relative to its asset root, or "package:name"
    licence: str
    sha256: str  # of the source file's bytes
    scale: float  # already applied to every array below
    vertices: NDArray[np.float32]  # (V, 3)
    faces: NDArray[np.int32]  # (F, 3), outward by the right-hand rule
    piece_vertices: NDArray[np.float32]  # (sum v_i, 3) convex pieces, sorted order
    piece_faces: NDArray[np.int32]  # (sum f_i, 3), indices local to the piece
    piece_vertex_offsets: NDArray[np.int64]  # (P + 1,)
    piece_face_offsets: NDArray[np.int64]  # (P + 1,)
    volume: float  # m^3
    density: float  # kg/m^3
    mass: float  # kg
    center_of_mass: NDArray[np.float64]  # (3,)
    inertia: NDArray[np.float64]  # (3, 3) about the centre of mass, object axes, kg m^2
    stable_poses: NDArray[np.float64]  # (S, 7) pose of the object on the plane z = 0
    stable_probabilities: NDArray[np.float64]  # (S,), falling
    notes: str  # what lint found and repair did; "" when nothing
    # Fields with a default are empty unless asked for; records written before them still read.
    vertex_colours: NDArray[np.uint8] = field(default_factory=_no_colours)  # (V, 3) RGB or (0, 3)

    def pieces(self) -> list[tuple[NDArray[np.float32], NDArray[np.int32]]]:
        """Convex pieces as (vertices (v, 3), faces (f, 3)), in their fixed order."""
        v, f = self.piece_vertex_offsets, self.piece_face_offsets
        return [
            (self.piece_vertices[v[i] : v[i + 1]], self.piece_faces[f[i] : f[i + 1]])
            for i in range(len(v) - 1)
        ]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scene:
    """Objects at rest. World frame: z up, origin on the table top under the workspace centre."""

    scene_id: str
    kind: str  # floating | tabletop | clutter | granular
    split: str  # train | val | test; by object id
    object_ids: tuple[str, ...]
    object_poses: NDArray[np.float64]  # (O, 7) world <- object
    object_scales: NDArray[np.float64]  # (O,) as in the assets
    object_masses: NDArray[np.float64]  # (O,) kg
    table_pose: NDArray[np.float64]  # (7,) world <- table top; its z axis is the normal
    table_size: NDArray[np.float64]  # (2,) m; zeros when there is no table
    settle_time: float  # s of simulated time until at rest; 0 when floating
    # Fields with a default are empty unless the scene has grains.
    grain_positions: NDArray[np.float32] = field(default_factory=_no_vectors)  # (G, 3) m, centres
    grain_radius: float = 0.0  # m
    # Inside of the bin, x, y, height; it stands around the origin of the table.
    bin_size: NDArray[np.float64] = field(default_factory=_no_numbers)  # (3,) m
    buried_fraction: NDArray[np.float64] = field(default_factory=_no_numbers)  # (O,) 0 to 1
    exposed_area: NDArray[np.float64] = field(default_factory=_no_numbers)  # (O,) m^2

    @property
    def has_grains(self) -> bool:
        return len(self.grain_positions) > 0

    @property
    def has_table(self) -> bool:
        return bool(self.table_size.any())

    @property
    def segment_table(self) -> dict[str, int]:
        """Segment name -> id: background 0, table 1, `object:<i>` from 2 in scene order.

        Where there are grains, `grains` and `bin` follow.
        """
        table = {"background": BACKGROUND, "table": TABLE}
        table |= {f"object:{i}": FIRST_OBJECT + i for i in range(len(self.object_ids))}
        if self.has_grains:
            table |= {name: len(table) + i for i, name in enumerate(("grains", "bin"))}
        return table


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cloud:
    """One cropped single-view cloud of one (scene, view) pair."""

    scene_id: str
    view: int
    frame: str  # "camera" or "world": the frame of `points`
    points: NDArray[np.float32]  # (N, 3) m
    segment: NDArray[np.uint16]  # (N,)
    valid_count: int  # points that survived the crop, before sampling
    intrinsics: NDArray[np.float64]  # (6,) fx fy cx cy width height
    T_world_cam: NDArray[np.float64]  # (4, 4)
    # Fields with a default are empty unless asked for; records written before them still read.
    distortion: NDArray[np.float64] = field(default_factory=_no_numbers)  # (6,) see Distortion
    depth_step: float = 0.0  # m; depth came in steps of this size; 0: exact
    normals: NDArray[np.float32] = field(default_factory=_no_vectors)  # (N, 3) unit, in `frame`
    colour: NDArray[np.uint8] = field(default_factory=_no_colours)  # (N, 3) RGB, 0 0 0 unknown


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GraspSet:
    """Candidates of one hand on one object, in the frame of `object_pose`'s world.

    Each qpos row is (7 + J,): hand root xyz (m), wxyz, then J joints in `joint_names` order
    (radians or metres).
    """

    hand: str
    hand_digest: str
    object_id: str
    joint_names: tuple[str, ...]
    object_pose: NDArray[np.float64]  # (7,) world <- object, at rest on the table z = 0
    pregrasp_qpos: NDArray[np.float64]  # (G, 7 + J)
    grasp_qpos: NDArray[np.float64]  # (G, 7 + J)
    squeeze_qpos: NDArray[np.float64]  # (G, 7 + J)
    grasp_index: NDArray[np.int64]  # (G,) identity within (hand, object)

    def __len__(self) -> int:
        return len(self.grasp_index)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LabelSet:
    """Outcomes of one GraspSet under one protocol and engine; row i labels grasp i."""

    hand: str
    object_id: str
    protocol: str
    protocol_hash: str
    engine: str  # e.g. "mujoco 4.0.0"
    grasp_index: NDArray[np.int64]  # (G,)
    success: NDArray[np.bool_]  # (G,)
    outcome: NDArray[np.str_]  # (G,) an outcome code, see stages/label/outcomes.py
    direction_success: NDArray[np.bool_]  # (G, 6) +x -x +y -y +z -z; tabletop fills column 5
    final_object_pose: NDArray[np.float64]  # (G, 7) world, at the end (of the last trial)
    translation: NDArray[np.float64]  # (G,) m, largest over the trials
    rotation: NDArray[np.float64]  # (G,) rad, largest over the trials
    contacts_grasp: NDArray[np.int32]  # (G,) hand-object contacts at the grasp pose
    contacts_squeeze: NDArray[np.int32]  # (G,)
    contacts_end: NDArray[np.int32]  # (G,)
    hand_object_penetration: NDArray[np.float64]  # (G,) m at the grasp pose, >= 0
    self_penetration: NDArray[np.float64]  # (G,) m at the grasp pose, >= 0
    contact_number: NDArray[np.int32]  # (G,) bodies of the hand near the object, grasp pose
    contact_distance: NDArray[np.float64]  # (G,) m, mean over fingers at the grasp pose
    contact_consistency: NDArray[np.float64]  # (G,) m, largest minus smallest finger distance
    qp: NDArray[np.float64]  # (G,) see stages/envs/grasp_quality.py; NaN without a contact
    qp_dfc: NDArray[np.float64]  # (G,)
    q1: NDArray[np.float64]  # (G,)
    tdg: NDArray[np.float64]  # (G,)
    dfc: NDArray[np.float64]  # (G,)
    confidence: NDArray[np.float64]  # (G,) share of perturbed repeats that succeed; NaN if none
    seed: int
    # Empty unless the protocol gives it; records written before it still read.
    lift: NDArray[np.float64] = field(default_factory=_no_numbers)  # (G,) m, rise of the object


def encode(record: Any) -> dict[str, NDArray[Any]]:
    """Record -> arrays by field name. Strings become unicode arrays; nothing is pickled."""
    out: dict[str, NDArray[Any]] = {}
    for f in fields(record):
        value = np.asarray(getattr(record, f.name))
        if value.dtype == object:
            raise SchemaError(f"{type(record).__name__}.{f.name}: object arrays are refused")
        out[f.name] = value
    return out


def decode(cls: type[R], arrays: Mapping[str, NDArray[Any]]) -> R:
    """Arrays by field name -> record; raises SchemaError naming every missing or extra field.

    A missing field that has a default takes it.
    """
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    needed = {
        name for name, f in known.items() if f.default is MISSING and f.default_factory is MISSING
    }
    missing, unknown = needed - set(arrays), set(arrays) - set(known)
    if missing or unknown:
        raise SchemaError(
            f"{cls.__name__}: missing fields {sorted(missing)}, unknown fields {sorted(unknown)}; "
            "written by another version?"
        )
    values: dict[str, Any] = {}
    for name, array in arrays.items():
        type_ = str(known[name].type)
        if type_.startswith("tuple"):
            values[name] = tuple(array.tolist())
        elif array.ndim == 0 and "NDArray" not in type_:
            values[name] = array.item()
        else:
            values[name] = array
    return cls(**values)
