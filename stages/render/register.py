"""Where an object of known shape lies in a real scan: point-to-plane ICP from many starts.

Chen and Medioni 1991 for the step; the starts are the alignments of the principal axes and turns
about them, since a scan sees one side only and its pose is unknown.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.render.errors import RegistrationError

Float = NDArray[np.float64]
SURFACE = 40000  # points spread over the mesh; 1.5 mm apart on a cracker box
COARSE = 400  # scan points while starts are compared
TRIM = 0.9  # share of the nearest pairs that a step uses
WORST = 0.005  # m; a median distance beyond this is another object, or not metres


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Registration:
    """`T_cam_object` (4, 4) maps object points to the camera frame, metres.

    `median` is the median distance (m) from the scan's points to the planes of the surface, and
    `inliers` the share of them nearer than three medians.
    """

    T_cam_object: Float
    median: float
    inliers: float


def register(points_cam: Float, vertices: Float, faces: NDArray[np.integer]) -> Registration:
    """Pose of the mesh (V, 3), (F, 3) under the scan `points_cam` (N, 3), metres, camera frame.

    Only triangles that face the camera at the current pose are matched. Raises RegistrationError
    when there are fewer than 100 points or no start fits to 5 mm.
    """
    from scipy.spatial import cKDTree

    points_cam = np.asarray(points_cam, np.float64)
    if len(points_cam) < 100:
        raise RegistrationError(f"expected at least 100 points to register, got {len(points_cam)}")
    rng = np.random.default_rng(0)
    surface, normals = _surface(np.asarray(vertices, np.float64), faces, SURFACE, rng)
    thin = surface[: SURFACE // 8], normals[: SURFACE // 8]
    coarse = points_cam[rng.permutation(len(points_cam))[:COARSE]]
    trees = {len(s): cKDTree(s) for s in (thin[0], surface)}
    tried = [
        _icp(coarse, T, *thin, trees[len(thin[0])], steps=15) for T in _starts(points_cam, surface)
    ]
    tried.sort(key=lambda found: found[1])
    fine = points_cam[:: max(1, len(points_cam) // 5000)]
    best = [_icp(fine, T, surface, normals, trees[len(surface)], steps=40) for T, _ in tried[:4]]
    T, median = min(best, key=lambda found: found[1])
    if median > WORST:
        raise RegistrationError(
            f"the scan does not fit the object: {1000 * median:.1f} mm median distance after the "
            f"best of {len(tried)} starts, expected below {1000 * WORST:.0f} mm; is it this "
            "object, in metres, without the table?"
        )
    distance = np.abs(_residuals(points_cam, T, surface, normals, trees[len(surface)])[0])
    return Registration(
        T_cam_object=T,
        median=float(np.median(distance)),
        inliers=float((distance < 3 * np.median(distance)).mean()),
    )


def _surface(
    vertices: Float, faces: NDArray[np.integer], count: int, rng: np.random.Generator
) -> tuple[Float, Float]:
    """(count, 3) points uniform over the area, and their outward unit normals."""
    a, b, c = vertices[faces[:, 0]], vertices[faces[:, 1]], vertices[faces[:, 2]]
    cross = np.cross(b - a, c - a)
    doubled = np.linalg.norm(cross, axis=1)
    row = rng.choice(len(faces), size=count, p=doubled / doubled.sum())
    u, v = rng.uniform(size=(2, count, 1))
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
    return a[row] + u * (b - a)[row] + v * (c - a)[row], cross[row] / doubled[row, None]


def _starts(points_cam: Float, surface: Float) -> list[Float]:
    """T_cam_object: the 24 turns of the object's principal axes onto the scan's, and halves."""
    near, far = _axes(points_cam), _axes(surface)
    starts: list[Float] = []
    for turn in _cube_turns():
        for angle in (0.0, np.pi / 4):
            c, s = np.cos(angle), np.sin(angle)
            about = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])
            T = np.eye(4)
            T[:3, :3] = near @ about @ turn @ far.T
            # A scan's middle lies on the near side of the object's: push it back a little.
            middle = points_cam.mean(axis=0)
            back = middle / np.linalg.norm(middle) * 0.25 * np.ptp(surface @ far[:, 2])
            T[:3, 3] = middle + back - T[:3, :3] @ surface.mean(axis=0)
            starts.append(T)
    return starts


def _axes(points: Float) -> Float:
    """(3, 3) right-handed principal axes as columns, the longest first."""
    _, vectors = np.linalg.eigh(np.cov(points.T))
    axes = vectors[:, ::-1].copy()
    axes[:, 2] = np.cross(axes[:, 0], axes[:, 1])
    return axes


def _cube_turns() -> list[Float]:
    turns: list[Float] = []
    for i in range(3):
        for j in (k for k in range(3) if k != i):
            for si in (1.0, -1.0):
                for sj in (1.0, -1.0):
                    R = np.zeros((3, 3))
                    R[i, 0], R[j, 1] = si, sj
                    R[:, 2] = np.cross(R[:, 0], R[:, 1])
                    turns.append(R)
    return turns


def _residuals(
    points_cam: Float, T: Float, surface: Float, normals: Float, tree: object
) -> tuple[Float, Float, Float, NDArray[np.int64]]:
    """Signed distance to the plane of the nearest surface point, (N,), and what it came from."""
    R, t = T[:3, :3], T[:3, 3]
    local = (points_cam - t) @ R
    _, nearest = tree.query(local)  # type: ignore[attr-defined]
    offset = local - surface[nearest]
    n = normals[nearest]
    return (offset * n).sum(axis=1), local, offset, nearest


def _icp(
    points_cam: Float, T: Float, surface: Float, normals: Float, tree: object, steps: int
) -> tuple[Float, float]:
    """`T` after `steps` point-to-plane steps, and the median distance to the surface points."""
    from scipy.spatial.transform import Rotation

    eye = np.zeros((1, 3))
    for _ in range(steps):
        signed, local, offset, nearest = _residuals(points_cam, T, surface, normals, tree)
        n = normals[nearest]
        towards = ((eye - T[:3, 3]) @ T[:3, :3] - surface[nearest]) * n
        seen = towards.sum(axis=1) > 0
        distance = np.linalg.norm(offset, axis=1)
        use = seen & (distance <= np.quantile(distance, TRIM))
        if use.sum() < 20:
            break
        A = np.concatenate([np.cross(local[use], n[use]), n[use]], axis=1)
        x = np.linalg.lstsq(A, -signed[use], rcond=None)[0]
        step = np.eye(4)
        step[:3, :3] = Rotation.from_rotvec(x[:3]).as_matrix()
        step[:3, 3] = x[3:]
        T = _moved(T, step)
    distance = np.linalg.norm(_residuals(points_cam, T, surface, normals, tree)[2], axis=1)
    return T, float(np.median(distance))


def _moved(T: Float, step: Float) -> Float:
    """`T_cam_object` after the scan moved by `step` in the object frame."""
    out = T @ np.linalg.inv(step)
    u, _, vt = np.linalg.svd(out[:3, :3])
    out[:3, :3] = u @ vt
    out[3] = [0, 0, 0, 1]
    return out
