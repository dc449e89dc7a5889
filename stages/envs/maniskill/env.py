"""MsEnv: ManiSkill behind `BaseEnv`. Interactive, and scores grasps by carrying them out."""

import importlib.metadata
from collections.abc import Sequence
from typing import Any

import numpy as np
import sapien
import torch
from numpy.typing import NDArray

from schemas.frames import check_transform
from schemas.records import GraspSet, ObjectAsset
from stages.assets.hands.load import load_hand
from stages.crop import CroppedCloud, crop_depth
from stages.envs.base import BaseEnv, Evaluation
from stages.envs.config import MS_PROTOCOLS, MsEnvConfig
from stages.envs.errors import EnvConfigError
from stages.envs.grasp_input import check_grasps, grasp_inputs
from stages.envs.maniskill.agent_table import agent_entry, hand_uid
from stages.envs.maniskill.depth import depth_metres
from stages.envs.maniskill.dexgrasp import NO_ROBOT, DexGrasp
from stages.envs.maniskill.robot import Robot
from stages.envs.maniskill.rollout import RolloutRunner, grasp_scene
from stages.envs.maniskill.scenes import GraspScene
from stages.envs.maniskill.seeds import scene_seeds

Float = NDArray[np.float64]
ENGINE = f"maniskill {importlib.metadata.version('mani_skill')}, sapien {sapien.__version__}"


CUDA_ENVS = 64


def sub_scenes_of(device: str) -> int:
    """How many sub-scenes a device takes at once, unless told otherwise."""
    return CUDA_ENVS if device == "cuda" else 1


