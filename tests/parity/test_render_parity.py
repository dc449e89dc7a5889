"""Embree and ManiSkill on the same (scene, view) pairs: pixels, depths, clouds, sensors.

Rays and triangles against a rasteriser: what they may differ in is the pixels on an edge, and the
int16 millimetres of ManiSkill's minimal shader.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial import cKDTree

from schemas.camera import Camera
from stages.envs.maniskill.depth import DEPTH_STEP
from stages.render.backends.embree import EmbreeBackend
from stages.render.backends.maniskill import ManiSkillBackend
from stages.render.config import RenderConfig
from stages.render.sensor import observe
from stages.render.sensor_config import SensorConfig
from stages.render.stage import render_view
from tests.maniskill_scenes import K, eye, three
from tests.vulkan import need_vulkan

EDGE_SHARE = 0.001  # of all pixels, mean over the pairs, may show another segment


@pytest.fixture(scope="module", autouse=True)
def vulkan() -> None:
    need_vulkan()


@pytest.fixture(scope="module")
def plain() -> ManiSkillBackend:
    backend = ManiSkillBackend()
    backend.configure(normals=False, sub_scenes=0)
    return backend


@pytest.fixture(scope="module")
def sensing() -> ManiSkillBackend:
    backend = ManiSkillBackend()
    backend.configure(normals=True, sub_scenes=0)
    return backend


def on_edges(segment: np.ndarray) -> np.ndarray:
    """Pixels with another segment among their eight neighbours."""
    padded = np.pad(segment, 1, mode="edge")
    shifts = [(r, c) for r in range(3) for c in range(3)]
    height, width = segment.shape
    around = np.stack([padded[r : r + height, c : c + width] for r, c in shifts])
    return (around != segment).any(axis=0)


def test_both_see_the_same_pixels_and_depths_on_56_pairs(plain: ManiSkillBackend) -> None:
    embree = EmbreeBackend()
    other, total = 0, 0
    errors: list[np.ndarray] = []
    for seed in range(7):
        one = three(seed, table=seed != 6)
        ours, theirs = (b.prepare(one.scene, one.assets) for b in (embree, plain))
        for view in range(8):
            camera = Camera(intrinsics=K, T_world_cam=eye(view))
            z, segment = embree.render(ours, camera).dense(K.height, K.width)
            z_ms, segment_ms = plain.render(theirs, camera).dense(K.height, K.width)
            assert set(np.unique(segment_ms)) == set(np.unique(segment))
            differ = segment != segment_ms
            assert not (differ & ~on_edges(segment)).any()  # only ever on an edge
            other, total = other + int(differ.sum()), total + differ.size
            both = ~differ & (segment > 0)
            assert both.mean() > 0.02  # there is something to compare
            assert np.array_equal(np.isnan(z_ms), segment_ms == 0)
            # inside a concave object an edge may lie within one segment
            errors.append(np.abs(z_ms[both] - z[both]))
    assert other / total < EDGE_SHARE
    error = np.concatenate(errors)
    assert np.percentile(error, 99.9) <= DEPTH_STEP / 2 + 5e-5
    assert (error > DEPTH_STEP / 2 + 5e-5).mean() < EDGE_SHARE


def test_clouds_are_equal_within_the_tolerance(sensing: ManiSkillBackend) -> None:
    """Every point within a step of the other cloud's, but for a share at edges."""
    embree, config = EmbreeBackend(), RenderConfig()
    for seed, view in ((0, 0), (1, 3), (2, 5), (3, 6)):
        one = three(seed)
        camera = Camera(intrinsics=K, T_world_cam=eye(view))
        clouds = [
            render_view(b, b.prepare(one.scene, one.assets), one.scene, view, camera, config, 3)
            for b in (embree, sensing)
        ]
        assert [cloud.depth_step for cloud in clouds] == [0.0, DEPTH_STEP]
        a, b = (cloud.points.astype(float) for cloud in clouds)
        assert abs(len(a) - len(b)) <= 0.005 * len(a)
        for points, others in ((a, b), (b, a)):
            distance, _ = cKDTree(others).query(points)
            # half a step along the ray is a little more in space
            assert np.percentile(distance, 99) < DEPTH_STEP


