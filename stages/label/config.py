"""What to label, and with which numbers. Physics numbers live with the environment."""

import hashlib
import json
from dataclasses import asdict, dataclass, field

from stages.contract import PLAN_ONLY
from stages.envs.config import (
    MAX_WORKERS,
    MJ_PROTOCOLS,
    PROTOCOLS,
    ConfidenceConfig,
    DexGraspBenchConfig,
    EnvConfig,
    FcConfig,
    MetricsConfig,
    MjEnvConfig,
    MsEnvConfig,
    PhysicsConfig,
    RolloutConfig,
    TabletopConfig,
)
from stages.envs.maniskill.agent_table import hand_uid
from stages.label.errors import LabelConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelConfig:
    """Which protocols label every grasp set, and their numbers.

    The numbers are plan-only here since an item carries the hash of its own protocol's numbers:
    a change to `tabletop` leaves the keys of `fc` labels as they are.
    """

    protocols: tuple[str, ...] = field(default=("fc", "tabletop"), metadata=PLAN_ONLY)
    physics: PhysicsConfig = field(default_factory=PhysicsConfig, metadata=PLAN_ONLY)
    metrics: MetricsConfig = field(default_factory=MetricsConfig, metadata=PLAN_ONLY)
    fc: FcConfig = field(default_factory=FcConfig, metadata=PLAN_ONLY)
    tabletop: TabletopConfig = field(default_factory=TabletopConfig, metadata=PLAN_ONLY)
    dexgraspbench: DexGraspBenchConfig = field(
        default_factory=DexGraspBenchConfig, metadata=PLAN_ONLY
    )
    rollout: RolloutConfig = field(default_factory=RolloutConfig, metadata=PLAN_ONLY)
    confidence: ConfidenceConfig = field(default_factory=ConfidenceConfig, metadata=PLAN_ONLY)
    timeout_s: float = field(default=60.0, metadata=PLAN_ONLY)  # s, wall clock, one grasp
    workers: int = field(default=0, metadata=PLAN_ONLY)  # spawned processes inside one block; 0
    # runs in the block's own process, which the runner has isolated already
    sub_scenes: int = field(default=0, metadata=PLAN_ONLY)  # of rollout, grasps carried out at
    # once: 0 is 1 on the CPU and 64 on CUDA

    def __post_init__(self) -> None:
        unknown = [name for name in self.protocols if name not in PROTOCOLS]
        if unknown:
            raise LabelConfigError(
                f"label.protocols: unknown {unknown}; known: {', '.join(PROTOCOLS)}"
            )
        if len(set(self.protocols)) != len(self.protocols):
            raise LabelConfigError(f"label.protocols: {self.protocols} names one twice")
        if self.sub_scenes < 0:
            raise LabelConfigError(f"label.sub_scenes: expected 0 or more, got {self.sub_scenes}")
        if not 0 <= self.workers <= MAX_WORKERS:
            raise LabelConfigError(
                f"label.workers: expected 0 to {MAX_WORKERS}, got {self.workers}"
            )
        if not self.timeout_s > 0:
            raise LabelConfigError(f"label.timeout_s: expected seconds > 0, got {self.timeout_s}")

    def env_config(self, hand: str) -> MjEnvConfig:
        """The environment that labels grasps of `hand` (a name, or the path of a hand file)."""
        return MjEnvConfig(
            hand=hand,
            physics=self.physics,
            metrics=self.metrics,
            fc=self.fc,
            tabletop=self.tabletop,
            dexgraspbench=self.dexgraspbench,
            confidence=self.confidence,
            workers=self.workers,
            timeout_s=self.timeout_s,
        )

    def env(self, hand: str, protocol: str) -> EnvConfig:
        """The environment that labels grasps of `hand` under `protocol`.

        Raises EnvConfigError when `protocol` is ManiSkill's and `hand` has no agent there.
        """
        if protocol in MJ_PROTOCOLS:
            return EnvConfig(mj_env_config=self.env_config(hand))
        return EnvConfig(
            ms_env_config=MsEnvConfig(
                agent=hand_uid(hand, static_base=self.rollout.static_base),
                num_envs=self.sub_scenes,
                rollout=self.rollout,
            )
        )


def protocol_hash(config: LabelConfig, protocol: str) -> str:
    """sha256 of the protocol's name, its numbers and the physics numbers, as canonical JSON.

    Labels compare only under equal hashes. The time limit, the workers and the repeats
    of `confidence` are not part of it: they cannot change a label.
    """
    if protocol not in PROTOCOLS:
        raise LabelConfigError(f"protocol: unknown {protocol!r}; known: {', '.join(PROTOCOLS)}")
    numbers = {"protocol": protocol, "config": asdict(getattr(config, protocol))}
    if protocol in MJ_PROTOCOLS:  # of the others the physics is in their own numbers
        numbers |= {"physics": asdict(config.physics), "metrics": asdict(config.metrics)}
    text = json.dumps(numbers, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
