"""One interface for every environment, and the records that `evaluate` returns."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from schemas.records import GraspSet, ObjectAsset
from stages.envs.config import EnvConfig
from stages.envs.errors import EnvConfigError
from stages.envs.grasp_quality import GraspQuality
from stages.envs.outcomes import OK

Float = NDArray[np.float64]


def _nan_pose() -> Float:
    return np.full(7, np.nan)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rollout:
    """What happened to one grasp: T snapshots at a fixed interval."""

    qpos: Float  # (T, 7 + J) hand root pose and joints, world, as in GraspSet
    obj_pose: Float  # (T, 7) world <- object
    scene_id: str
    success: bool
    grasp_index: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GraspResult:
    """Outcome and metrics of one grasp; the fields are those of schemas.records.LabelSet."""

    outcome: str
    message: str = ""
    direction_success: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(6, bool))
    final_object_pose: Float = field(default_factory=_nan_pose)  # (7,) world
    translation: float = np.nan  # m
    rotation: float = np.nan  # rad
    contacts_grasp: int = 0
    contacts_squeeze: int = 0
    contacts_end: int = 0
    hand_object_penetration: float = np.nan  # m at the grasp pose
    self_penetration: float = np.nan  # m at the grasp pose
    contact_number: int = 0  # contact bodies within contact_threshold at the grasp pose
    contact_distance: float = np.nan  # m, mean over fingers at the grasp pose
    contact_consistency: float = np.nan  # m, largest minus smallest finger distance
    quality: GraspQuality = field(default_factory=GraspQuality)  # at the grasp pose
    confidence: float = np.nan  # 1, share of perturbed repeats that succeed; NaN when not asked
    lift: float = np.nan  # m that the object rose; `rollout` alone
    rollout: Rollout | None = None

    @property
    def success(self) -> bool:
        return self.outcome == OK


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Evaluation:
    """Results of `evaluate`: row i belongs to grasp i."""

    protocol: str
    engine: str
    results: tuple[GraspResult, ...]

    @property
    def success(self) -> NDArray[np.bool_]:
        """(G,) bool."""
        return np.array([result.success for result in self.results], bool)

    @property
    def rollouts(self) -> tuple[Rollout, ...]:
        """Rollouts of the grasps that were simulated, when they were asked for."""
        return tuple(r.rollout for r in self.results if r.rollout is not None)


class BaseEnv(ABC):
    """A world with a hand and objects. Poses are world frame, metres, wxyz."""

    @abstractmethod
    def reset(self, seed: int | None = None) -> None:
        """Put every sub-scene back to its start."""

    @abstractmethod
    def get_qpos(self) -> Float:
        """(N, 7 + J) hand root pose and joints of the N sub-scenes."""

    @abstractmethod
    def step_qpos(self, qpos: Float) -> None:
        """Drive the hands towards `qpos` (N, 7 + J) for one control step."""

    @abstractmethod
    def get_info(self) -> dict[str, Any]:
        """Success and contact state of every sub-scene."""

    @abstractmethod
    def get_rgb(self) -> NDArray[np.uint8]:
        """(N, H, W, 3) colour images."""

    @abstractmethod
    def get_pointcloud(self) -> Any:
        """Cropped clouds, one a sub-scene, exactly as the training clouds were cropped."""

    @abstractmethod
    def evaluate(
        self,
        grasps: GraspSet,
        asset: ObjectAsset,
        protocol: str,
        *,
        rollouts: bool = False,
        scene_id: str = "",
        seed: int = 0,
    ) -> Evaluation:
        """Score every grasp of `grasps` on `asset` under `protocol`: N rows in, N rows out.

        `seed` draws the errors of the repeats that `confidence` counts, where they are asked for.
        """

    def evaluate_all(
        self, pairs: Sequence[tuple[GraspSet, ObjectAsset]], protocol: str, *, seed: int = 0
    ) -> list[Evaluation]:
        """`evaluate` of several objects; an environment with workers deals them out in one go."""
        return [self.evaluate(grasps, asset, protocol, seed=seed) for grasps, asset in pairs]

    @property
    @abstractmethod
    def engine(self) -> str:
        """Name and version of what simulates, as stored with labels."""

    @abstractmethod
    def close(self) -> None:
        """Free processes and devices; calling it twice is allowed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def build_env(config: EnvConfig) -> BaseEnv:
    """The environment that `config` asks for; its backend is imported here and not before."""
    if config.real_env_config is not None:
        from stages.envs.real.env import RealEnv

        return RealEnv(config.real_env_config)
    if config.mj_env_config is not None:
        from stages.envs.mujoco.env import MjEnv

        return MjEnv(config.mj_env_config)
    if config.ms_env_config is None:
        raise EnvConfigError(
            "EnvConfig: set mj_env_config to score grasps in MuJoCo, or ms_env_config for ManiSkill"
        )
    from stages.envs.maniskill.env import MsEnv

    return MsEnv(config.ms_env_config)
