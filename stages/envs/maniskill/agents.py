"""ManiSkill agents made from hand files, and ManiSkill's own under the names of the table.

Gains, force limits, armature and contact bodies are those of the hand file, so that both engines
hold the same hand. Gravity does not act on a hand, and its links do not collide with each other:
their coarse shapes overlap at rest.
"""

from functools import cache
from typing import Any, ClassVar

import mani_skill.agents.robots  # noqa: F401  registers ManiSkill's own agents
import numpy as np
import sapien
import torch
from mani_skill.agents.base_agent import BaseAgent
from mani_skill.agents.controllers import (
    PassiveControllerConfig,
    PDEEPoseControllerConfig,
    PDJointPosControllerConfig,
    deepcopy_dict,
)
from mani_skill.agents.registration import REGISTERED_AGENTS

from stages.assets.hands.load import load_hand
from stages.assets.hands.models import resolve_model
from stages.assets.hands.spec import HandSpec
from stages.envs.errors import EnvConfigError
from stages.envs.maniskill.agent_table import AgentEntry, agent_entry
from stages.envs.maniskill.controllers import LedPosControllerConfig
from stages.envs.maniskill.urdf import REACH, ROOT_JOINTS, SapienUrdf, sapien_urdf

TORSION = 0.02  # m, torsional friction; as in MuJoCo
SLIDE_GAINS = (2000.0, 200.0, 200.0)  # N/m, N s/m, N: over critical for a hand of up to 5 kg
TURN_GAINS = (100.0, 10.0, 50.0)  # Nm/rad, Nm s/rad, Nm
DELTA = 0.1  # m or rad, the largest step of a delta action
ABOVE = (0.0, 0.0, 0.6, 1.0, 0.0, 0.0, 0.0)  # where a floating hand rests: clear of the table
BEHIND = (-0.615, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)  # and ManiSkill's arms, as in its own tasks


class _Checked:
    """Mixed into every agent: ManiSkill's own check asks numpy about a tensor, which warns."""

    controller: Any

    def set_action(self, action: torch.Tensor) -> None:
        if torch.isnan(action).any():
            raise ValueError(f"action: expected numbers, got NaN in {action.tolist()}")
        self.controller.set_action(action)


