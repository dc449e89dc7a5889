"""Cameras of a view, by seed."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Camera
from schemas.files import load_npy, read_json
from schemas.frames import check_transform, invert, look_at, pose_to_matrix
from schemas.records import Scene
from stages.assets.hands.load import load_hand
from stages.render.config import CameraConfig
from stages.render.errors import CameraFileError


def sample_camera(
    config: CameraConfig,
    scene: Scene,
    view: int,
    seed: int,
    middles: NDArray[np.float64] | None = None,
) -> Camera:
    """The camera of one (scene, view). `seed` belongs to the pair, so views are independent.

    `middles` (O, 3) world: where the wrist takes the objects to be; their origins when left out.
    """
    rng = np.random.default_rng(seed)
    if config.kind == "wrist":
        places = scene.object_poses[:, :3] if middles is None else middles
        T_world_cam = _wrist_camera(config, places, rng)
        return Camera(intrinsics=config.intrinsics, T_world_cam=T_world_cam)
    if config.kind == "fixed":
        T_world_cam = look_at(config.eye, config.target)
        return Camera(intrinsics=config.intrinsics, T_world_cam=T_world_cam)

    if config.kind == "look_at":
        eye = np.asarray(config.eye) + rng.uniform(-1, 1, 3) * config.eye_box
        target = np.asarray(config.target) + rng.normal(0.0, config.target_jitter, 3)
        roll = np.deg2rad(rng.normal(0.0, config.roll_jitter))
        return Camera(intrinsics=config.intrinsics, T_world_cam=look_at(eye, target, roll))

    middle = scene.object_poses[:, :3].mean(axis=0)
    target = middle + rng.normal(0.0, config.target_jitter, 3)
    roll = np.deg2rad(rng.normal(0.0, config.roll_jitter))
    if config.kind == "ring":
        radius = 0.5 * (config.radius_min + config.radius_max)
        elevation = np.deg2rad(0.5 * (config.elevation_min + config.elevation_max))
        azimuth = 2 * np.pi * (view % config.ring_size) / config.ring_size
    else:
        radius = rng.uniform(config.radius_min, config.radius_max)
        # Uniform in sin(elevation) is uniform in area (Archimedes).
        low, high = np.sin(np.deg2rad([config.elevation_min, config.elevation_max]))
        elevation = np.arcsin(rng.uniform(low, high))
        azimuth = rng.uniform(0.0, 2 * np.pi)
    direction = np.array(
        [
            np.cos(elevation) * np.cos(azimuth),
            np.cos(elevation) * np.sin(azimuth),
            np.sin(elevation),
        ]
    )
    T_world_cam = look_at(target + radius * direction, target, roll)
    return Camera(intrinsics=config.intrinsics, T_world_cam=T_world_cam)


def _wrist_camera(
    config: CameraConfig, places: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """`T_world_cam` on a hand before a grasp of one of the objects, at `places` (O, 3)."""
    target = places[rng.integers(len(places))] + rng.normal(0.0, config.target_jitter, 3)
    standoff = rng.uniform(config.standoff_min, config.standoff_max)
    # Uniform in the cosine is uniform over the cap of directions (Archimedes).
    cosine = rng.uniform(np.cos(np.deg2rad(config.approach_tilt)), 1.0)
    azimuth, roll = rng.uniform(0.0, 2 * np.pi, 2)
    sine = np.sqrt(1 - cosine**2)
    approach = np.array([sine * np.cos(azimuth), sine * np.sin(azimuth), -cosine])
    # The grasp frame looks along its z like a camera does; its turn about it is random.
    T_world_grasp = look_at(target - standoff * approach, target, roll)
    T_root_grasp = pose_to_matrix(load_hand(config.hand).T_root_grasp)
    return T_world_grasp @ invert(T_root_grasp) @ pose_to_matrix(config.T_hand_cam)


def file_poses(config: CameraConfig, views: int) -> NDArray[np.float64] | None:
    """(V, 4, 4) of `poses_file`, or None for the other kinds of camera.

    Raises CameraFileError when the file cannot be read or V < views.
    """
    if config.kind != "file":
        return None
    poses = load_poses(Path(config.poses_file))
    if len(poses) < views:
        raise CameraFileError(
            f"{config.poses_file}: holds {len(poses)} poses, but render.views asks for {views}; "
            f"set render.views to at most {len(poses)}"
        )
    return poses


def wrist_mount(config: CameraConfig) -> dict[str, list[float]]:
    """What the hand's file says of a wrist camera's pose, for the key; empty for other kinds.

    Raises HandError when there is no such hand.
    """
    if config.kind != "wrist":
        return {}
    return {"T_root_grasp": list(load_hand(config.hand).T_root_grasp)}


def bounding_middles(hulls: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """(O, 3) middles of the objects' bounding boxes, world, from the points of their hulls."""
    return np.array([0.5 * (h.min(axis=0) + h.max(axis=0)) for h in hulls]).reshape(-1, 3)


def load_poses(path: Path) -> NDArray[np.float64]:
    """(V, 4, 4) `T_world_cam` from .npy or .json, each checked to be rigid."""
    try:
        if path.suffix == ".npy":
            poses = np.asarray(load_npy(path), np.float64)
        else:
            poses = np.asarray(read_json(path), np.float64)
    except (OSError, TypeError, ValueError, OverflowError) as error:
        raise CameraFileError(f"{path}: cannot be read as camera poses: {error}") from error
    if poses.ndim != 3 or poses.shape[1:] != (4, 4) or not len(poses):
        raise CameraFileError(f"{path}: expected shape (views, 4, 4), got {poses.shape}")
    return np.stack([check_transform(T, f"{path.name}[{i}]") for i, T in enumerate(poses)])
