"""Clouds for the loader's benchmark: visible faces of boxes, as a pinhole camera sees them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from schemas.records import Cloud, ObjectAsset, Scene
from stages.shard.config import ShardConfig
from stages.shard.write import write_dataset

POINTS = 2048
VIEWS = 64
INTRINSICS = np.array([600.0, 600.0, 320.0, 240.0, 640.0, 480.0])


def clouds_of(count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Points (64, 2048, 3) float32 m, camera frame, and segment (64, 2048) uint16, in turn.

    In the order of the pixels, two objects a cloud, depths in the plane of a face: as in a crop.
    """
    for start in range(0, count, VIEWS):
        rng = np.random.default_rng([start, 2048])
        n = min(VIEWS, count - start)
        pixel = np.sort(rng.choice(160 * 120, (n, POINTS), replace=True), axis=1)
        column, row = pixel % 160 + 240.5, pixel // 160 + 180.5
        slope = np.stack([(column - 320) / 600, (row - 240) / 600], axis=-1)
        tilt = rng.normal(0, 0.4, (n, 1, 2))
        segment = np.where(column < 320, 2, 3).astype(np.uint16)
        near = rng.uniform(0.4, 0.9, (n, 1)) + 0.03 * (segment == 3)
        depth = near / (1 + (slope * tilt).sum(axis=-1))
        points = np.concatenate([slope * depth[..., None], depth[..., None]], axis=-1)
        yield points.astype(np.float32), segment


def write_ours(folder: Path, count: int, compression: str) -> None:
    """The clouds as a dataset of this project, one scene for each 64."""
    scenes = {f"scene-{i:06d}": batch for i, batch in enumerate(clouds_of(count))}
    write_dataset(
        folder,
        config=ShardConfig(compression=compression, scenes_per_shard=16),
        clouds_of=lambda name: clouds_of_scene(name, *scenes[name]),
        **records_of(list(scenes)),
    )


def clouds_of_scene(name: str, points: np.ndarray, segment: np.ndarray) -> list[Cloud]:
    return [
        Cloud(
            scene_id=name, view=view, frame="camera", points=p, segment=s,
            valid_count=len(p), intrinsics=INTRINSICS, T_world_cam=np.eye(4),
        )
        for view, (p, s) in enumerate(zip(points, segment, strict=True))
    ]  # fmt: skip


def records_of(names: list[str]) -> dict[str, Any]:
    """What `write_dataset` wants beside clouds: scenes of these names, all in train."""
    pose = np.array([0, 0, 0, 1.0, 0, 0, 0])
    scenes = [
        Scene(
            scene_id=name, kind="floating", split="train", object_ids=("box", "box"),
            object_poses=np.stack([pose, pose]), object_scales=np.ones(2),
            object_masses=np.ones(2), table_pose=pose, table_size=np.zeros(2), settle_time=0.0,
        )
        for name in names
    ]  # fmt: skip
    return {
        "manifest": {"seed": 0}, "scenes": scenes, "grasps": [], "labels": [],
        "assets": {"box": _box()}, "splits": {"box": "train"},
    }  # fmt: skip


def _box() -> ObjectAsset:
    none = np.zeros
    return ObjectAsset(
        object_id="box", source="benchmark:box", licence="CC0-1.0", sha256="0" * 64, scale=1.0,
        vertices=none((0, 3), np.float32), faces=none((0, 3), np.int32),
        piece_vertices=none((0, 3), np.float32), piece_faces=none((0, 3), np.int32),
        piece_vertex_offsets=none(1, np.int64), piece_face_offsets=none(1, np.int64),
        volume=1e-3, density=1000.0, mass=1.0, center_of_mass=none(3), inertia=np.eye(3),
        stable_poses=none((0, 7)), stable_probabilities=none(0), notes="",
    )  # fmt: skip
