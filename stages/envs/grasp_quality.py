"""Analytic grasp quality from contact points and normals, without simulation.

The five metrics that DexGraspBench reports beside its simulated verdict (Chen et al., BODex, 2024),
each implemented from its own publication:

- Q1: Ferrari and Canny, "Planning optimal grasps", 1992: the largest ball about the origin inside
  the convex hull of the wrenches that unit contact forces make.
- QP: Chen et al., BODex, 2024: the wrench that bounded contact forces leave unbalanced under a
  weak external force, mean over the six axes. QP-DFC is the same without external force.
- TDG: Chen et al., "Task-oriented dexterous grasp synthesis", 2023: how far the wrenches on the
  boundary of the grasp wrench space point away from the forces asked for.
- DFC: Liu et al., "Synthesizing diverse and physically stable grasps with arbitrary hand
  structures", 2021: the wrench left over when every contact pushes with a unit normal force.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.frames import sphere_points

Float = NDArray[np.float64]

EXTERNAL_FORCE = 0.1  # of the largest normal force of a contact (BODex)
TDG_DIRECTIONS = 1000  # (TDG) theirs are random, ours a spiral, so the value repeats
PYRAMID_EDGES = 8  # of the friction cone in Q1 (DexGraspBench)


@dataclass(frozen=True, kw_only=True, slots=True)
class GraspQuality:
    """Five metrics; NaN each without a contact."""

    qp: float = np.nan  # 1, >= 0; 0 balances every axis-aligned force
    qp_dfc: float = np.nan  # 1, >= 0; 0 balances itself
    q1: float = np.nan  # 1, >= 0; larger is better, 0 without force closure
    tdg: float = np.nan  # 1, 0 to 2; smaller is better
    dfc: float = np.nan  # 1, >= 0; smaller is better


def grasp_quality(points: Float, normals: Float, friction: float, torsion: float) -> GraspQuality:
    """Quality of N point contacts.

    `points` (N, 3) m, `normals` (N, 3) unit, all inward or all outward, any one frame; `friction`
    (1) sliding and `torsion` (m) torsional coefficient. Torques are taken about the mean of the
    points. QP counts them in Nm; Q1, TDG and DFC divide them by the points' mean distance from
    there, so that size and place of the object do not matter (DexGraspBench).
    """
    if len(points) == 0:
        return GraspQuality()
    frames = _contact_frames(normals)
    arms = points - points.mean(axis=0)
    metric = _wrenches(arms, frames)
    scaled = _wrenches(arms / (np.linalg.norm(arms, axis=1).mean() + 1e-6), frames)
    axes = EXTERNAL_FORCE * np.eye(6)[:3]
    return GraspQuality(
        qp=_balance(metric, friction, torsion, np.concatenate([axes, -axes])),
        qp_dfc=_balance(metric, friction, torsion, np.zeros((1, 6))),
        q1=_largest_ball(scaled, friction),
        tdg=_misdirection(scaled, friction),
        dfc=float(np.linalg.norm(scaled[:, :, 0].sum(axis=0))),
    )


def _contact_frames(normals: Float) -> Float:
    """(N, 3, 3): columns are the normal and two tangents, the first as near y as can be."""
    towards = np.where(np.abs(normals[:, 1:2]) > 0.99, [[0.0, 0.0, 1.0]], [[0.0, 1.0, 0.0]])
    tangent = towards - np.sum(towards * normals, axis=1, keepdims=True) * normals
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    return np.stack([normals, tangent, np.cross(normals, tangent)], axis=2)


def _wrenches(points: Float, frames: Float) -> Float:
    """(N, 6, 3): wrench of a unit force along each axis of each contact frame."""
    return np.concatenate([frames, np.cross(points[:, :, None], frames, axis=1)], axis=1)


def _balance(wrenches: Float, friction: float, torsion: float, external: Float) -> float:
    """Mean over `external` (E, 6) of the smallest wrench that contact forces leave over.

    Each contact has four edges of a friction pyramid and two of torsion, every edge with a unit
    normal force; their weights are >= 0, sum to at most 1 a contact, and to at least 1 in all.
    """
    import clarabel
    from scipy import sparse

    normal, first, second = np.moveaxis(wrenches, 2, 0)  # (N, 6) each
    twist = np.concatenate([np.zeros_like(normal[:, :3]), normal[:, :3]], axis=1)
    slopes = (friction * first, friction * second, torsion * twist)
    edges = np.stack([normal + sign * slope for slope in slopes for sign in (1, -1)], axis=1)
    edges = edges.reshape(-1, 6)
    A, b = _weight_limits(len(wrenches))
    P = sparse.csc_matrix(np.triu(edges @ edges.T))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1  # every worker has a core of its own
    cones = [clarabel.NonnegativeConeT(len(b))]
    left: list[float] = []
    for wanted in external:
        solution = clarabel.DefaultSolver(P, edges @ wanted, A, b, cones, settings).solve()
        left.append(float(np.linalg.norm(np.asarray(solution.x) @ edges + wanted)))
    return float(np.mean(left))


@cache
def _weight_limits(contacts: int) -> tuple[Any, Float]:
    """A (sparse) and b of A w <= b for the weights w (6 * contacts,) of `_balance`."""
    from scipy import sparse

    n = contacts
    each = np.kron(np.eye(n), np.ones((1, 6)))
    A = np.concatenate([-np.eye(6 * n), each, -np.ones((1, 6 * n))])
    return sparse.csc_matrix(A), np.concatenate([np.zeros(6 * n), np.ones(n), [-1.0]])


def _largest_ball(wrenches: Float, friction: float) -> float:
    """Radius of the largest ball about 0 in the hull of the friction pyramids' edges (L1)."""
    from scipy.spatial import ConvexHull

    angles = 2 * np.pi * np.arange(PYRAMID_EDGES) / PYRAMID_EDGES
    forces = np.stack([np.ones_like(angles), friction * np.cos(angles), friction * np.sin(angles)])
    corners = np.concatenate([(w @ forces).T for w in wrenches] + [np.zeros((1, 6))])
    # Two contacts, or more in a line, span too little: without torque about that line no ball.
    if np.linalg.matrix_rank(corners, tol=1e-6) < 6:
        return 0.0
    # QJ shakes the corners by about 1e-11 instead of merging facets: more than twice as fast.
    hull = ConvexHull(corners, qhull_options="QJ")
    # Qhull's plane normals are unit vectors; 0 is a corner, so no offset is positive.
    return float(np.abs(hull.equations[:, 6]).min())


