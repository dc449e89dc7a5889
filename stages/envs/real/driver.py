"""What every robot does, and the limits that are kept before anything is sent to it."""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stages.envs.real.errors import JointLimitError, MotionRefusedError, SpeedLimitError

Float = NDArray[np.float64]
ROUNDING = 1e-9  # rad or m; so much beyond a limit is arithmetic


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class JointLimits:
    """Ranges and speeds of J joints: rad and rad/s, or m and m/s."""

    names: tuple[str, ...]
    lower: Float  # (J,)
    upper: Float  # (J,)
    speed: Float  # (J,)

    def __post_init__(self) -> None:
        shape = (len(self.names),)
        for name in ("lower", "upper", "speed"):
            if getattr(self, name).shape != shape:
                raise MotionRefusedError(f"limits: {name}: expected {shape} numbers")
        if not ((self.lower < self.upper).all() and (self.speed > 0).all()):
            raise MotionRefusedError("limits: expected lower < upper and speed > 0 for every joint")

    def scaled(self, factor: float) -> "JointLimits":
        """The same ranges at `factor` of the speed."""
        return replace(self, speed=self.speed * factor)

    def check(self, target: Float, before: Float, dt: float) -> None:
        """Raise MotionRefusedError unless going from `before` to `target` in `dt` s is allowed."""
        if target.shape != self.lower.shape:
            raise MotionRefusedError(
                f"target: expected {len(self.names)} joints ({', '.join(self.names)}), got shape "
                f"{target.shape}"
            )
        if not np.isfinite(target).all():
            raise MotionRefusedError("target: holds NaN or infinity; nothing was sent")
        for i in np.flatnonzero(
            (target < self.lower - ROUNDING) | (target > self.upper + ROUNDING)
        ):
            raise JointLimitError(
                f"{self.names[i]}: expected {self.lower[i]:.4f} to {self.upper[i]:.4f}, got "
                f"{target[i]:.4f}; nothing was sent"
            )
        step = np.abs(target - before)
        for i in np.flatnonzero(step > self.speed * dt + ROUNDING):
            raise SpeedLimitError(
                f"{self.names[i]}: {step[i]:.4f} in {dt:g} s is {step[i] / dt:.3f} per second, "
                f"expected at most {self.speed[i]:.3f}; nothing was sent. Send smaller steps"
            )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RobotState:
    """`qpos` (J,) measured; `stopped` with the reason in `fault` where it has one."""

    qpos: Float
    stopped: bool = False
    fault: str = ""


class RobotDriver(Protocol):
    """One robot. Every method raises ConnectionLostError when it does not answer."""

    @property
    def limits(self) -> JointLimits:
        """What the robot itself allows."""
        ...

    def state(self) -> RobotState:
        """Where it is now."""
        ...

    def send(self, target: Float, dt: float) -> None:
        """Aim at `target` (J,) and return after `dt` seconds. StoppedRobotError when it may not."""
        ...

    def stop(self) -> None:
        """Stop at once and refuse motion until `release`."""
        ...

    def release(self) -> None:
        """Allow motion again, from where the robot is."""
        ...

    def close(self) -> None:
        """End the connection, the robot holding its place; calling it twice is allowed."""
        ...
