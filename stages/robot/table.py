"""Where the table is: the plane in a depth image, and the pose that the crop needs.

RANSAC (Fischler and Bolles 1981), then least squares on what lies near the plane.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.frames import invert, matrix_to_pose
from stages.crop import slopes_at
from stages.robot.errors import CalibrationError
from stages.robot.frame import Frame

Float = NDArray[np.float64]
PLANE_TRIES, PLANE_NEAR = 300, 0.004  # draws, inlier distance m
FEWEST = 100  # points on a plane
FARTHEST = 2.0  # m; what is farther is no table that a robot works on
LEVEL = np.cos(np.radians(20.0))  # a table that leans more against the known world z is a wall
ON_THE_ORIGIN = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)  # pose of a table top
SMALLEST_SHARE = 0.1  # of the near pixels


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TableFit:
    """`table_pose` (7,) xyz + wxyz, world, z out of the table.

    Where the frame had no T_world_cam, the fit makes the world: its origin on the table where the
    optical axis meets it, z up, x to the image's right; `table_pose` is then that origin, and
    `T_world_cam` the camera's pose.
    """

    table_pose: Float
    T_world_cam: Float
    height: float  # m, mean world z of the inliers
    tilt: float  # rad, between the plane's normal and world z
    residual: float  # m, root mean square distance of the inliers
    share: float  # of the near pixels that lie within 4 mm of the plane
    points: int


def calibrate_table(frame: Frame, max_depth: float = FARTHEST) -> TableFit:
    """The table in `frame`, from pixels named "table" if there are, else from the near ones.

    Pixels of other segments than table and background are left out. Raises CalibrationError when no
    plane holds a tenth of them, or the plane is upside down in the world of T_world_cam.
    """
    points = _candidates(frame, max_depth)
    T = frame.T_world_cam
    up = None if T is None else T[2, :3]  # world z in the camera frame
    normal, offset, share = fit_plane(points, up)
    if share < SMALLEST_SHARE:
        raise CalibrationError(
            f"{frame.name}: the best plane holds {share:.0%} of the near pixels, expected "
            f"{SMALLEST_SHARE:.0%}; is the table in view, and within {max_depth:g} m?"
        )
    off = points @ normal - offset
    near = np.abs(off) < PLANE_NEAR
    if T is None:
        T = _world_on_table(frame, normal, offset)
        pose, height, tilt = np.array(ON_THE_ORIGIN), 0.0, 0.0
    else:
        n = T[:3, :3] @ normal
        if n[2] < LEVEL:
            raise CalibrationError(
                f"{frame.name}: the table's normal, towards the camera, leans by "
                f"{np.degrees(np.arccos(np.clip(n[2], -1, 1))):.0f} degrees against the world's z, "
                "expected at most 20. Beyond 90 the camera is below the table: is T_world_cam "
                "inverted, or of a camera that looks along -z (OpenGL)?"
            )
        height = float((points[near] @ T[2, :3] + T[2, 3]).mean())
        upright = np.eye(4)
        upright[:3, :3] = _turn_z_to(n)
        upright[2, 3] = (offset + n @ T[:3, 3]) / n[2]  # where the plane cuts the world's z axis
        pose, tilt = matrix_to_pose(upright), float(np.arccos(np.clip(n[2], -1, 1)))
    return TableFit(
        table_pose=pose,
        T_world_cam=T,
        height=height,
        tilt=tilt,
        residual=float(np.sqrt(np.mean(off[near] ** 2))),
        share=share,
        points=int(near.sum()),
    )


def fit_plane(points: Float, up: Float | None = None) -> tuple[Float, float, float]:
    """Unit normal (3,) towards the camera, offset n.p (m), share of (N, 3) points on it.

    Points are in the camera frame. With `up` (3,) only planes within 20 degrees of it count.
    Raises CalibrationError with too few points.
    """
    if len(points) < FEWEST:
        raise CalibrationError(f"expected at least {FEWEST} points on a plane, got {len(points)}")
    rng = np.random.default_rng(0)
    some = points[rng.integers(0, len(points), 4000)]
    best: NDArray[np.bool_] | None = None
    for _ in range(PLANE_TRIES):
        a, b, c = some[rng.integers(0, len(some), 3)]
        n = np.cross(b - a, c - a)
        length = np.linalg.norm(n)
        if length > 1e-9 and (up is None or abs(n @ up) > LEVEL * length):
            on = np.abs((some - a) @ (n / length)) < PLANE_NEAR
            if best is None or on.sum() > best.sum():
                best = on
    if best is None or best.sum() < 10:
        raise CalibrationError(
            "no plane found: the points lie on a line or nowhere near each other"
        )
    on_plane = some[best]
    normal, middle, share = np.zeros(3), np.zeros(3), 0.0
    for _ in range(3):
        middle = on_plane.mean(axis=0)
        normal = np.linalg.eigh(np.cov((on_plane - middle).T))[1][:, 0]
        near = np.abs((points - middle) @ normal) < PLANE_NEAR
        on_plane, share = points[near], float(near.mean())
    normal = normal * (-1 if normal @ middle > 0 else 1)
    return normal, float(normal @ middle), share


def _candidates(frame: Frame, max_depth: float) -> Float:
    depth = frame.depth.astype(np.float64).reshape(-1)
    with np.errstate(invalid="ignore"):
        use = (depth > 0) & (depth <= max_depth)
    if frame.segment is not None and frame.segment_table is not None:
        ids, table = frame.segment.reshape(-1), frame.segment_table
        on_table = use & (ids == table["table"]) if "table" in table else use & False
        if on_table.sum() >= FEWEST:
            use = on_table
        else:
            use &= np.isin(ids, [i for n, i in table.items() if n in ("table", "background")])
    pixel = np.flatnonzero(use)
    x, y = slopes_at(pixel, frame.intrinsics)
    z = depth[pixel]
    points = np.stack([x * z, y * z, z], axis=1)
    return points[np.isfinite(points).all(axis=1)]


def _world_on_table(frame: Frame, normal: Float, offset: float) -> Float:
    """T_world_cam of the world whose origin is where the optical axis meets the plane."""
    if abs(normal[2]) < 1e-3:
        raise CalibrationError(f"{frame.name}: the camera looks along the table, not onto it")
    T_cam_world = plane_frame(normal, np.array([0.0, 0.0, offset / normal[2]]))
    return invert(T_cam_world)


def plane_frame(normal: Float, origin: Float) -> Float:
    """(4, 4) whose z axis is `normal`; x is as near to the camera's x as can be."""
    helper = np.array([1.0, 0.0, 0.0]) if abs(normal[0]) < 0.9 else np.array([0.0, -1.0, 0.0])
    x = helper - (helper @ normal) * normal
    x /= np.linalg.norm(x)
    T = np.eye(4)
    T[:3, :3] = np.stack([x, np.cross(normal, x), normal], axis=1)
    T[:3, 3] = origin
    return T


def _turn_z_to(n: Float) -> Float:
    """(3, 3) the smallest rotation that turns z to the unit vector `n`, n_z > 0."""
    x, y, z = n
    return np.array(
        [
            [1 - x * x / (1 + z), -x * y / (1 + z), x],
            [-x * y / (1 + z), 1 - y * y / (1 + z), y],
            [-x, -y, z],
        ]
    )
