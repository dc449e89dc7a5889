"""Inverse kinematics of a rig's arm by damped least squares.

dq = J^T (J J^T + damping^2 I)^-1 e (Wampler 1986; Nakamura and Hanafusa 1986): like Newton's method
far from singular poses, and bounded near them.
"""

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from stages.envs.mujoco.hand_index import HandIndex, joint_limits

Float = NDArray[np.float64]

DAMPING = 0.02  # m and rad; small against the 0.1 to 1 m of an arm's Jacobian
ITERATIONS = 200
LARGEST_STEP = 0.2  # rad or m of any joint and iteration
TOLERANCE = 1e-4  # m and rad


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Arm:
    """A rig whose `joints` carry `body`. Addresses are those of `index`'s model."""

    model: mujoco.MjModel
    index: HandIndex
    columns: NDArray[np.int64]  # (K,) the arm's joints, as columns of a joint vector (J,)

    def reach(self, qpos: Float, target: Float) -> tuple[Float, float]:
        """Joint targets that bring the carried body to `target` (7,), world.

        `qpos` (7 + J,) is the rig to start from; base and other joints stay. Returns the new qpos
        (7 + J,), joints within their limits, and the error left, m and rad as one norm: above
        TOLERANCE the target is out of reach.
        """
        model, index = self.model, self.index
        data = mujoco.MjData(model)
        data.mocap_pos[index.mocap], data.mocap_quat[index.mocap] = qpos[:3], qpos[3:7]
        addresses, dofs = index.joint_qpos[self.columns], index.joint_dof[self.columns]
        data.qpos[index.joint_qpos] = qpos[7:]
        limits = joint_limits(model, index)[self.columns].T
        jacobian = np.zeros((6, model.nv))
        best, smallest = qpos, np.inf
        for _ in range(ITERATIONS):
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            error = _difference(data, index.carrier, target)
            size = float(np.linalg.norm(error))
            if size < smallest:
                smallest, best = size, np.concatenate([qpos[:7], data.qpos[index.joint_qpos]])
            if size < TOLERANCE:
                break
            mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], index.carrier)
            J = jacobian[:, dofs]
            step = J.T @ np.linalg.solve(J @ J.T + DAMPING**2 * np.eye(6), error)
            step *= min(1.0, LARGEST_STEP / max(float(np.abs(step).max()), 1e-12))
            data.qpos[addresses] = np.clip(data.qpos[addresses] + step, *limits)
        return best, smallest


def _difference(data: mujoco.MjData, body: int, target: Float) -> Float:
    """(6,) translation (m) and rotation vector (rad), world, from `body` to `target` (7,)."""
    turn = np.zeros(3)
    inverse, product = np.zeros(4), np.zeros(4)
    mujoco.mju_negQuat(inverse, data.xquat[body])
    mujoco.mju_mulQuat(product, target[3:7], inverse)
    mujoco.mju_quat2Vel(turn, product, 1.0)
    return np.concatenate([target[:3] - data.xpos[body], turn])