class HandAgent(_Checked, BaseAgent):
    """A robot described by a hand file. Made by `agent_class`, one class a uid."""

    spec: ClassVar[HandSpec]
    entry: ClassVar[AgentEntry]
    urdf: ClassVar[SapienUrdf]
    disable_self_collisions = True

    @property
    def _controller_configs(self) -> dict[str, Any]:
        spec, floating = self.spec, self.entry.base == "virtual"
        arm = list(ROOT_JOINTS) if floating else list(spec.ik_joints)
        hand = [name for name in spec.joint_names if name not in arm]
        gains = {
            name: (spec.kp[i], spec.damping[i], spec.force_limits[i])
            for i, name in enumerate(spec.joint_names)
        }
        gains |= dict.fromkeys(ROOT_JOINTS[:3], SLIDE_GAINS)
        gains |= dict.fromkeys(ROOT_JOINTS[3:], TURN_GAINS)
        followers = self.urdf.followers
        gains |= {f.joint: gains[f.master] for f in followers}

        def pd(names: list[str]) -> dict[str, list[float]]:
            columns = ("stiffness", "damping", "force_limit")
            return {c: [gains[name][i] for name in names] for i, c in enumerate(columns)}

        led = [*hand, *(f.joint for f in followers)]
        common: dict[str, Any] = dict(followers=followers, normalize_action=False, **pd(led))
        hand_pos = LedPosControllerConfig(led, None, None, **common)
        hand_delta = LedPosControllerConfig(led, -DELTA, DELTA, use_delta=True, **common)
        passive = PassiveControllerConfig([*arm, *led], damping=pd([*arm, *led])["damping"])
        if not arm:
            return deepcopy_dict(
                {
                    "pd_joint_pos": {"hand": hand_pos},
                    "pd_joint_delta_pos": {"hand": hand_delta},
                    "passive": {"hand": passive},
                }
            )
        where = "floating_base" if floating else "arm"
        plain: dict[str, Any] = dict(normalize_action=False, **pd(arm))
        pos = PDJointPosControllerConfig(arm, None, None, **plain)
        delta = PDJointPosControllerConfig(arm, -DELTA, DELTA, use_delta=True, **plain)
        ee: dict[str, Any] = dict(
            ee_link=spec.root_body if floating else spec.lift_body, urdf_path=self.urdf_path
        )
        pose = PDEEPoseControllerConfig(arm, -REACH, REACH, use_delta=False, **ee, **plain)
        delta_pose = PDEEPoseControllerConfig(
            arm, -DELTA, DELTA, rot_lower=-DELTA, rot_upper=DELTA, use_delta=True, **ee, **plain
        )
        return deepcopy_dict(
            {
                "pd_joint_pos": {where: pos, "hand": hand_pos},
                "pd_joint_delta_pos": {where: delta, "hand": hand_delta},
                "pd_ee_pose": {where: pose, "hand": hand_pos},
                "pd_ee_delta_pose": {where: delta_pose, "hand": hand_pos},
                "passive": {"all": passive},
            }
        )

    def _after_loading_articulation(self) -> None:
        armature = dict(zip(self.spec.joint_names, self.spec.armatures, strict=True))
        for follower in self.urdf.followers:
            armature[follower.joint] = armature[follower.master]
        for joint in self.robot.active_joints:
            for one in joint._objs:
                one.set_armature(np.full((1, 1), armature.get(joint.name, 0.0), np.float32))

    def set_friction(self, sliding: float) -> None:
        """Of every link: `sliding` (1), and torsional friction of TORSION whatever that is.

        PhysX has the latter between shapes that touch in one point, not where meshes touch in more.
        """
        material = sapien.physx.PhysxMaterial(sliding, sliding, 0.0)
        patch = TORSION / sliding if sliding else 0.0  # m: torsional = patch radius times sliding
        for link in self.robot.links:
            for one in link._objs:
                for shape in one.collision_shapes:
                    shape.set_physical_material(material)
                    shape.set_patch_radius(patch)
                    shape.set_min_patch_radius(patch)

    @property
    def contact_links(self) -> tuple[str, ...]:
        return self.spec.contact_bodies

    @property
    def root_link(self) -> str:
        """The link that a grasp's root pose places."""
        return self.spec.root_body

    @property
    def rest_pose(self) -> tuple[float, ...]:
        """(7,) of the articulation's root, world."""
        return self.spec.base_pose if self.entry.base == "fixed" else ABOVE

    @property
    def rest_qpos(self) -> torch.Tensor:
        """(K,) open hand in observation order; virtual joints at 0."""
        values = dict(zip(self.spec.joint_names, self.spec.open_qpos, strict=True))
        for follower in self.urdf.followers:
            values[follower.joint] = follower.multiplier * values[follower.master] + follower.offset
        names = [joint.name for joint in self.robot.active_joints]
        return torch.tensor([values.get(name, 0.0) for name in names], device=self.device)


class _Native(_Checked):
    """Mixed into ManiSkill's own agents."""

    entry: ClassVar[AgentEntry]
    robot: Any

    @property
    def contact_links(self) -> tuple[str, ...]:
        return self.entry.contact_links

    @property
    def root_link(self) -> str:
        return self.entry.root_link or str(self.robot.links[0].name)

    @property
    def rest_pose(self) -> tuple[float, ...]:
        """(7,) of the articulation's root, world."""
        return BEHIND if self.entry.base == "fixed" else ABOVE

    @property
    def rest_qpos(self) -> torch.Tensor:
        """(K,) ManiSkill's first keyframe, or zero where that is within the limits."""
        agent: Any = self
        frames = [frame.qpos for frame in agent.keyframes.values() if frame.qpos is not None]
        if frames:
            return torch.as_tensor(np.ravel(frames[0]), dtype=torch.float32, device=agent.device)
        limits = agent.robot.get_qlimits()[0]
        return torch.clamp(
            torch.zeros(len(limits), device=agent.device), limits[:, 0], limits[:, 1]
        )


@cache
def agent_class(uid: str) -> type[BaseAgent]:
    """The agent class of `uid`; EnvConfigError when it is unknown or its files are not here."""
    entry = agent_entry(uid)
    if entry.missing:
        raise EnvConfigError(f"agent {uid!r} {entry.missing}")
    if entry.native:
        native = REGISTERED_AGENTS[entry.native].agent_cls
        return type(f"Native_{uid}", (_Native, native), {"uid": uid, "entry": entry})
    spec = load_hand(entry.hand)
    path, floating = resolve_model(spec.model), entry.base == "virtual"
    urdf = sapien_urdf(path, spec.root_body, spec.joint_names, floating=floating)
    values = {
        "uid": uid,
        "spec": spec,
        "entry": entry,
        "urdf": urdf,
        "urdf_path": str(urdf.path),
    }
    return type(f"HandAgent_{uid}", (HandAgent,), values)
