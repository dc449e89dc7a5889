"""Hand qpos, (7 + J,) root pose and joints as in a GraspSet, against ManiSkill's own joints."""

from typing import Any

import numpy as np
import torch
from mani_skill.agents.controllers import (
    PassiveController,
    PDJointPosController,
    PDJointPosMimicController,
    PDJointVelController,
)
from mani_skill.utils.structs import Pose
from numpy.typing import NDArray

from schemas.frames import invert, pose_to_matrix
from stages.envs.errors import EnvConfigError
from stages.envs.maniskill.agents import HandAgent
from stages.envs.maniskill.controllers import LedPosController
from stages.envs.maniskill.reindex import columns
from stages.envs.maniskill.scenes import unit_rows
from stages.envs.maniskill.urdf import ROOT_JOINTS

Float = NDArray[np.float64]


def root_offsets(T_base_root: Float) -> Float:
    """(N, 6) values of the virtual joints that put the hand at (N, 4, 4) in their base's frame.

    R = Rx(a) Ry(b) Rz(c), the order of ROOT_JOINTS; b is within 90 degrees.
    """
    R = T_base_root[:, :3, :3]
    a = np.arctan2(-R[:, 1, 2], R[:, 2, 2])
    b = np.arcsin(np.clip(R[:, 0, 2], -1.0, 1.0))
    c = np.arctan2(-R[:, 0, 1], R[:, 0, 0])
    return np.concatenate([T_base_root[:, :3, 3], np.stack([a, b, c], axis=1)], axis=1)


class Robot:
    """The hand of a DexGrasp environment, in the words of a GraspSet.

    A hand on virtual joints is placed by the pose of their base, so that all six are 0 there and
    small afterwards: no angle comes near a singular one.
    """

    def __init__(self, env: Any) -> None:
        self.env, self.agent = env, env.agent
        if self.agent is None:
            raise EnvConfigError("this environment has no hand; set MsEnvConfig.agent")
        self.articulation = self.agent.robot
        self.observed = tuple(joint.name for joint in self.articulation.active_joints)
        spec = self.agent.spec if isinstance(self.agent, HandAgent) else None
        self.joint_names: tuple[str, ...] = (
            spec.joint_names
            if spec is not None
            else tuple(name for name in self.observed if name not in ROOT_JOINTS)
        )
        self._columns = columns(self.observed, self.joint_names)
        self.base: str = self.agent.entry.base

    def qpos(self) -> Float:
        """(N, 7 + J) world."""
        root = self.articulation.links_map[self.agent.root_link].pose.raw_pose
        joints = self.articulation.get_qpos()[:, self._columns]
        return unit_rows(torch.cat([root, joints], dim=1))

    def place(self, qpos: Float) -> None:
        """Put the hands at `qpos` (N, 7 + J), at rest, their drives aimed there."""
        observed = self._observed(qpos)
        self.articulation.set_root_pose(self._pose(qpos[:, :7]))
        self.articulation.set_qpos(observed)
        self.articulation.set_qvel(torch.zeros_like(observed))
        self.env.flush()
        self.agent.controller.reset()
        self.drive(qpos)

    def drive(self, qpos: Float) -> None:
        """Aim at `qpos` (N, 7 + J): virtual joints or arm, and fingers; a static base is put there.

        Time does not pass. The controller must be one of joint positions.
        """
        if self.base == "static":
            self.articulation.set_root_pose(self._pose(qpos[:, :7]))
            self.env.flush()
        self.agent.set_action(self.action(qpos))
        if self.env.gpu_sim_enabled:
            self.env.scene.px.gpu_apply_articulation_target_position()

    def action(self, qpos: Float) -> torch.Tensor:
        """(N, A) action of the present controller for `qpos` (N, 7 + J), in action order."""
        target = self._observed(qpos)
        if self.base == "virtual":
            base, roots = unit_rows(self.articulation.pose.raw_pose), qpos[:, :7]
            T = np.stack(
                [
                    invert(pose_to_matrix(b)) @ pose_to_matrix(q)
                    for b, q in zip(np.broadcast_to(base, roots.shape), roots, strict=True)
                ]
            )
            where = columns(self.observed, ROOT_JOINTS)
            target[:, where] = self._tensor(root_offsets(T))
        controller = self.agent.controller
        parts = getattr(controller, "controllers", {"": controller}).values()
        return torch.cat([part for one in parts for part in self._part(one, target)], dim=1)

    def _part(self, controller: Any, target: torch.Tensor) -> list[torch.Tensor]:
        if isinstance(controller, PassiveController):
            return []
        if isinstance(controller, PDJointVelController):
            shape = controller.single_action_space.shape  # told to stand still
            return [torch.zeros((len(target), *shape), device=target.device)]
        # a controller of end-effector poses is one of joint positions to Python
        plain = type(controller) in (
            PDJointPosController,
            PDJointPosMimicController,
            LedPosController,
        )
        if not plain:
            raise EnvConfigError(
                f"control mode {self.agent.control_mode!r} takes no joint positions; use "
                "pd_joint_pos, or step the environment with its own actions"
            )
        names = [joint.name for joint in controller.joints]
        wanted = target[:, columns(self.observed, names)]
        if controller.config.use_delta:
            aimed = controller.config.use_target
            wanted = wanted - (controller._target_qpos if aimed else controller.qpos)
        if isinstance(controller, LedPosController):
            wanted = wanted[:, controller._leading]
        elif isinstance(controller, PDJointPosMimicController):
            wanted = wanted[:, controller.control_joint_indices.long()]
        if controller._normalize_action:
            low, high = controller.action_space_low, controller.action_space_high
            wanted = torch.clamp(2 * (wanted - low) / (high - low) - 1, -1.0, 1.0)
        return [wanted]

    def _observed(self, qpos: Float) -> torch.Tensor:
        """(N, K) in observation order: joints of `qpos`, their followers, virtual joints at 0."""
        if qpos.shape[1] != 7 + len(self.joint_names):
            raise EnvConfigError(
                f"qpos: expected (N, 7 + {len(self.joint_names)}), got {qpos.shape}"
            )
        out = self.agent.rest_qpos.repeat(len(qpos), 1)
        out[:, self._columns] = self._tensor(qpos[:, 7:])
        if isinstance(self.agent, HandAgent):
            place = {name: i for i, name in enumerate(self.observed)}
            for f in self.agent.urdf.followers:
                out[:, place[f.joint]] = f.multiplier * out[:, place[f.master]] + f.offset
        return out

    def _tensor(self, values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values, np.float32), device=self.agent.device)

    def _pose(self, poses: Float) -> Pose:
        return Pose.create(self._tensor(poses))
