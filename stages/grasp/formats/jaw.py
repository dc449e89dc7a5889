"""Grasps that are a pose of the Panda gripper, for any parallel jaw.

ACRONYM and GraspGen store where a gripper is, open, when it starts to close. Another jaw goes where
its own grasp centre meets the Panda's, axes along axes.
"""

from pathlib import Path

import numpy as np

from schemas.frames import invert, pose_to_matrix
from schemas.records import GraspSet
from stages.assets.hands.spec import PARALLEL_JAW, HandSpec
from stages.grasp.errors import GraspFormatError
from stages.grasp.formats.checks import Float
from stages.grasp.formats.record import (
    IDENTITY_POSE,
    new_grasp_set,
    roots_in_object,
    with_roots,
)

# The tool centre point of the Panda: 0.1034 m from panda_hand, whose +z is the approach and +-y the
# closing direction (Franka's data sheet; configs/hands/panda_gripper.yaml).
T_PANDAHAND_GRASP = pose_to_matrix((0.0, 0.0, 0.1034, 1.0, 0.0, 0.0, 0.0))


def jaw_grasps(path: Path, hand: HandSpec, object_id: str, T_object_pandahand: Float) -> GraspSet:
    """(G, 4, 4) poses of panda_hand in the object's frame -> grasps of `hand`.

    Pregrasp and grasp are `hand.open_qpos` there; the squeeze is `hand.closed_qpos`, where the
    force limit of the actuators stops the jaw on the object.
    """
    _check_hand(path, hand)
    T = T_object_pandahand @ T_PANDAHAND_GRASP @ invert(pose_to_matrix(hand.T_root_grasp))
    opened = with_roots(T, np.array(hand.open_qpos))
    closed = with_roots(T, np.array(hand.closed_qpos))
    return new_grasp_set(hand, object_id, IDENTITY_POSE, opened, opened.copy(), closed)


def pandahand_poses(path: Path, hand: HandSpec, grasps: GraspSet) -> Float:
    """(G, 4, 4) poses of panda_hand in the object's frame at `grasp_qpos`."""
    _check_hand(path, hand)
    T_object_root = roots_in_object(grasps, "grasp_qpos")
    return T_object_root @ pose_to_matrix(hand.T_root_grasp) @ invert(T_PANDAHAND_GRASP)


def _check_hand(path: Path, hand: HandSpec) -> None:
    if hand.kind != PARALLEL_JAW:
        raise GraspFormatError(
            path,
            f"kind of hand {hand.name!r}",
            expected=PARALLEL_JAW,
            got=hand.kind,
            fix="the format holds gripper poses only; use a parallel jaw",
        )
