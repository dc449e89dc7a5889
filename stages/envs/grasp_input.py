"""Rows of a GraspSet as the engines take them, and the checks before any of them runs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.records import GraspSet, ObjectAsset
from stages.assets.hands.spec import HandSpec
from stages.envs.errors import EnvConfigError, StoppedError
from stages.envs.outcomes import INVALID_INPUT

Float = NDArray[np.float64]
QUATERNION_TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GraspInput:
    """One row of a GraspSet with the pose of its object. All world frame."""

    grasp_index: int
    object_pose: Float  # (7,)
    pregrasp_qpos: Float  # (7 + J,)
    grasp_qpos: Float  # (7 + J,)
    squeeze_qpos: Float  # (7 + J,)
    seed: int = 0  # of the perturbed repeats

    def check(self, joints: int) -> None:
        """Raise StoppedError unless all are finite, of their size, with unit quaternions."""
        rows = {
            "object_pose": (self.object_pose, 7),
            "pregrasp_qpos": (self.pregrasp_qpos, 7 + joints),
            "grasp_qpos": (self.grasp_qpos, 7 + joints),
            "squeeze_qpos": (self.squeeze_qpos, 7 + joints),
        }
        for name, (values, size) in rows.items():
            if values.shape != (size,) or not np.isfinite(values).all():
                raise StoppedError(
                    INVALID_INPUT, f"{name}: expected {size} finite numbers, got {values.tolist()}"
                )
            norm = float(np.linalg.norm(values[3:7]))
            if abs(norm - 1.0) > QUATERNION_TOLERANCE:
                raise StoppedError(
                    INVALID_INPUT, f"{name}: quaternion of norm {norm:.6g}, expected 1"
                )


def grasp_inputs(grasps: GraspSet, seed: int = 0) -> list[GraspInput]:
    """One row a grasp, in order."""
    return [
        GraspInput(
            grasp_index=int(grasps.grasp_index[i]),
            object_pose=grasps.object_pose,
            pregrasp_qpos=grasps.pregrasp_qpos[i],
            grasp_qpos=grasps.grasp_qpos[i],
            squeeze_qpos=grasps.squeeze_qpos[i],
            seed=seed,
        )
        for i in range(len(grasps))
    ]


def check_grasps(
    hand: HandSpec, grasps: GraspSet, asset: ObjectAsset, protocol: str, known: Sequence[str]
) -> None:
    """Raise EnvConfigError unless `grasps` are of `hand` and `asset`, and `protocol` is `known`."""
    if protocol not in known:
        raise EnvConfigError(f"protocol: unknown {protocol!r}; known: {', '.join(known)}")
    if grasps.object_id != asset.object_id:
        raise EnvConfigError(
            f"the grasps are for object {grasps.object_id!r}, the asset is "
            f"{asset.object_id!r}; pass the asset that the grasps were sampled on"
        )
    if tuple(grasps.joint_names) != hand.joint_names:
        raise EnvConfigError(
            f"joint order: hand {hand.name!r} has {list(hand.joint_names)}, the grasps have "
            f"{list(grasps.joint_names)}; reindex the qpos columns first"
        )
