"""Analytic metrics where statics gives the answer."""

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.frames import quaternion_to_matrix
from stages.envs.grasp_quality import GraspQuality, grasp_quality

Float = NDArray[np.float64]
AXES = np.vstack([np.eye(3), -np.eye(3)])


def octahedron(friction: float = 0.5, torsion: float = 0.01) -> GraspQuality:
    """Six contacts at +-x, +-y, +-z of a unit ball, pushing inwards."""
    return grasp_quality(AXES, -AXES, friction, torsion)


def test_six_opposed_contacts_balance_everything() -> None:
    quality = octahedron()
    assert quality.qp == pytest.approx(0, abs=1e-5)
    assert quality.qp_dfc == pytest.approx(0, abs=1e-5)
    assert quality.dfc == pytest.approx(0, abs=1e-12)
    assert quality.q1 > 0


def test_q1_against_its_support_function() -> None:
    """min over unit directions of the largest wrench component bounds the ball from above.

    The hull's inscribed radius is the minimum of its support function; sampled directions come
    near it and never below.
    """
    rng = np.random.default_rng(0)
    points = rng.normal(size=(5, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    friction = 0.6
    q1 = grasp_quality(points, -points, friction, 0.0).q1
    arms = points - points.mean(axis=0)
    arms /= np.linalg.norm(arms, axis=1).mean() + 1e-6
    corners = [np.zeros(6)]
    for arm, normal in zip(arms, -points, strict=True):
        tangent = np.array([0, 1, 0]) - normal[1] * normal
        tangent /= np.linalg.norm(tangent)
        other = np.cross(normal, tangent)
        for angle in np.arange(8) * np.pi / 4:
            force = normal + friction * (np.cos(angle) * tangent + np.sin(angle) * other)
            corners.append(np.concatenate([force, np.cross(arm, force)]))
    best = rng.normal(size=(20000, 6))
    best /= np.linalg.norm(best, axis=1, keepdims=True)
    for step in (0.3, 0.1, 0.03, 0.01, 0.003):  # towards the smallest by random search
        support = (best @ np.transpose(corners)).max(axis=1)
        kept = best[np.argsort(support)[:200]]
        best = np.concatenate([kept, np.repeat(kept, 100, 0) + rng.normal(0, step, (20000, 6))])
        best /= np.linalg.norm(best, axis=1, keepdims=True)
    smallest = (best @ np.transpose(corners)).max(axis=1).min()
    assert q1 <= smallest + 1e-9
    assert q1 == pytest.approx(max(smallest, 0), abs=0.01)


def test_two_fingers_without_torsion_have_no_ball_but_balance_themselves() -> None:
    points = np.array([[0.03, 0, 0], [-0.03, 0, 0]])
    quality = grasp_quality(points, -points / 0.03, 0.5, 0.01)
    assert quality.q1 == 0.0
    assert quality.qp_dfc == pytest.approx(0, abs=1e-6)
    assert quality.qp == pytest.approx(0, abs=1e-5)  # friction carries weak forces


def test_one_sided_contacts_cannot_pull() -> None:
    """Three contacts that all push along -z: a unit force is left over, and +z stays unanswered."""
    points = np.array([[0.03, 0, 0], [-0.02, 0.02, 0], [-0.02, -0.02, 0]])
    normals = np.tile([0.0, 0, -1], (3, 1))
    quality = grasp_quality(points, normals, 0.3, 0.01)
    assert quality.qp_dfc == pytest.approx(1, abs=1e-4)  # the weights sum to at least one
    # of the six forces five leave about 1 over, one is 0.1 nearer, one 0.1 farther
    assert quality.qp == pytest.approx(1, abs=0.01)
    assert quality.q1 == pytest.approx(0, abs=1e-9)
    assert quality.dfc == pytest.approx(3, abs=0.2)
    assert quality.tdg > octahedron(0.3).tdg


def test_frictionless_opposed_pair_resists_only_its_own_line() -> None:
    """Without friction, forces of 0.1 along two of the three axes stay whole: (4 * 0.1) / 6."""
    points = np.array([[0.03, 0, 0], [-0.03, 0, 0]])
    quality = grasp_quality(points, -points / 0.03, 0.0, 0.0)
    assert quality.qp == pytest.approx(0.4 / 6, abs=1e-4)


def test_place_size_and_sign_of_normals_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(4, 3)) * 0.04
    normals = -points / np.linalg.norm(points, axis=1, keepdims=True)
    base = grasp_quality(points, normals, 0.3, 0.01)
    moved = grasp_quality(points + [1.0, -2.0, 0.5], normals, 0.3, 0.01)
    flipped = grasp_quality(points, -normals, 0.3, 0.01)
    larger = grasp_quality(points * 3, normals, 0.3, 0.01)
    for name in ("q1", "tdg", "dfc"):
        value = getattr(base, name)
        assert getattr(moved, name) == pytest.approx(value, abs=1e-6)
        assert getattr(flipped, name) == pytest.approx(value, abs=1e-4)  # directions mirrored
        assert getattr(larger, name) == pytest.approx(value, abs=1e-4)
    assert moved.qp == pytest.approx(base.qp, abs=1e-5)
    assert flipped.qp == pytest.approx(base.qp, abs=1e-5)


def test_a_round_cone_would_turn_with_the_grasp() -> None:
    """TDG and DFC use no pyramid, so a turned grasp has the same value."""
    rng = np.random.default_rng(2)
    points = rng.normal(size=(5, 3)) * 0.04
    normals = -points / np.linalg.norm(points, axis=1, keepdims=True)
    q = rng.normal(size=4)
    R = quaternion_to_matrix(q / np.linalg.norm(q))
    base, turned = (
        grasp_quality(p, n, 0.4, 0.01)
        for p, n in ((points, normals), (points @ R.T, normals @ R.T))
    )
    assert turned.dfc == pytest.approx(base.dfc, rel=1e-9)
    assert turned.tdg == pytest.approx(base.tdg, abs=0.01)  # 1000 directions
    assert turned.q1 == pytest.approx(base.q1, abs=0.02)  # eight edges instead of a cone


def test_no_contact_has_no_quality() -> None:
    quality = grasp_quality(np.zeros((0, 3)), np.zeros((0, 3)), 0.3, 0.01)
    assert all(np.isnan(getattr(quality, n)) for n in ("qp", "qp_dfc", "q1", "tdg", "dfc"))
