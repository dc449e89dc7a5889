"""What to label, and with which numbers. Physics numbers live with the environment."""

import hashlib
import json
from dataclasses import asdict, dataclass, field

from stages.contract import PLAN_ONLY
from stages.envs.config import (
    MAX_WORKERS,
    PROTOCOLS,
    ConfidenceConfig,
    DexGraspBenchConfig,
    FcConfig,
    MetricsConfig,
    MjEnvConfig,
    PhysicsConfig,
    TabletopConfig,
)
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
    confidence: ConfidenceConfig = field(default_factory=ConfidenceConfig, metadata=PLAN_ONLY)
    timeout_s: float = field(default=60.0, metadata=PLAN_ONLY)  # s, wall clock, one grasp
    workers: int = field(default=0, metadata=PLAN_ONLY)  # spawned processes inside one block; 0
    # runs in the block's own process, which the runner has isolated already

    def __post_init__(self) -> None:
        unknown = [name for name in self.protocols if name not in PROTOCOLS]
        if unknown:
            raise LabelConfigError(
                f"label.protocols: unknown {unknown}; known: {', '.join(PROTOCOLS)}"
            )
        if len(set(self.protocols)) != len(self.protocols):
            raise LabelConfigError(f"label.protocols: {self.protocols} names one twice")
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


def protocol_hash(config: LabelConfig, protocol: str) -> str:
    """sha256 of the protocol's name, its numbers and the physics numbers, as canonical JSON.

    Labels compare only under equal hashes. The time limit, the workers and the repeats
    of `confidence` are not part of it: they cannot change a label.
    """
    if protocol not in PROTOCOLS:
        raise LabelConfigError(f"protocol: unknown {protocol!r}; known: {', '.join(PROTOCOLS)}")
    numbers = {
        "protocol": protocol,
        "config": asdict(getattr(config, protocol)),
        "physics": asdict(config.physics),
        "metrics": asdict(config.metrics),
    }
    text = json.dumps(numbers, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
