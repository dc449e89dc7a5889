"""Rigid transforms and quaternions.

`T_a_b` is a 4x4 float64 matrix that maps points in frame b to frame a. Quaternions are wxyz.
A pose is a (7,) float64 vector: xyz in metres, then a wxyz unit quaternion. Every rotation is
checked on entry to 1e-6, since a sheared matrix bends a cloud without any error.
"""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.errors import FrameError

ROTATION_TOLERANCE = 1e-6
Float = NDArray[np.float64]


def check_transform(T: ArrayLike, name: str = "T") -> Float:
    """Return `T` as (4, 4) float64, or raise FrameError if it is not a rigid transform."""
    try:
        T = np.asarray(T, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise FrameError(f"{name}: expected a 4x4 matrix of numbers: {error}") from error
    if T.shape != (4, 4):
        raise FrameError(f"{name}: expected a 4x4 matrix, got shape {T.shape}")
    if not np.isfinite(T).all():
        raise FrameError(f"{name}: holds NaN or infinity; check the file it was read from")
    if not np.array_equal(T[3], [0.0, 0.0, 0.0, 1.0]):
        raise FrameError(f"{name}: expected last row [0 0 0 1], got {T[3].tolist()}")
    R = T[:3, :3]
    error = float(np.abs(R @ R.T - np.eye(3)).max())
    if error > ROTATION_TOLERANCE:
        raise FrameError(
            f"{name}: the rotation is not orthonormal: max |R R^T - I| is {error:.2e}, expected "
            f"<= {ROTATION_TOLERANCE:.0e}. Remove scale or shear, or orthonormalise it yourself"
        )
    if np.linalg.det(R) < 0:
        raise FrameError(f"{name}: the rotation is a reflection (det -1); flip one axis")
    return T


def check_quaternion(q_wxyz: ArrayLike, name: str = "quaternion") -> Float:
    """Return a (4,) float64 unit quaternion (wxyz), or raise FrameError."""
    q = np.asarray(q_wxyz, dtype=np.float64)
    if q.shape != (4,):
        raise FrameError(f"{name}: expected 4 numbers (w, x, y, z), got shape {q.shape}")
    norm = float(np.linalg.norm(q))
    if not np.isfinite(norm) or abs(norm - 1.0) > ROTATION_TOLERANCE:
        raise FrameError(
            f"{name}: expected a unit quaternion, got norm {norm:.9g}; divide it by its norm"
        )
    return q


def quaternion_to_matrix(q_wxyz: ArrayLike) -> Float:
    """(..., 4) unit quaternions, wxyz -> (..., 3, 3) rotation matrices."""
    w, x, y, z = np.moveaxis(np.asarray(q_wxyz, dtype=np.float64), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def matrix_to_quaternion(R: ArrayLike) -> Float:
    """(3, 3) rotation -> (4,) wxyz with w >= 0, by Shepperd's largest-element choice (1978)."""
    R = np.asarray(R, dtype=np.float64)
    trace = float(np.trace(R))
    k = int(np.argmax([trace, R[0, 0], R[1, 1], R[2, 2]]))
    if k == 0:
        q = np.array([1 + trace, R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    else:
        i = k - 1
        j, m = (i + 1) % 3, (i + 2) % 3
        q = np.empty(4)
        q[0] = R[m, j] - R[j, m]
        q[1 + i] = 1 + R[i, i] - R[j, j] - R[m, m]
        q[1 + j] = R[j, i] + R[i, j]
        q[1 + m] = R[m, i] + R[i, m]
    q /= np.linalg.norm(q)
    return -q if q[0] < 0 else q


def rotation_angle(a_wxyz: ArrayLike, b_wxyz: ArrayLike) -> float:
    """Angle in radians, in [0, pi], between two orientations; q and -q are the same one."""
    a = np.asarray(a_wxyz, dtype=np.float64)
    b = np.asarray(b_wxyz, dtype=np.float64)
    # atan2 of the relative quaternion keeps full precision at small angles, where acos does not.
    w = float(a @ b)
    v = a[0] * b[1:] - b[0] * a[1:] - np.cross(a[1:], b[1:])
    return float(2.0 * np.arctan2(np.linalg.norm(v), abs(w)))


def pose_to_matrix(pose: ArrayLike) -> Float:
    """(7,) xyz + wxyz -> (4, 4)."""
    pose = np.asarray(pose, dtype=np.float64)
    T = np.eye(4)
    T[:3, :3] = quaternion_to_matrix(pose[3:7])
    T[:3, 3] = pose[:3]
    return T


def matrix_to_pose(T: ArrayLike) -> Float:
    """(4, 4) -> (7,) xyz + wxyz."""
    T = np.asarray(T, dtype=np.float64)
    return np.concatenate([T[:3, 3], matrix_to_quaternion(T[:3, :3])])


def invert(T: ArrayLike) -> Float:
    """Inverse of a rigid transform, exact in form (R^T, -R^T t)."""
    T = np.asarray(T, dtype=np.float64)
    out = np.eye(4)
    out[:3, :3] = T[:3, :3].T
    out[:3, 3] = -T[:3, :3].T @ T[:3, 3]
    return out


def transform_points(T: ArrayLike, points: ArrayLike) -> Float:
    """Map (N, 3) points by (4, 4) `T`."""
    T = np.asarray(T, dtype=np.float64)
    return np.asarray(points, dtype=np.float64) @ T[:3, :3].T + T[:3, 3]


def look_at(eye: ArrayLike, target: ArrayLike, roll: float = 0.0) -> Float:
    """`T_world_cam` of an OpenCV camera at `eye` looking at `target`, image "up" along world z.

    `eye` and `target` are (3,) metres, world frame; `roll` turns about the optical axis, radians.
    """
    eye, target = np.asarray(eye, np.float64), np.asarray(target, np.float64)
    forward = target - eye
    length = float(np.linalg.norm(forward))
    if length < 1e-9:
        raise FrameError(f"look_at: eye and target coincide at {eye.tolist()}")
    z = forward / length
    up = np.array([0.0, 0.0, 1.0]) if abs(z[2]) < 0.999 else np.array([0.0, 1.0, 0.0])
    x = np.cross(z, up)
    x /= np.linalg.norm(x)
    y = np.cross(z, x)
    c, s = np.cos(roll), np.sin(roll)
    T = np.eye(4)
    T[:3, :3] = np.stack([x * c + y * s, -x * s + y * c, z], axis=1)
    T[:3, 3] = eye
    return T


@cache
def sphere_points(count: int) -> Float:
    """(count, 3) unit vectors spread evenly over the sphere: a golden-angle spiral."""
    z = 1 - (2 * np.arange(count) + 1) / count
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(count)
    radius = np.sqrt(1 - z * z)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)
    points.flags.writeable = False
    return points
