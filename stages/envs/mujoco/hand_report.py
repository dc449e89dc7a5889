"""What the check of a hand file reports: findings, and the hand as it was compiled."""

from collections.abc import Iterator
from dataclasses import dataclass

import mujoco
import numpy as np

from stages.assets.hands.spec import HandSpec
from stages.envs.mujoco.hand_index import HandIndex

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that is wrong (error) or likely so (warning)."""

    level: str
    what: str
    expected: str
    got: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected}, got {self.got}; {self.fix}"


@dataclass(frozen=True, kw_only=True, slots=True)
class JointRow:
    """One joint of the compiled hand; rad, Nm/rad and Nm, or m, N/m and N."""

    name: str
    range: tuple[float, float]
    open: float
    pregrasp: float
    closed: float
    kp: float  # of its actuator, with those of a tendon or a coupling; NaN without one
    force_limit: float  # infinity where there is none


@dataclass(frozen=True, kw_only=True, slots=True)
class HandReport:
    """All findings, and what the hand is once compiled."""

    findings: tuple[Finding, ...]
    joints: tuple[JointRow, ...] = ()
    mass: float = np.nan  # kg, of the hand; without the arm of a rig
    bodies: int = 0
    actuators: int = 0

    @property
    def sound(self) -> bool:
        """No errors; warnings are allowed."""
        return all(finding.level != ERROR for finding in self.findings)


def joint_rows(spec: HandSpec, model: mujoco.MjModel, index: HandIndex) -> Iterator[JointRow]:
    """One row a joint of `spec`, in control order."""
    for i, name in enumerate(spec.joint_names):
        low, high = model.jnt_range[index.joint_ids[i]]
        if not model.jnt_limited[index.joint_ids[i]]:
            low, high = -np.inf, np.inf
        mine = np.flatnonzero(index.transmission[:, i])
        if not len(mine):
            group = index.transmission[:, index.coupled == index.coupled[i]]
            mine = np.flatnonzero(group.any(axis=1))
        actuator = int(index.actuators[mine[0]]) if len(mine) else -1
        limited = actuator >= 0 and bool(model.actuator_forcelimited[actuator])
        yield JointRow(
            name=name,
            range=(float(low), float(high)),
            open=spec.open_qpos[i],
            pregrasp=spec.pregrasp_qpos[i],
            closed=spec.closed_qpos[i],
            kp=-float(model.actuator_biasprm[actuator, 1]) if actuator >= 0 else np.nan,
            force_limit=float(model.actuator_forcerange[actuator, 1]) if limited else np.inf,
        )
