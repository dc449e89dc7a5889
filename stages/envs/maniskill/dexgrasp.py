"""`DexGrasp`: scene records as ManiSkill sub-scenes, with or without a hand.

Sub-scene i holds scene i. One environment on the CPU, any number on CUDA.
"""

import copy
import gc
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import sapien
import torch
from mani_skill.envs.sapien_env import BaseEnv
from mani_skill.sensors.camera import CameraConfig
from mani_skill.utils.registration import register_env
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from schemas.frames import matrix_to_pose
from schemas.records import FIRST_OBJECT
from stages.envs.errors import EnvConfigError
from stages.envs.maniskill.agent_table import AGENTS, agent_entry
from stages.envs.maniskill.agents import HandAgent, agent_class
from stages.envs.maniskill.judge import judge
from stages.envs.maniskill.scenes import (
    HAND_BIT,
    GraspScene,
    Physics,
    SceneActors,
    unit_rows,
)

Float = NDArray[np.float64]
NEAR, FAR = 0.01, 30.0  # m; int16 millimetres end at 32.767
NO_ROBOT = "none"
# Columns: SAPIEN's forward, left, up in the axes of an OpenCV camera (right, down, forward).
R_CV_SAPIEN = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])


@lru_cache(maxsize=1)
def _freeze() -> None:
    """ManiSkill collects garbage at every rebuild; what the imports left need not be looked at."""
    gc.collect()
    gc.freeze()


def _check_count(scenes: Sequence[GraspScene], count: int) -> None:
    if len(scenes) != count:
        raise EnvConfigError(f"DexGrasp: expected {count} scenes, got {len(scenes)}")


