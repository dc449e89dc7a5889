"""A scene of solids, and the cameras that look at it."""

from collections.abc import Callable

import numpy as np
import pytest
import trimesh

from schemas.camera import Camera, Intrinsics
from schemas.frames import look_at
from schemas.records import ObjectAsset, Scene
from stages.crop import CroppedCloud, CropSpec, crop_pixels
from stages.render.backends.embree import EmbreeBackend, PreparedScene
from tests.solids import solid_asset

K = Intrinsics(fx=150.0, fy=150.0, cx=80.0, cy=60.0, width=160, height=120)
SPHERE_RADIUS = 0.05


def a_scene(poses: np.ndarray, names: tuple[str, ...], table: bool = True) -> Scene:
    return Scene(
        scene_id="s", kind="tabletop", split="train", object_ids=names, object_poses=poses,
        object_scales=np.ones(len(names)), object_masses=np.ones(len(names)),
        table_pose=np.array([0, 0, 0, 1.0, 0, 0, 0]),
        table_size=np.array([1.0, 0.8]) if table else np.zeros(2), settle_time=0.0,
    )  # fmt: skip


@pytest.fixture(scope="session")
def solids() -> list[ObjectAsset]:
    """A sphere of 50 mm radius (finely cut), a box, a torus (not convex)."""
    return [
        solid_asset(trimesh.creation.icosphere(5, SPHERE_RADIUS), "sphere"),
        solid_asset(trimesh.creation.box((0.08, 0.05, 0.12)), "box"),
        solid_asset(trimesh.creation.torus(0.06, 0.015), "torus"),
    ]


@pytest.fixture(scope="session")
def scene() -> Scene:
    poses = np.array(
        [
            [0.0, 0.0, 0.05, 1, 0, 0, 0],
            [0.12, 0.03, 0.06, np.cos(0.4), 0, 0, np.sin(0.4)],
            [-0.1, -0.08, 0.015, 1, 0, 0, 0],
        ]
    )
    return a_scene(poses, ("sphere", "box", "torus"))


@pytest.fixture(scope="session")
def make_scene() -> Callable[..., Scene]:
    return a_scene


@pytest.fixture(scope="session")
def camera() -> Camera:
    return Camera(intrinsics=K, T_world_cam=look_at([0.35, -0.3, 0.5], [0, 0, 0.03], roll=0.1))


def cropped_full_cast(
    backend: EmbreeBackend,
    prepared: PreparedScene,
    scene: Scene,
    camera: Camera,
    spec: CropSpec,
    seed: int,
) -> CroppedCloud:
    """Every ray cast, then the crop: what culling has to equal bit for bit."""
    full = backend.render(prepared, camera)
    return crop_pixels(
        full.pixel, full.z, camera.intrinsics, spec, seed=seed, segment=full.segment,
        segment_table=scene.segment_table, T_world_cam=camera.T_world_cam,
        table_pose=scene.table_pose,
    )  # fmt: skip
