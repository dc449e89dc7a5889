"""Start poses: pure functions of (asset, config, rng). A pose is (7,), world <- object."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.frames import matrix_to_pose, pose_to_matrix, quaternion_to_matrix, transform_points
from schemas.records import ObjectAsset
from stages.scene.config import SceneConfig
from stages.scene.errors import PlacementError

Float = NDArray[np.float64]
PLACEMENT_TRIES = 50


def uniform_quaternion(rng: np.random.Generator) -> Float:
    """(4,) wxyz, uniform over all rotations: a normalised Gaussian is uniform on the sphere."""
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def floating_pose(asset: ObjectAsset, config: SceneConfig, rng: np.random.Generator) -> Float:
    """Uniform rotation, the centre of mass at (0, 0, floating_height)."""
    q = uniform_quaternion(rng)
    centre = np.array([0.0, 0.0, config.floating_height])
    position = centre - quaternion_to_matrix(q) @ asset.center_of_mass
    return np.concatenate([position, q])


def resting_pose(asset: ObjectAsset, config: SceneConfig, rng: np.random.Generator) -> Float:
    """A stable pose by its probability, turned about z, its centre of mass inside the workspace."""
    weights = asset.stable_probabilities / asset.stable_probabilities.sum()
    stable = pose_to_matrix(asset.stable_poses[rng.choice(len(weights), p=weights)])
    R = _yaw(rng.uniform(0, 2 * np.pi)) @ stable[:3, :3]
    T = np.eye(4)
    T[:3, :3] = R
    T[:2, 3] = _in_disk(config.workspace_radius, rng) - (R @ asset.center_of_mass)[:2]
    T[2, 3] = stable[2, 3] + config.clearance
    return matrix_to_pose(T)


def clutter_poses(
    assets: Sequence[ObjectAsset], config: SceneConfig, rng: np.random.Generator
) -> Float:
    """(O, 7) start poses whose bounding boxes do not overlap.

    Largest objects first. An object goes to a free spot of the workspace if one is found, else on
    top of what lies below it, so that piles form when it falls.
    """
    order = sorted(range(len(assets)), key=lambda i: (-_size(assets[i]), assets[i].object_id))
    poses = np.empty((len(assets), 7))
    boxes: list[tuple[Float, Float]] = []
    for i in order:
        poses[i], box = _place(assets[i], boxes, config, rng)
        boxes.append(box)
    return poses


def _place(
    asset: ObjectAsset,
    boxes: Sequence[tuple[Float, Float]],
    config: SceneConfig,
    rng: np.random.Generator,
) -> tuple[Float, tuple[Float, Float]]:
    R = quaternion_to_matrix(uniform_quaternion(rng))
    corners = transform_points(_pose_matrix(R, np.zeros(3)), asset.vertices)
    low, high = corners.min(axis=0), corners.max(axis=0)
    best: Float | None = None
    for _ in range(PLACEMENT_TRIES):
        xy = _in_disk(config.workspace_radius, rng) - (R @ asset.center_of_mass)[:2]
        below = [
            top
            for bottom, top in boxes
            if (low[:2] + xy < top[:2] + config.clearance).all()
            and (high[:2] + xy > bottom[:2] - config.clearance).all()
        ]
        floor = max((float(top[2]) for top in below), default=0.0)
        shift = np.array([xy[0], xy[1], floor + config.clearance - low[2]])
        if best is None or shift[2] < best[2]:
            best = shift
        if not below:
            break
    if best is None:
        raise PlacementError("no_placement", f"{asset.object_id}: no start pose found")
    return matrix_to_pose(_pose_matrix(R, best)), (low + best, high + best)


def _pose_matrix(R: Float, t: Float) -> Float:
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = R, t
    return T


def _size(asset: ObjectAsset) -> float:
    return float(np.linalg.norm(np.ptp(asset.vertices, axis=0)))


def _yaw(angle: float) -> Float:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def _in_disk(radius: float, rng: np.random.Generator) -> Float:
    r, angle = radius * np.sqrt(rng.uniform()), rng.uniform(0, 2 * np.pi)
    return np.array([r * np.cos(angle), r * np.sin(angle)])
