"""Mass properties against solids in closed form and under rigid motion."""

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

from stages.assets.inertia import mass_properties, union_mass_properties


def test_a_brick_off_its_origin() -> None:
    mesh = trimesh.creation.box((0.1, 0.06, 0.04))
    mesh.apply_translation([10.0, -20.0, 30.0])  # far away: no digit may be lost
    found = mass_properties(mesh.vertices, mesh.faces)
    assert found.volume == pytest.approx(0.1 * 0.06 * 0.04, rel=1e-9)
    np.testing.assert_allclose(found.center_of_mass, [10, -20, 30], atol=1e-9)
    expected = found.volume / 12 * np.diag([0.06**2 + 0.04**2, 0.1**2 + 0.04**2, 0.1**2 + 0.06**2])
    np.testing.assert_allclose(found.inertia, expected, rtol=1e-6, atol=1e-14)


def test_a_ball_and_a_tetrahedron() -> None:
    ball = trimesh.creation.icosphere(5, 0.05)
    found = mass_properties(ball.vertices, ball.faces)
    assert found.volume == pytest.approx(4 / 3 * np.pi * 0.05**3, rel=2e-3)
    np.testing.assert_allclose(
        found.inertia, 0.4 * found.volume * 0.05**2 * np.eye(3), rtol=3e-3, atol=1e-12
    )
    # The corner tetrahedron of side a: V = a^3/6, I about the corner's axis = V a^2 (1/10 + 1/10).
    a = 0.2
    corners = np.array([[0, 0, 0], [a, 0, 0], [0, a, 0], [0, 0, a]])
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    found = mass_properties(corners, faces)
    assert found.volume == pytest.approx(a**3 / 6)
    np.testing.assert_allclose(found.center_of_mass, [a / 4] * 3)
    about_corner = found.inertia[0, 0] + found.volume * 2 * (a / 4) ** 2
    assert about_corner == pytest.approx(found.volume * a * a / 5)


def test_inertia_turns_with_the_body() -> None:
    mesh = trimesh.convex.convex_hull(np.random.default_rng(0).normal(0, 0.05, (40, 3)))
    base = mass_properties(mesh.vertices, mesh.faces)
    R = Rotation.from_rotvec([0.3, -1.1, 0.7]).as_matrix()
    turned = mass_properties(mesh.vertices @ R.T + [0.3, 0.2, 0.1], mesh.faces)
    np.testing.assert_allclose(turned.inertia, R @ base.inertia @ R.T, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(turned.center_of_mass, R @ base.center_of_mass + [0.3, 0.2, 0.1])
    np.testing.assert_allclose(base.inertia, mesh.moment_inertia, rtol=1e-9, atol=1e-15)
    flipped = mass_properties(mesh.vertices, mesh.faces[:, ::-1])
    assert flipped.volume == pytest.approx(-base.volume)


def test_overlapping_pieces_count_once() -> None:
    """Two boxes that share a third each: an L of known volume and centre."""
    long, tall = trimesh.creation.box((0.12, 0.04, 0.04)), trimesh.creation.box((0.04, 0.04, 0.12))
    tall.apply_translation([-0.04, 0, 0.04])
    found = union_mass_properties([(m.vertices, m.faces) for m in (long, tall)])
    cube = 0.04**3
    assert found.volume == pytest.approx(5 * cube, rel=0.01)
    np.testing.assert_allclose(
        found.center_of_mass,
        [(0.04 + 0 - 0.04 - 0.04 - 0.04) / 5, 0, (0 + 0 + 0 + 0.04 + 0.08) / 5],
        atol=5e-4,
    )