@register_env("DexGrasp")
class DexGrasp(BaseEnv):
    """Objects on tables, or in the air, and perhaps a hand.

    - `scenes`: one GraspScene a sub-scene;
    - `robot_uids`: of `agent_table.AGENTS`, or "none";
    - `floating_object`: no table, and no gravity on the objects;
    - `object_mass` (kg): of every object; None keeps the scene's own;
    - `friction`: of objects, tables and hands; ManiSkill's own agents keep theirs;
    - `physics`: False makes pictures of the objects, for a renderer, which never steps;
    - `camera`: size and intrinsics of the sensor `camera`; None for no sensor. `normals` adds a
      second one whose normals are those of the faces.
    """

    SUPPORTED_ROBOTS: list[str] = [*AGENTS, NO_ROBOT]  # noqa: RUF012  as ManiSkill has it
    SUPPORTED_REWARD_MODES = ("sparse", "none")

    def __init__(
        self,
        *args: Any,
        scenes: Sequence[GraspScene],
        robot_uids: str = NO_ROBOT,
        num_envs: int | None = None,
        floating_object: bool = False,
        object_mass: float | None = 0.1,
        friction: float = 0.6,
        target_lift_dist: float = 0.1,
        object_jitter: float = 0.0,
        physics: bool = True,
        camera: Intrinsics | None = None,
        normals: bool = False,
        **kwargs: Any,
    ) -> None:
        count = len(scenes) if num_envs is None else num_envs
        _check_count(scenes, max(count, 1))
        if camera is not None and camera.distortion:
            raise EnvConfigError(
                "DexGrasp: SAPIEN's cameras have no lens distortion; undistort the intrinsics, or "
                "render with backend: embree"
            )
        if robot_uids != NO_ROBOT:
            agent_entry(robot_uids)  # an unknown one is named with the known
            self.SUPPORTED_ROBOTS = [*DexGrasp.SUPPORTED_ROBOTS, robot_uids]  # or a hand file's
        self.grasp_scenes = tuple(scenes)
        self.numbers = Physics(
            floating_object=floating_object,
            object_mass=object_mass,
            friction=friction,
            collisions=physics,
        )
        self.target_lift_dist, self.object_jitter = target_lift_dist, object_jitter
        self.camera, self.normals = camera, normals
        self._blind = False
        super().__init__(*args, num_envs=count, robot_uids=robot_uids, **kwargs)

    def rebuild(self, scenes: Sequence[GraspScene], seed: Any = None) -> None:
        """Replace what the sub-scenes hold; as many scenes as there are sub-scenes."""
        _check_count(scenes, self.num_envs)
        _freeze()
        self.grasp_scenes = tuple(scenes)
        self._blind = True  # nobody reads the observation of this reset
        try:
            self.reset(seed=seed, options={"reconfigure": True})
        finally:
            self._blind = False

    def _clear(self) -> None:
        self.contents = self.target = self._camera_actor = None  # else they outlive the scene
        super()._clear()

    def get_obs(self, *args: Any, **kwargs: Any) -> Any:
        return {} if self._blind else super().get_obs(*args, **kwargs)

    def _load_agent(self, options: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        if self.robot_uids == NO_ROBOT:
            self.agent = None
            return
        made = agent_class(self.robot_uids)
        where = sapien.Pose([0.0, 0.0, 0.6])  # clear of the objects; a reset puts it at rest
        self.agent = made(self.scene, self._control_freq, self._control_mode, initial_pose=where)
        if isinstance(self.agent, HandAgent):
            self.agent.set_friction(self.numbers.friction)
        if self.numbers.collisions:
            for link in self.agent.robot.links:
                link.set_collision_group_bit(group=2, bit_idx=HAND_BIT, bit=1)

    def _load_scene(self, options: dict[str, Any]) -> None:
        self.contents = SceneActors(self.scene, self.grasp_scenes, self.numbers)
        self.target = self.contents.target
        if self.camera is not None:
            builder = self.scene.create_actor_builder()
            builder.initial_pose = sapien.Pose()
            self._camera_actor = builder.build_kinematic(name="camera")

    @property
    def _default_sensor_configs(self) -> list[CameraConfig]:
        if self.camera is None:
            return []
        K = self.camera
        common: dict[str, Any] = dict(
            pose=sapien.Pose(),
            width=K.width,
            height=K.height,
            intrinsic=K.K.astype(np.float32),
            near=NEAR,
            far=FAR,
            mount=self._camera_actor,
        )
        configs = [CameraConfig(uid="camera", shader_pack="minimal", **common)]
        if self.normals:
            configs.append(CameraConfig(uid="normals", shader_pack="default", **common))
        return configs

    def _initialize_episode(self, env_idx: torch.Tensor, options: dict[str, Any]) -> None:
        """Objects as in the scene records, moved sideways by `object_jitter`; hand at rest.

        The random numbers are those of ManiSkill's batched generators, one a sub-scene, so they
        depend on its own seed alone.
        """
        with torch.device(self.device):
            poses = [np.array(one.scene.object_poses, np.float64) for one in self.grasp_scenes]
            if self.object_jitter and self.numbers.collisions:
                moved = self._batched_episode_rng[env_idx.cpu().numpy()].uniform(-1, 1, size=(2,))
                for i, xy in zip(env_idx.tolist(), np.asarray(moved), strict=True):
                    poses[i][:, :2] += xy * self.object_jitter
            self.contents.set_object_poses(poses)
            if self.agent is not None:
                self.agent.reset(self.agent.rest_qpos.repeat(len(env_idx), 1))
                self.agent.robot.set_root_pose(self.contents.poses([self.agent.rest_pose]))

    def set_cameras(self, T_world_cam: Float) -> None:
        """Pose the camera of every sub-scene, (N, 4, 4) OpenCV, world."""
        poses = np.empty((self.num_envs, 7))
        for i, T in enumerate(np.asarray(T_world_cam, np.float64)):
            T = T.copy()
            T[:3, :3] = T[:3, :3] @ R_CV_SAPIEN
            poses[i] = matrix_to_pose(T)
        self._camera_actor.set_pose(self.contents.poses(poses))

    def flush(self) -> None:
        """Make what was written true: kinematics, and on CUDA the buffers. Time does not pass."""
        if self.gpu_sim_enabled:
            self.scene._gpu_apply_all()
            self.scene.px.gpu_update_articulation_kinematics()
            self.scene._gpu_fetch_all()

    def control_step(self, robot: Any, qpos: Float) -> None:
        """Drive the hands of `robot` towards `qpos` (N, 7 + J) for one control step."""
        robot.drive(qpos)
        self._step_action(None)
        self._elapsed_steps += 1

    def target_pose(self) -> Float:
        """(N, 7) world <- target object."""
        return unit_rows(self.target.pose.raw_pose)

    def saved_state(self) -> dict[str, Any]:
        """Poses, joints, velocities and what the controllers aim at, copied."""
        state: dict[str, Any] = {"env": copy.deepcopy(self.get_state_dict())}
        if self.agent is not None:
            robot = self.agent.robot
            state["targets"] = robot.drive_targets.clone()
        return state

    def restore_state(self, state: dict[str, Any]) -> None:
        """Back to `saved_state`."""
        self.set_state_dict(state["env"])
        if self.agent is not None:
            robot = self.agent.robot
            self.agent.controller.reset()
            robot.set_joint_drive_targets(
                state["targets"], robot.active_joints, torch.arange(robot.max_dof)
            )
        self.flush()

    def get_state_dict(self) -> dict[str, Any]:
        return super().get_state_dict() if self.agent is not None else self.scene.get_sim_state()

    def _get_obs_agent(self) -> dict[str, Any]:
        return super()._get_obs_agent() if self.agent is not None else {}

    def capture(self, sensor: str = "camera", **textures: bool) -> dict[str, torch.Tensor]:
        """Pictures of all sub-scenes, (N, H, W, C); `textures` as in `Camera.get_obs`."""
        wanted = dict.fromkeys(("rgb", "depth", "position", "segmentation"), False) | textures
        self.scene.update_render(update_sensors=True, update_human_render_cameras=False)
        camera = self.scene.sensors[sensor]
        camera.capture()
        return camera.get_obs(**wanted)

    def same_build(self, scenes: Sequence[GraspScene]) -> bool:
        """Whether `scenes` differ from what is built in poses alone, so that `move` will do."""
        pairs = zip(scenes, self.grasp_scenes, strict=True)
        return all(new.build_key == old.build_key for new, old in pairs)

    def move(self, scenes: Sequence[GraspScene]) -> None:
        """Write the poses of objects and tables of `scenes`, for which `same_build` holds."""
        self.grasp_scenes = tuple(scenes)
        self.contents.move(scenes)

    def depth_and_segment(self) -> tuple[NDArray[np.int16], NDArray[np.uint16]]:
        """(N, H, W) z-depth in whole millimetres, 0 without a hit, and ids of `segment_table`."""
        seen = self.capture(depth=True, segmentation=True)
        depth = seen["depth"][..., 0].cpu().numpy()
        raw = seen["segmentation"][..., 0].cpu().numpy()
        segment = np.zeros(raw.shape, np.uint16)
        for i in range(self.num_envs):
            segment[i] = self._segment_of(i)[raw[i]]
        return np.where(segment > 0, depth, 0).astype(np.int16), segment

    def segment_table(self, i: int) -> dict[str, int]:
        """Segment name -> id of sub-scene i: the scene's own, then `hand:<link>`."""
        table = self.grasp_scenes[i].scene.segment_table
        return table | {f"hand:{link.name}": number for link, number in self._link_ids(i)}

    def _segment_of(self, i: int) -> NDArray[np.uint16]:
        out = self.contents.segment_of(i)
        for link, number in self._link_ids(i):
            out[link._objs[i].entity.per_scene_id] = number
        return out

    def _link_ids(self, i: int) -> list[tuple[Any, int]]:
        """Links of the hand, when there is one, with their segment ids in sub-scene i."""
        links = [] if self.agent is None else self.agent.robot.links
        first = FIRST_OBJECT + len(self.grasp_scenes[i].assets)
        return [(link, first + n) for n, link in enumerate(links)]

    def contact_forces(self) -> torch.Tensor:
        """(L, N, 3) N, of every contact link on the target."""
        if self.agent is None or self.target is None or not self.numbers.collisions:
            return torch.zeros((0, self.num_envs, 3), device=self.device)
        links = [self.agent.robot.links_map[name] for name in self.agent.contact_links]
        return torch.stack(
            [self.scene.get_pairwise_contact_forces(link, self.target) for link in links]
        )

    def evaluate(self) -> dict[str, torch.Tensor]:
        """(N,) each: success and the state of the contacts, see `judge`."""
        lift = torch.zeros(self.num_envs, device=self.device)
        if self.target is not None:
            lift = self.target.pose.p[:, 2] - self.target.initial_pose.p[:, 2]
        return judge(
            self.contact_forces(),
            lift,
            target_lift_dist=self.target_lift_dist,
            floating=self.numbers.floating_object,
        )
