"""Between the joint orders of one robot, both ways.

ManiSkill observes joints in the order of `robot.active_joints` (breadth first, so that a bimanual
robot's arms alternate) and takes actions in that of `controller.joints`; a grasp has its own order,
`HandSpec.joint_names`. Names decide, never positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.envs.errors import JointOrderError

Int = NDArray[np.int64]


def columns(source: Sequence[str], target: Sequence[str]) -> Int:
    """(len(target),) positions in `source` of the names of `target`: `x[..., columns]` reorders.

    Raises JointOrderError when a name occurs twice or is not in `source`.
    """
    where = {name: i for i, name in enumerate(source)}
    if len(where) != len(source) or len(set(target)) != len(target):
        raise JointOrderError("a joint name occurs twice", source, target)
    if missing := [name for name in target if name not in where]:
        raise JointOrderError(f"{', '.join(missing)} missing", source, target)
    return np.array([where[name] for name in target], np.int64)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class JointOrders:
    """Index arrays between observations (K joints) and actions (K), of one robot.

    Works on numpy arrays and torch tensors of shape (..., K).
    """

    observation: tuple[str, ...]  # robot.active_joints
    action: tuple[str, ...]  # controller.joints, each once

    def __post_init__(self) -> None:
        if sorted(self.observation) != sorted(self.action):
            raise JointOrderError("not the same joints", self.observation, self.action)
        columns(self.observation, self.action)

    def to_action(self, observed: Any) -> Any:
        """(..., K) in observation order -> action order."""
        return observed[..., columns(self.observation, self.action)]

    def to_observation(self, acted: Any) -> Any:
        """(..., K) in action order -> observation order."""
        return acted[..., columns(self.action, self.observation)]


def joint_orders(agent: Any) -> JointOrders:
    """The orders of a ManiSkill agent under its present controller."""
    controller = agent.controller
    return JointOrders(
        observation=tuple(joint.name for joint in agent.robot.active_joints),
        action=tuple(joint.name for joint in controller.joints),
    )