def _misdirection(wrenches: Float, friction: float) -> float:
    """Mean of 1 - cos between a wanted force and the wrench that answers it best."""
    wanted = sphere_points(TDG_DIRECTIONS)
    local = np.einsum("pk,nkj->pnj", wanted, wrenches[:, :3])  # (P, N, 3) contact frames
    local /= np.linalg.norm(local, axis=2, keepdims=True)
    along = local[:, :, :1]
    across = local * [0.0, 1.0, 1.0]
    sine = np.linalg.norm(across, axis=2, keepdims=True)
    rim = np.array([1.0, 0.0, 0.0]) + friction * across / np.maximum(sine, 1e-12)
    # Inside the cone: the force itself; beside it: the rim; behind: the rim, fading away.
    inside = [1.0, 0.0, 0.0] + across / np.maximum(along, np.cos(np.arctan(friction)) / 2)
    fading = sine / np.maximum(sine - 2 * friction * np.minimum(along, 0.0), 1e-12)
    force = np.where(
        along >= np.cos(np.arctan(friction)), inside, np.where(along >= 0, rim, fading * rim)
    )
    answer = np.einsum("nkj,pnj->pk", wrenches, force)
    answer /= np.maximum(np.linalg.norm(answer, axis=1, keepdims=True), 1e-12)
    return float(np.mean(1.0 - np.sum(answer[:, :3] * wanted, axis=1)))
