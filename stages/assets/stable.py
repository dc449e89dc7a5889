"""Poses in which an object rests on the plane z = 0, and how likely a toss ends in each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.frames import matrix_to_pose

Float = NDArray[np.float64]
RARE = 0.1  # 1; share of the probability that may be left out with rare poses
WIDENING, WIDEST_DEG = 1.5, 60.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StablePoses:
    poses: Float  # (S, 7) world <- object: centre of mass over the origin, lowest point on z = 0
    probabilities: Float  # (S,) falling, sum 1


def stable_poses(
    points: ArrayLike,
    center_of_mass: ArrayLike,
    merge_deg: float = 5.0,
    min_probability: float = 0.02,
    max_poses: int = 12,
) -> StablePoses:
    """Of the hull of (N, 3) `points` with the given centre of mass (3,), object frame, metres.

    A face of the hull is hit first with the share of directions that it covers as seen from the
    centre of mass (Goldberg et al. 1999, quasi-static toss). Where the centre is not over the
    face, the object topples over the edge it is farthest beyond, and so on: the centre only ever
    sinks, so this ends. Resting faces closer than `merge_deg` are one pose, since a scan's flat
    bottom is many facets; its representative is the likeliest of them. Poses rarer than
    `min_probability` are left out. Where they hold more than RARE of the whole (a can rolls, a
    ball has only rare poses), or there are more than `max_poses`, the angle is widened until they
    do not, so that the poses kept stand for all around.
    """
    from scipy.spatial import ConvexHull

    hull = ConvexHull(np.asarray(points, np.float64))
    com = np.asarray(center_of_mass, np.float64)
    normals = hull.equations[:, :3]
    corners = hull.points[hull.simplices]
    target = _topple(corners, normals, hull.neighbors, com)
    shares = np.abs(_solid_angles(corners - com))
    probability = np.bincount(target, shares, len(normals)) / shares.sum()
    angle = merge_deg
    while True:
        down, weights = _merge(normals, probability, np.cos(np.radians(angle)))
        keep = weights >= min_probability
        if weights[~keep].sum() <= RARE and keep.sum() <= max_poses:
            break
        if angle >= WIDEST_DEG:
            keep = np.arange(len(weights)) < max_poses
            break
        angle = min(angle * WIDENING, WIDEST_DEG)
    down, weights = down[keep], weights[keep]
    vertices = hull.points[hull.vertices]
    poses = np.stack([_rest(vertices, com, direction) for direction in down])
    return StablePoses(poses=poses, probabilities=weights / weights.sum())


def _topple(
    corners: Float, normals: Float, neighbours: NDArray[np.intp], com: Float
) -> NDArray[np.intp]:
    """(F,) the face on which an object put down on each face comes to rest."""
    height = np.einsum("ij,ij->i", corners[:, 0] - com, normals)
    foot = com + height[:, None] * normals  # the centre of mass projected on each face
    inside = np.empty((len(corners), 3))
    for k in range(3):  # edge opposite to corner k, which neighbour k shares
        a, b, c = corners[:, (k + 1) % 3], corners[:, (k + 2) % 3], corners[:, k]
        along = b - a
        inward = np.cross(normals, along)
        inward *= np.sign(np.einsum("ij,ij->i", inward, c - a))[:, None]
        length = np.linalg.norm(inward, axis=1)
        inside[:, k] = np.einsum("ij,ij->i", foot - a, inward) / np.maximum(length, 1e-30)
    worst = inside.argmin(axis=1)
    rows = np.arange(len(corners))
    following = np.where(inside[rows, worst] < 0, neighbours[rows, worst], rows)
    # Rounding may send coplanar faces to each other; only a lower centre of mass goes on.
    following = np.where((height[following] < height) | (following == rows), following, rows)
    for _ in range(len(rows)):
        further = following[following]
        if np.array_equal(further, following):
            break
        following = further
    return following


def _solid_angles(corners: Float) -> Float:
    """(F,) of triangles (F, 3, 3) seen from the origin (van Oosterom and Strackee 1983)."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    la, lb, lc = (np.linalg.norm(p, axis=1) for p in (a, b, c))
    numerator = np.einsum("ij,ij->i", a, np.cross(b, c))
    denominator = (
        la * lb * lc
        + np.einsum("ij,ij->i", a, b) * lc
        + np.einsum("ij,ij->i", b, c) * la
        + np.einsum("ij,ij->i", c, a) * lb
    )
    return 2 * np.arctan2(numerator, denominator)


def _merge(normals: Float, probability: Float, cosine: float) -> tuple[Float, Float]:
    """Directions and summed probabilities of groups around the likeliest, falling."""
    candidates = np.flatnonzero(probability > 0)
    # equal within rounding counts as equal, so that a cube's poses do not depend on the platform
    ranks = np.round(probability[candidates], 9)
    order = candidates[np.lexsort((*np.round(normals[candidates], 6).T, -ranks))]
    down: list[Float] = []
    weights: list[float] = []
    taken = np.zeros(len(order), bool)
    for i, face in enumerate(order):
        if taken[i]:
            continue
        group = ~taken & (normals[order] @ normals[face] >= cosine)
        group[i] = True
        taken |= group
        down.append(normals[face])
        weights.append(float(probability[order[group]].sum()))
    w = np.array(weights)
    by_weight = np.argsort(-np.round(w, 9), kind="stable")
    return np.array(down)[by_weight], w[by_weight]


def _rest(vertices: Float, com: Float, direction: Float) -> Float:
    """(7,) pose that turns `direction` (object frame) to -z by the smallest rotation."""
    R = _rotation_to_down(direction)
    turned = vertices @ R.T
    centre = R @ com
    T = np.eye(4)
    T[:3, :3] = R
    T[:3, 3] = [-centre[0], -centre[1], -turned[:, 2].min()]
    return matrix_to_pose(T)


def _rotation_to_down(direction: Float) -> Float:
    """(3, 3) rotation that takes the unit vector `direction` to (0, 0, -1)."""
    d = direction / np.linalg.norm(direction)
    cosine = -float(d[2])
    if cosine < -1 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])  # half a turn: any horizontal axis will do, x is taken
    axis = np.cross(d, [0.0, 0.0, -1.0])
    K = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + K + K @ K / (1 + cosine)
