"""One grasp again, with small errors in friction, mass and the pose of the hand."""

import copy
from dataclasses import replace

import mujoco
import numpy as np

from schemas.frames import matrix_to_pose, pose_to_matrix
from stages.envs.config import ConfidenceConfig
from stages.envs.grasp_input import GraspInput
from stages.envs.mujoco.grasp_model import GraspModel
from stages.envs.mujoco.protocols.trial import Float


def perturbed(
    grasp: GraspModel, row: GraspInput, config: ConfidenceConfig, rng: np.random.Generator
) -> tuple[GraspModel, GraspInput]:
    """A copy of the model with other friction and mass, and the row with the hand elsewhere.

    The hand, with the base of a rig, moves as one rigid body about the object's centre of mass.
    The object stays, so that it still rests on the table.
    """
    friction, mass = 1 + rng.uniform(-1, 1, 2) * (config.friction, config.mass)
    model = copy.copy(grasp.model)
    model.geom_friction[:] *= friction
    model.body_mass[grasp.object_body] *= mass
    model.body_inertia[grasp.object_body] *= mass
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)  # what is derived from the masses
    arm = None if grasp.arm is None else replace(grasp.arm, model=model)
    centre = pose_to_matrix(row.object_pose) @ [*model.body_ipos[grasp.object_body], 1.0]
    T_error = _rigid_error(centre[:3], config, rng)

    def move(qpos: Float) -> Float:
        root = matrix_to_pose(T_error @ pose_to_matrix(qpos[:7]))
        return np.concatenate([root, qpos[7:]])

    moved = replace(
        row,
        pregrasp_qpos=move(row.pregrasp_qpos),
        grasp_qpos=move(row.grasp_qpos),
        squeeze_qpos=move(row.squeeze_qpos),
    )
    return replace(grasp, model=model, data=data, arm=arm), moved


def _rigid_error(centre: Float, config: ConfidenceConfig, rng: np.random.Generator) -> Float:
    """(4, 4): a turn about `centre` (3,) and a shift, uniform in their balls."""
    axis, shift = rng.normal(size=(2, 3))
    angle = config.rotation * rng.uniform()
    half = np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * axis / np.linalg.norm(axis)])
    T = pose_to_matrix([0.0, 0.0, 0.0, *half])
    shift *= config.translation * np.cbrt(rng.uniform()) / np.linalg.norm(shift)
    T[:3, 3] = centre - T[:3, :3] @ centre + shift
    return T
