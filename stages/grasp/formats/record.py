"""What every reader gives and every writer takes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schemas.frames import invert, matrix_to_pose, pose_to_matrix
from schemas.records import GraspSet
from stages.assets.hands.load import hand_digest
from stages.assets.hands.spec import HandSpec
from stages.grasp.errors import GraspFormatError

Float = NDArray[np.float64]
IDENTITY_POSE = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
_QPOS = ("pregrasp_qpos", "grasp_qpos", "squeeze_qpos")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ImportedGrasps:
    """Grasps of one hand on one object at one scale.

    `grasps.object_pose` is the identity where the format gives grasps in the object's frame;
    that frame is the one of the source mesh, times `scale`.
    """

    grasps: GraspSet
    scale: float  # multiplies the mesh of the object
    object_file: str  # the object's mesh as the file names it; "" when it names none
    success: NDArray[np.bool_] | None  # (G,) as published; None when the file does not say

    def __post_init__(self) -> None:
        if self.success is not None and self.success.shape != (len(self.grasps),):
            raise ValueError(
                f"success: expected shape ({len(self.grasps)},), one a grasp, got "
                f"{self.success.shape}"
            )

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> "ImportedGrasps":
        """The grasps of a mask (G,) or of indices (n,); they keep their `grasp_index`."""
        kept = {name: getattr(self.grasps, name)[rows] for name in (*_QPOS, "grasp_index")}
        success = None if self.success is None else self.success[rows]
        return replace(self, grasps=replace(self.grasps, **kept), success=success)


def new_grasp_set(
    hand: HandSpec,
    object_id: str,
    object_pose: Sequence[float] | Float,
    pregrasp_qpos: Float,
    grasp_qpos: Float,
    squeeze_qpos: Float,
) -> GraspSet:
    """A GraspSet of `hand` whose grasps are numbered as they stand in the file."""
    return GraspSet(
        hand=hand.name,
        hand_digest=hand_digest(hand),
        object_id=object_id,
        joint_names=hand.joint_names,
        object_pose=np.array(object_pose, np.float64),
        pregrasp_qpos=pregrasp_qpos,
        grasp_qpos=grasp_qpos,
        squeeze_qpos=squeeze_qpos,
        grasp_index=np.arange(len(grasp_qpos), dtype=np.int64),
    )


def root_matrices(qpos: Float) -> Float:
    """(G, 7 + J) -> (G, 4, 4) poses of the hand root."""
    return np.array([pose_to_matrix(row[:7]) for row in qpos]).reshape(-1, 4, 4)


def with_roots(T: Float, joints: Float) -> Float:
    """Root poses (G, 4, 4) and joints (G, J) or (J,) -> qpos (G, 7 + J)."""
    poses = np.array([matrix_to_pose(one) for one in T]).reshape(-1, 7)
    return np.hstack([poses, np.broadcast_to(joints, (len(T), np.shape(joints)[-1]))])


def roots_in_object(grasps: GraspSet, name: str) -> Float:
    """(G, 4, 4) object <- hand root of `grasps`' field `name`."""
    return invert(pose_to_matrix(grasps.object_pose)) @ root_matrices(getattr(grasps, name))


def only_set(path: Path, sets: Sequence[ImportedGrasps]) -> ImportedGrasps:
    """The one set of a format that holds one scale a file."""
    if len(sets) != 1:
        raise GraspFormatError(
            path,
            "sets of grasps in one file",
            expected="1, as the format holds one scale",
            got=str(len(sets)),
            fix="write one file for each",
        )
    return sets[0]
