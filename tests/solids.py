"""Solids whose mass, shape and grasps are known in closed form."""

import hashlib
from collections.abc import Sequence

import numpy as np
import trimesh
from numpy.typing import NDArray

from schemas.records import GraspSet, ObjectAsset
from stages.assets.hands.load import hand_digest, load_hand
from stages.assets.stable import stable_poses

TCP = 0.1034  # m from the panda flange to the centre of its pads


def box_asset(extents: tuple[float, float, float], mass: float = 0.3) -> ObjectAsset:
    """A solid box cut in two overlapping convex pieces, so that shapes alone give a wrong mass."""
    x, y, z = extents
    whole, left, right = (
        trimesh.creation.box(size) for size in (extents, (0.6 * x, y, z), (0.6 * x, y, z))
    )
    left.apply_translation([-0.2 * x, 0, 0])
    right.apply_translation([0.2 * x, 0, 0])
    return ObjectAsset(
        object_id="box",
        source="box.obj",
        licence="CC0",
        sha256="0" * 64,
        scale=1.0,
        vertices=whole.vertices.astype(np.float32),
        faces=whole.faces.astype(np.int32),
        piece_vertices=np.concatenate([left.vertices, right.vertices]).astype(np.float32),
        piece_faces=np.concatenate([left.faces, right.faces]).astype(np.int32),
        piece_vertex_offsets=np.array([0, 8, 16]),
        piece_face_offsets=np.array([0, 12, 24]),
        volume=x * y * z,
        density=mass / (x * y * z),
        mass=mass,
        center_of_mass=np.zeros(3),
        inertia=mass / 12 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y]),
        stable_poses=np.array([[0, 0, z / 2, 1, 0, 0, 0]], float),
        stable_probabilities=np.ones(1),
        notes="",
    )


def jaw_row(tcp_height: float, width: float = 0.02) -> NDArray[np.float64]:
    """(3, 9) pregrasp, grasp, squeeze of a panda pointing down, its pads closing along y.

    `width` is half the gap at the grasp, metres; the squeeze target lies 10 mm deeper a finger.
    """
    root = [0.0, 0.0, tcp_height + TCP, 0.0, 1.0, 0.0, 0.0]
    return np.array(
        [[*root, 0.04, 0.04], [*root, width, width], [*root, width - 0.01, width - 0.01]]
    )


def jaw_grasps(rows: Sequence[NDArray[np.float64]]) -> GraspSet:
    hand = load_hand("panda_gripper")
    a = np.array(rows)
    return GraspSet(
        hand=hand.name,
        hand_digest=hand_digest(hand),
        object_id="box",
        joint_names=hand.joint_names,
        object_pose=np.array([0, 0, 0.03, 1, 0, 0, 0], float),
        pregrasp_qpos=a[:, 0],
        grasp_qpos=a[:, 1],
        squeeze_qpos=a[:, 2],
        grasp_index=np.arange(len(a)) + 10,
    )


def solid_asset(
    mesh: trimesh.Trimesh, object_id: str = "solid", density: float = 500.0
) -> ObjectAsset:
    """A convex, closed mesh as one piece, resting as it stands and on its other stable faces."""
    vertices, faces = mesh.vertices.astype(np.float32), mesh.faces.astype(np.int32)
    found = stable_poses(mesh.vertices, mesh.center_mass)
    return ObjectAsset(
        object_id=object_id,
        source=f"{object_id}.obj",
        licence="CC0",
        sha256=hashlib.sha256(vertices.tobytes()).hexdigest(),
        scale=1.0,
        vertices=vertices,
        faces=faces,
        piece_vertices=vertices,
        piece_faces=faces,
        piece_vertex_offsets=np.array([0, len(vertices)]),
        piece_face_offsets=np.array([0, len(faces)]),
        volume=float(mesh.volume),
        density=density,
        mass=float(mesh.volume) * density,
        center_of_mass=np.array(mesh.center_mass),
        inertia=np.array(mesh.moment_inertia) * density,
        stable_poses=found.poses,
        stable_probabilities=found.probabilities,
        notes="",
    )
