"""Where a hand touches an object at its grasp poses, by kinematics alone: nothing is simulated."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from schemas.frames import invert, pose_to_matrix, transform_points
from schemas.records import GraspSet, ObjectAsset
from stages.assets.hands.spec import HandSpec
from stages.envs.config import PhysicsConfig
from stages.envs.mujoco.grasp_model import build_grasp_model
from stages.envs.mujoco.hand_model import set_hand_qpos
from stages.envs.mujoco.metrics import body_contacts

Float = NDArray[np.float64]


def grasp_contacts(
    hand: HandSpec, grasps: GraspSet, asset: ObjectAsset, threshold: float
) -> list[Float]:
    """Per grasp (n, 3) m, object frame: one contact for each contact body of the hand that lies
    within `threshold` m of the object at the grasp pose; the mean of the body's contact points.
    """
    grasp = build_grasp_model(hand, asset, PhysicsConfig())
    model, data = grasp.model, grasp.data
    T_object_world = invert(pose_to_matrix(grasps.object_pose))
    data.qpos[grasp.object_qpos : grasp.object_qpos + 7] = grasps.object_pose
    out: list[Float] = []
    for qpos in grasps.grasp_qpos:
        set_hand_qpos(data, grasp.index, qpos)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        points, _ = body_contacts(grasp, grasp.is_contact_body, threshold)
        out.append(transform_points(T_object_world, points))
    return out
