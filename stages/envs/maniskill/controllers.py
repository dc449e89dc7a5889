"""Joint position control in which followers move with their masters."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from mani_skill.agents.controllers.pd_joint_pos import (
    PDJointPosController,
    PDJointPosControllerConfig,
)

from stages.envs.maniskill.urdf import Follower


class LedPosController(PDJointPosController):
    """Targets of the leading joints in action order; each follower gets what its mimic says."""

    config: "LedPosControllerConfig"

    def _initialize_joints(self) -> None:
        super()._initialize_joints()
        names = list(self.config.joint_names)
        leading = [name for name in names if name not in {f.joint for f in self.config.followers}]
        matrix, offset = np.zeros((len(names), len(leading))), np.zeros(len(names))
        for column, name in enumerate(leading):
            matrix[names.index(name), column] = 1.0
        for follower in self.config.followers:
            row = names.index(follower.joint)
            matrix[row, leading.index(follower.master)] = follower.multiplier
            offset[row] = follower.offset
        self._leading = torch.tensor([names.index(name) for name in leading], device=self.device)
        self._matrix = torch.tensor(matrix, dtype=torch.float32, device=self.device)
        self._offset = torch.tensor(offset, dtype=torch.float32, device=self.device)

    def _get_joint_limits(self) -> np.ndarray:
        return super()._get_joint_limits()[self._leading.cpu().numpy()]

    def _initialize_action_space(self) -> None:
        limits = self._get_joint_limits()
        if self.config.use_delta:
            shape = (len(self._leading),)
            low, high = np.full(shape, self.config.lower), np.full(shape, self.config.upper)
        else:
            low, high = limits[:, 0], limits[:, 1]
        self.single_action_space = spaces.Box(
            low.astype(np.float32), high.astype(np.float32), dtype=np.float32
        )

    def all_joints(self, leading: torch.Tensor) -> torch.Tensor:
        """(N, K) targets of every joint from (N, L) of the leading ones."""
        return leading @ self._matrix.T + self._offset

    def set_action(self, action: Any) -> None:
        action = self._preprocess_action(action)
        self._step = 0
        self._start_qpos = self.qpos
        if self.config.use_delta:
            base = self._target_qpos if self.config.use_target else self._start_qpos
            action = base[:, self._leading] + action
        self._target_qpos = self.all_joints(action)
        self.set_drive_targets(self._target_qpos)


@dataclass
class LedPosControllerConfig(PDJointPosControllerConfig):
    """`joint_names` are the leading joints, in action order, then their followers."""

    followers: Sequence[Follower] = field(default_factory=tuple)
    controller_cls = LedPosController
