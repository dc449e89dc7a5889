"""Cameras of a view, by seed."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Camera
from schemas.frames import check_transform, look_at
from schemas.records import Scene
from stages.render.config import CameraConfig
from stages.render.errors import CameraFileError


def sample_camera(config: CameraConfig, scene: Scene, view: int, seed: int) -> Camera:
    """The camera of one (scene, view). `seed` belongs to the pair, so views are independent."""
    rng = np.random.default_rng(seed)
    if config.kind == "fixed":
        T_world_cam = look_at(config.eye, config.target)
        return Camera(intrinsics=config.intrinsics, T_world_cam=T_world_cam)

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


def load_poses(path: Path) -> NDArray[np.float64]:
    """(V, 4, 4) `T_world_cam` from .npy or .json, each checked to be rigid."""
    try:
        if path.suffix == ".npy":
            poses = np.load(path, allow_pickle=False)
        else:
            poses = np.asarray(json.loads(path.read_text(encoding="utf-8")), np.float64)
    except (OSError, ValueError) as error:
        raise CameraFileError(f"{path}: cannot be read as camera poses: {error}") from error
    if poses.ndim != 3 or poses.shape[1:] != (4, 4) or not len(poses):
        raise CameraFileError(f"{path}: expected shape (views, 4, 4), got {poses.shape}")
    return np.stack([check_transform(T, f"{path.name}[{i}]") for i, T in enumerate(poses)])