def pick_device(device: str, num_envs: int) -> str:
    """ "cpu" or "cuda"; raises EnvConfigError when more scenes are asked for than the CPU takes."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise EnvConfigError("device: cuda was asked for, and PyTorch sees none; use device: auto")
    if device == "cpu" and num_envs > 1:
        raise EnvConfigError(
            f"num_envs: PhysX simulates one scene on the CPU, got {num_envs} without a CUDA "
            "device; use num_envs: 1 and as many processes"
        )
    return device


class MsEnv(BaseEnv):
    """`num_envs` sub-scenes with one kind of hand. `load` says what they hold."""

    def __init__(self, config: MsEnvConfig) -> None:
        self.config = config
        self.device = pick_device(config.device, config.num_envs)
        self.num_envs = config.num_envs or sub_scenes_of(self.device)
        if config.agent != NO_ROBOT:
            entry = agent_entry(config.agent)
            if entry.missing:
                raise EnvConfigError(f"agent {config.agent!r} {entry.missing}")
        self._env: DexGrasp | None = None  # of `load`
        self._scoring: DexGrasp | None = None  # of `evaluate`
        self._cameras: Float | None = None

    # Interactive ---------------------------------------------------------------------------

    def load(self, scenes: Sequence[GraspScene], T_world_cam: Any = None, seed: int = 0) -> None:
        """Fill the sub-scenes; `T_world_cam` (N, 4, 4) are their cameras, OpenCV, world."""
        if self._env is None:
            self._env = self._make(scenes)
        else:
            self._env.rebuild(scenes)
        if T_world_cam is not None:
            self.set_cameras(T_world_cam)
        self.reset(seed)

    def set_cameras(self, T_world_cam: Any) -> None:
        """(N, 4, 4) OpenCV, world."""
        self._with_camera()
        poses = np.asarray(T_world_cam, np.float64)
        if poses.shape != (self.num_envs, 4, 4):
            raise EnvConfigError(
                f"T_world_cam: expected ({self.num_envs}, 4, 4), got {poses.shape}"
            )
        self._cameras = np.stack([check_transform(T, "T_world_cam") for T in poses])

    def reset(self, seed: int | None = None) -> None:
        """Every sub-scene as its record says. A scene's random numbers come from `seed` and its
        id, so they do not depend on the sub-scene that it is in."""
        env = self._loaded()
        env.reset(seed=scene_seeds(seed or 0, [one.scene.scene_id for one in env.grasp_scenes]))

    def get_qpos(self) -> Float:
        return Robot(self._loaded()).qpos()

    def set_qpos(self, qpos: Float) -> None:
        """Put the hands at (N, 7 + J), at rest; time does not pass."""
        Robot(self._loaded()).place(np.asarray(qpos, np.float64))

    def step_qpos(self, qpos: Float) -> None:
        env = self._loaded()
        env.control_step(Robot(env), np.asarray(qpos, np.float64))

    def get_info(self) -> dict[str, Any]:
        """(N,) arrays: success, is_grasped, is_strictly_grasped, is_lifted, lift (m),
        contact_links, and elapsed_steps."""
        return {name: value.cpu().numpy() for name, value in self._loaded().get_info().items()}

    def get_rgb(self) -> NDArray[np.uint8]:
        return self._aimed().capture(rgb=True)["rgb"].cpu().numpy()

    def get_pointcloud(self, seed: int = 0) -> list[CroppedCloud]:
        """One cloud a sub-scene, in the frame that `crop` asks for: the renderer's own crop.

        Sub-scene i draws its points with `seed` + i where the crop samples at random.
        """
        env, K = self._aimed(), self._with_camera()
        assert self._cameras is not None
        depth, segment = env.depth_and_segment()
        return [
            crop_depth(
                depth_metres(depth[i]),
                K,
                self.config.crop,
                seed=seed + i,
                segment=segment[i],
                segment_table=env.segment_table(i),
                T_world_cam=self._cameras[i],
                table_pose=env.grasp_scenes[i].scene.table_pose,
            )
            for i in range(env.num_envs)
        ]

    def get_state(self) -> dict[str, Any]:
        """The whole state of the simulation, to come back to."""
        return self._loaded().saved_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Back to `get_state`, in this or another environment with the same scenes."""
        self._loaded().restore_state(state)

    # Scoring -------------------------------------------------------------------------------

    def evaluate(
        self,
        grasps: GraspSet,
        asset: ObjectAsset,
        protocol: str = "rollout",
        *,
        rollouts: bool = False,
        scene_id: str = "",
        seed: int = 0,
    ) -> Evaluation:
        """Carry every grasp out on its object; N rows in, N rows out.

        What `load` filled in is not touched: the grasps run in sub-scenes of their own.
        """
        entry = agent_entry(self.config.agent)
        if not entry.hand:
            raise EnvConfigError(
                f"agent {self.config.agent!r} has no hand file, so no grasps to score; use a hand "
                "of configs/hands"
            )
        pinned = self.config.rollout.static_base
        if entry.base != "fixed" and (entry.base == "static") != pinned:
            raise EnvConfigError(
                f"agent {self.config.agent!r} has a {entry.base} base, but rollout.static_base is "
                f"{str(pinned).lower()}; use agent: {hand_uid(entry.hand, static_base=pinned)}"
            )
        hand = load_hand(entry.hand)
        check_grasps(hand, grasps, asset, protocol, MS_PROTOCOLS)
        rows = grasp_inputs(grasps, seed)
        results = []
        if rows:
            if self._scoring is None:
                start = [grasp_scene(rows[0], asset, self.config.rollout)] * self.num_envs
                self._scoring = self._make(start, camera=False)
            runner = RolloutRunner(self._scoring, hand, self.config.rollout)
            results = runner.run(rows, asset, record=rollouts, scene_id=scene_id)
        return Evaluation(protocol=protocol, engine=self.engine, results=tuple(results))

    @property
    def engine(self) -> str:
        return f"{ENGINE}, {self.device}"

    def close(self) -> None:
        for env in (self._env, self._scoring):
            if env is not None:
                env.close()
        self._env = self._scoring = None

    # ---------------------------------------------------------------------------------------

    def _make(self, scenes: Sequence[GraspScene], *, camera: bool = True) -> DexGrasp:
        config, numbers = self.config, self.config.rollout
        seen = config.camera if camera else None
        mode = config.control_mode if camera and config.control_mode else "pd_joint_pos"
        return DexGrasp(
            scenes=scenes,
            num_envs=self.num_envs,
            robot_uids=config.agent,
            floating_object=numbers.floating_object,
            object_mass=numbers.object_mass,
            friction=numbers.friction,
            target_lift_dist=numbers.target_lift_dist,
            object_jitter=config.object_jitter if camera else 0.0,
            camera=seen,
            control_mode=None if config.agent == NO_ROBOT else mode,
            obs_mode="none" if seen is None else "pointcloud",
            reward_mode="none",
            sim_backend=self.device,
            render_backend="none" if seen is None else self.device,
            sim_config={"sim_freq": numbers.sim_freq, "control_freq": numbers.control_freq},
        )

    def _loaded(self) -> DexGrasp:
        if self._env is None:
            raise EnvConfigError("MsEnv: no scenes yet; call load(scenes) first")
        return self._env

    def _with_camera(self) -> Any:
        if self.config.camera is None:
            raise EnvConfigError("MsEnv: no camera; set MsEnvConfig.camera to its intrinsics")
        return self.config.camera

    def _aimed(self) -> DexGrasp:
        env = self._loaded()
        self._with_camera()
        if self._cameras is None:
            raise EnvConfigError("MsEnv: cameras have no poses; give load() T_world_cam")
        env.set_cameras(self._cameras)
        env.flush()
        return env
