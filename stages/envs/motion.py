"""How a hand goes from one pose to another; shared by both engines."""

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def blend(start: Float, end: Float, t: float) -> Float:
    """Linear between two qpos (7 + J,); the quaternion takes the short way and is normalised."""
    out = (1 - t) * start + t * end
    sign = 1.0 if start[3:7] @ end[3:7] >= 0 else -1.0
    quaternion = (1 - t) * start[3:7] + t * sign * end[3:7]
    out[3:7] = quaternion / np.linalg.norm(quaternion)
    return out


def minimum_jerk(t: float) -> float:
    """Smooth step from 0 to 1 with zero speed and acceleration at both ends."""
    return t * t * t * (10 - 15 * t + 6 * t * t)


def unit_pose(qpos: Float) -> Float:
    """The same pose with the quaternion's first non-zero number positive, so q and -q agree."""
    out = qpos.astype(np.float64, copy=True)
    quaternion = out[3:7]
    leading = quaternion[np.flatnonzero(quaternion)[0]]
    out[3:7] = quaternion / np.linalg.norm(quaternion) * (1.0 if leading > 0 else -1.0)
    return out
