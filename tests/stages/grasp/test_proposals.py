"""Antipodal lines and approaches by their definitions."""

from itertools import islice

import numpy as np
import pytest
import trimesh

from schemas.frames import check_transform
from schemas.records import ObjectAsset
from stages.grasp.backends.rays import MeshRays
from stages.grasp.config import GraspConfig
from stages.grasp.errors import GraspConfigError
from stages.grasp.proposals import antipodal_proposals, approach_proposals
from stages.grasp.surface import anchor_points, surface_points
from tests.solids import solid_asset

CONFIG = GraspConfig()
DOWN = np.array([0.0, 0.0, -1.0])


@pytest.fixture(scope="module")
def ball() -> ObjectAsset:
    return solid_asset(trimesh.creation.icosphere(4, 0.03), "ball")


@pytest.fixture(scope="module")
def brick() -> ObjectAsset:
    return solid_asset(trimesh.creation.box((0.12, 0.05, 0.03)), "brick")


def test_surface_points_are_uniform_over_the_area(brick: ObjectAsset) -> None:
    points, faces = surface_points(brick.vertices, brick.faces, 12000, np.random.default_rng(0))
    half = np.array([0.06, 0.025, 0.015])
    assert np.abs(np.abs(points / half).max(axis=1) - 1).max() < 1e-6
    areas = {0: 0.05 * 0.03, 1: 0.12 * 0.03, 2: 0.12 * 0.05}
    axis = np.abs(points / half).argmax(axis=1)
    for k, area in areas.items():
        share = area / sum(areas.values())
        sd = np.sqrt(share * (1 - share) / 12000)
        assert np.mean(axis == k) == pytest.approx(share, abs=5 * sd)
    top = points[(axis == 2) & (points[:, 2] > 0)]
    np.testing.assert_allclose(top[:, :2].mean(axis=0), 0, atol=0.002)
    assert faces.max() < len(brick.faces)


def test_any_prefix_of_the_anchors_is_spread(ball: ObjectAsset) -> None:
    points, normals = anchor_points(ball, 64)
    np.testing.assert_allclose(normals, points / 0.03, atol=0.06)
    probe, _ = surface_points(ball.vertices, ball.faces, 2000, np.random.default_rng(1))
    for count in (8, 16, 64):
        reach = np.linalg.norm(probe[:, None] - points[None, :count], axis=2).min(axis=1).max()
        # The best covering of a sphere by n caps has about half the radius 4 r / sqrt(n) (area).
        assert reach < 0.03 * 4 / np.sqrt(count)


def test_the_jaw_line_lies_in_both_friction_cones(ball: ObjectAsset) -> None:
    rays = MeshRays(ball)
    rng = np.random.default_rng(0)
    points, normals = anchor_points(ball, 20)
    half_angle = np.arctan(CONFIG.friction)
    accepted = 0
    for point, normal in zip(points, normals, strict=True):
        source = antipodal_proposals(point, normal, rays.first_hit, 0.08, DOWN, CONFIG, rng)
        for T in islice(source, 20):
            if np.isnan(T).any():
                continue
            accepted += 1
            check_transform(T)
            closing, middle = T[:3, 1], T[:3, 3]
            # The two places where the line pierces the sphere, in closed form.
            b, c = middle @ closing, middle @ middle - 0.03**2
            ends = [middle + (-b + s * np.sqrt(b * b - c)) * closing for s in (-1, 1)]
            for end, sign in zip(ends, (-1, 1), strict=True):
                outward = end / np.linalg.norm(end)
                assert sign * outward @ closing > np.cos(half_angle + 0.06)
            assert np.linalg.norm(ends[0] + ends[1] - 2 * middle) < 1e-3  # centred between them
            assert T[:3, 2] @ DOWN > np.cos(np.deg2rad(101)) or abs(closing @ DOWN) > 0.999
    assert accepted > 200


def test_what_is_wider_than_the_jaw_gets_no_line(brick: ObjectAsset) -> None:
    rays = MeshRays(brick)
    rng = np.random.default_rng(0)
    across_length = antipodal_proposals(
        np.array([0.06, 0.0, 0.0]), np.array([1.0, 0, 0]), rays.first_hit, 0.08, DOWN, CONFIG, rng
    )
    assert all(np.isnan(T).any() for T in islice(across_length, 200))
    across_width = antipodal_proposals(
        np.array([0.0, 0.025, 0.0]), np.array([0.0, 1, 0]), rays.first_hit, 0.08, DOWN, CONFIG, rng
    )
    frames = [T for T in islice(across_width, 200) if not np.isnan(T).any()]
    assert len(frames) > 100


def test_approaches_lean_from_the_inward_normal_to_straight_down() -> None:
    normal = np.array([1.0, 0.0, 0.0])
    calm = GraspConfig(approach_tilt=0.0)
    source = approach_proposals(np.zeros(3), normal, DOWN, calm, np.random.default_rng(0))
    frames = list(islice(source, 500))
    for T in frames:
        check_transform(T)
        approach = T[:3, 2]
        assert abs(approach[1]) < 1e-9  # in the plane of both
        assert approach @ -normal > 0
        assert approach @ DOWN >= 0
        depth = T[:3, 3] @ approach
        assert calm.depth_min <= depth <= calm.depth_max
    turned = np.arctan2(*np.array([T[:3, 1] @ [[0, 0], [1, 0], [0, 1]] for T in frames]).T)
    assert np.histogram(turned, 4, (-np.pi, np.pi))[0].min() > 50


def test_the_first_hit_of_a_box_is_its_face(brick: ObjectAsset) -> None:
    rays = MeshRays(brick)
    distance, normal = rays.first_hit(np.array([0.01, 0.01, 1.0]), DOWN)
    assert distance == pytest.approx(1 - 0.015, abs=1e-6)
    np.testing.assert_allclose(normal, [0, 0, 1])
    assert rays.first_hit(np.array([1.0, 1.0, 1.0]), DOWN) is None


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(GraspConfigError, match="name at least one"):
        GraspConfig(hands=())
    with pytest.raises(GraspConfigError, match="friction"):
        GraspConfig(friction=0.0)