def test_a_sensor_sees_the_same_within_the_tolerance(sensing: ManiSkillBackend) -> None:
    """The demo's sensor draws the same noise for both; its own steps of 1 mm may round apart."""
    embree, sensor = EmbreeBackend(), SensorConfig(preset="d435")
    for seed, view in ((0, 0), (1, 3), (2, 5), (3, 6)):
        one = three(seed)
        camera = Camera(intrinsics=K, T_world_cam=eye(view))
        a, b = (
            observe(x, x.prepare(one.scene, one.assets), camera, None, sensor, 3)
            for x in (embree, sensing)
        )
        assert (np.isfinite(a.z) == np.isfinite(b.z)).mean() > 0.98
        both = np.isfinite(a.z) & np.isfinite(b.z)
        assert (a.segment == b.segment)[both].mean() > 0.99
        assert np.percentile(np.abs(a.z - b.z)[both], 95) < 2e-3 + 1e-5


def test_any_choice_of_pixels_gets_the_bits_of_the_whole_image(sensing: ManiSkillBackend) -> None:
    one, sensor = three(5), SensorConfig(preset="d435")
    camera = Camera(intrinsics=K, T_world_cam=eye(2))
    prepared = sensing.prepare(one.scene, one.assets)
    whole = observe(sensing, prepared, camera, None, sensor, 7)
    some = np.flatnonzero(np.random.default_rng(0).random(K.width * K.height) < 0.2)
    part = observe(sensing, prepared, camera, some, sensor, 7)
    assert np.array_equal(part.z, whole.z[some], equal_nan=True)
    assert np.array_equal(part.segment, whole.segment[some])


def test_normals_and_angles_are_those_of_the_faces(sensing: ManiSkillBackend) -> None:
    one = three(3)
    camera = Camera(intrinsics=K, T_world_cam=eye(4))
    pixels = np.arange(K.width * K.height)
    embree = EmbreeBackend()
    ray = embree.render(embree.prepare(one.scene, one.assets), camera)
    seen = sensing.render(sensing.prepare(one.scene, one.assets), camera)
    assert ray.normal is not None
    assert seen.normal is not None
    same = (ray.segment == seen.segment) & (ray.segment > 0) & (np.abs(ray.z - seen.z) < 6e-4)
    unit = ray.normal[same] / np.linalg.norm(ray.normal[same], axis=1, keepdims=True)
    cosine = (unit * seen.normal[same]).sum(axis=1)
    assert np.percentile(cosine, 2) > 0.999
    assert len(pixels) == len(seen.pixel)


def test_what_the_other_eye_cannot_see(sensing: ManiSkillBackend) -> None:
    """A picture from there against shadow rays, beside the pixels on an edge."""
    one = three(2)
    camera = Camera(intrinsics=K, T_world_cam=eye(0))
    embree = EmbreeBackend()
    ours, theirs = (b.prepare(one.scene, one.assets) for b in (embree, sensing))
    z, segment = embree.render(ours, camera).dense(K.height, K.width)
    rows, columns = np.nonzero(np.isfinite(z))
    depth = z[rows, columns].astype(float)
    points = np.stack(
        [(columns + 0.5 - K.cx) / K.fx * depth, (rows + 0.5 - K.cy) / K.fy * depth, depth], axis=1
    ).astype(np.float32)
    eye_cam = (0.1, 0.0, 0.0)
    a = embree.visible(ours, camera, eye_cam, points)
    b = sensing.visible(theirs, camera, eye_cam, points)
    assert 0.005 < (~a).mean() < 0.5  # something is hidden
    assert (a != b).mean() < 0.005
    assert segment.max() > 1


@pytest.mark.parametrize("announced", [False, True])
def test_two_lenses_at_one_place_see_their_own_pictures(
    plain: ManiSkillBackend, announced: bool
) -> None:
    """Twice the focal length: the middle of the wide picture, twice as large."""
    one, narrow = three(1), replace(K, fx=2 * K.fx, fy=2 * K.fy)
    prepared = plain.prepare(one.scene, one.assets)
    cameras = [Camera(intrinsics=lens, T_world_cam=eye(0)) for lens in (K, narrow)]
    if announced:
        plain.announce([(prepared, camera) for camera in cameras])
        assert len(prepared.frames) == 2
    wide, near = (plain.render(prepared, c).segment.reshape(K.height, K.width) for c in cameras)
    rows, columns = np.mgrid[: K.height, : K.width]
    row = np.floor((rows + 0.5 - K.cy) / 2 + K.cy).astype(int)
    column = np.floor((columns + 0.5 - K.cx) / 2 + K.cx).astype(int)
    assert (near == wide[row, column]).mean() > 0.97
    assert (near == wide).mean() < 0.9
