"""Culled rays: equal, bit for bit, to the full cast followed by the crop."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.camera import Camera
from schemas.frames import look_at
from schemas.records import Cloud, ObjectAsset, Scene
from stages.crop import CropSpec
from stages.render.backends.embree import EmbreeBackend, PreparedScene
from stages.render.config import RenderConfig
from stages.render.cull import Footprint, surviving_pixels
from stages.render.stage import render_view
from tests.stages.render.conftest import K, cropped_full_cast

eyes = st.tuples(st.floats(-0.6, 0.6), st.floats(-0.6, 0.6), st.floats(0.02, 0.8), st.floats(-3, 3))
specs = st.builds(
    CropSpec,
    extract_segments=st.sampled_from(
        [("object:*",), ("object:2",), (), ("table", "object:0"), ("object:0", "object:1")]
    ),
    box_min=st.sampled_from([(-0.3, -0.3, -0.01), (-0.05, -0.1, 0.01)]),
    box_max=st.sampled_from([(0.3, 0.3, 0.3), (0.1, 0.02, 0.08)]),
    box_frame=st.just("world"),
    sampling=st.sampled_from(["none", "random"]),
    num_points=st.just(50),
)


@pytest.fixture(scope="module")
def prepared_scene(scene: Scene, solids: list[ObjectAsset]) -> tuple[EmbreeBackend, PreparedScene]:
    backend = EmbreeBackend()
    return backend, backend.prepare(scene, solids)


@settings(max_examples=150, deadline=None)
@given(eye=eyes, spec=specs, boxed=st.booleans())
def test_culling_changes_no_bit(
    scene: Scene,
    prepared_scene: tuple[EmbreeBackend, PreparedScene],
    eye: tuple[float, float, float, float],
    spec: CropSpec,
    boxed: bool,
) -> None:
    if not boxed:
        spec = CropSpec.from_dict(spec.to_dict() | {"box_min": None, "box_max": None})
    camera = Camera(intrinsics=K, T_world_cam=look_at(eye[:3], [0.01, 0.02, 0.03], eye[3]))
    backend, prepared = prepared_scene
    culled = render_view(backend, prepared, scene, 0, camera, RenderConfig(crop=spec), seed=1)
    expected = cropped_full_cast(backend, prepared, scene, camera, spec, seed=1)
    assert np.array_equal(culled.points, expected.points)
    assert np.array_equal(culled.segment, expected.segment)
    assert culled.valid_count == expected.valid_count


def test_few_rays_are_cast_for_a_small_object(
    scene: Scene, solids: list[ObjectAsset], camera: Camera
) -> None:
    backend = EmbreeBackend()
    prepared = backend.prepare(scene, solids)
    spec = CropSpec(extract_segments=("object:0",))
    pixels = surviving_pixels(scene, backend.hulls(prepared), camera, spec)
    hits = backend.render(prepared, camera)
    seen = (hits.segment == 2).sum()
    assert seen < len(pixels) < 1.3 * seen + 400  # its silhouette and a rim


def test_a_hull_behind_the_camera_is_not_culled() -> None:
    camera = Camera(intrinsics=K, T_world_cam=np.eye(4))
    assert not Footprint(camera).add(np.array([[0, 0, 1.0], [0.1, 0, 1.0], [0, 0.1, -0.2]]))


def test_all_fields_of_a_cloud_are_compared() -> None:
    """Guards the comparison above against a new field."""
    assert {f.name for f in fields(Cloud)} == {
        "scene_id", "view", "frame", "points", "segment", "valid_count", "intrinsics",
        "T_world_cam", "distortion", "depth_step", "normals", "colour",
    }  # fmt: skip
