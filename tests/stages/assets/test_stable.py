"""Stable poses against solid angles in closed form, and against a rolling can."""

import numpy as np
import pytest
import trimesh

from schemas.frames import pose_to_matrix, transform_points
from stages.assets.stable import stable_poses


def face_share(a: float, b: float, distance: float) -> float:
    """Solid angle over 4 pi of an a x b rectangle seen from above its middle (closed form)."""
    return float(
        np.arctan(a * b / (2 * distance * np.sqrt(4 * distance**2 + a * a + b * b))) / np.pi
    )


def test_a_brick_falls_by_the_solid_angles_of_its_faces() -> None:
    x, y, z = 0.12, 0.06, 0.03
    found = stable_poses(trimesh.creation.box((x, y, z)).vertices, np.zeros(3))
    expected = sorted(
        [face_share(x, y, z / 2)] * 2
        + [face_share(x, z, y / 2)] * 2
        + [face_share(y, z, x / 2)] * 2,
        reverse=True,
    )
    assert sum(expected) == pytest.approx(1)
    # Nothing topples: the centre is over every face.
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-6)
    np.testing.assert_allclose(
        found.poses[:, 2], [z / 2] * 2 + [y / 2] * 2 + [x / 2] * 2, atol=1e-9
    )


def test_the_object_lies_on_the_plane_with_its_centre_over_its_support() -> None:
    mesh = trimesh.convex.convex_hull(np.random.default_rng(4).normal(0, 0.03, (30, 3)))
    com = np.array(mesh.center_mass)
    found = stable_poses(mesh.vertices, com)
    assert found.probabilities.sum() == pytest.approx(1)
    assert (np.diff(found.probabilities) <= 1e-9).all()
    for pose in found.poses:
        placed = transform_points(pose_to_matrix(pose), mesh.vertices)
        assert placed[:, 2].min() == pytest.approx(0, abs=1e-9)
        np.testing.assert_allclose(
            transform_points(pose_to_matrix(pose), com[None])[0, :2], 0, atol=1e-9
        )
        support = placed[placed[:, 2] < 1e-6][:, :2]
        assert len(support) >= 3
        # The origin (the centre's foot) is inside the support's hull: it has no separating line.
        angles = np.sort(np.arctan2(support[:, 1], support[:, 0]))
        assert np.diff(np.append(angles, angles[0] + 2 * np.pi)).max() < np.pi + 1e-9


def test_a_leaning_tower_does_not_rest_on_its_foot() -> None:
    """A prism sheared so far that its centre is beyond its base: base and top never hold it."""
    mesh = trimesh.creation.box((0.02, 0.04, 0.1))
    mesh.vertices[:, 0] += 0.6 * (mesh.vertices[:, 2] + 0.05)
    found = stable_poses(mesh.vertices, np.array(mesh.center_mass))
    down = np.array([-pose_to_matrix(p)[2, :3] for p in found.poses])
    assert (np.abs(down[:, 2]) < 0.999).all()
    mesh.vertices[:, 0] -= 0.55 * (mesh.vertices[:, 2] + 0.05)  # a lean that the base bears
    upright = stable_poses(mesh.vertices, np.array(mesh.center_mass))
    assert (np.abs([pose_to_matrix(p)[2, 2] for p in upright.poses]) > 0.999).sum() == 2


def test_a_can_lies_on_its_side_however_it_is_cut() -> None:
    """Its 48 flat sides hold 1.5 % each and three quarters together."""
    for sections in (12, 48, 200):
        mesh = trimesh.creation.cylinder(0.03, 0.1, sections=sections)
        found = stable_poses(mesh.vertices, np.zeros(3))
        assert len(found.poses) <= 12
        lying = np.abs([pose_to_matrix(p)[2, 2] for p in found.poses]) < 0.5
        # A disc of radius r at distance h/2 covers (1 - cos) / 2 of the directions.
        ends = 1 - 0.05 / np.hypot(0.05, 0.03)
        assert found.probabilities[lying].sum() == pytest.approx(1 - ends, abs=0.03)
        if sections > 12:
            around = np.array([-pose_to_matrix(p)[2, :3] for p in found.poses[lying]])
            assert np.linalg.norm(around.mean(axis=0)) < 0.35  # all around, not one side


def test_a_ball_has_poses_all_over() -> None:
    mesh = trimesh.creation.icosphere(3, 0.03)
    found = stable_poses(mesh.vertices, np.zeros(3))
    assert 4 <= len(found.poses) <= 12
    down = np.array([-pose_to_matrix(p)[2, :3] for p in found.poses])
    assert np.linalg.norm(found.probabilities @ down) < 0.25
