"""Contact counts, penetration, finger distances and analytic quality of a hand at an object."""

from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from stages.envs.config import MetricsConfig
from stages.envs.grasp_quality import GraspQuality, grasp_quality
from stages.envs.mujoco.grasp_model import GraspModel

Float = NDArray[np.float64]


def count_contacts(grasp: GraspModel) -> int:
    """Contacts between the object and the hand's contact bodies."""
    bodies, distances, _, _ = _contacts_with_object(grasp)
    return int((grasp.is_contact_body[bodies] & (distances <= 0)).sum())


def penetration(grasp: GraspModel) -> float:
    """Deepest penetration of hand and object, metres, >= 0."""
    _, distances, _, _ = _contacts_with_object(grasp)
    return float(np.maximum(-distances, 0.0).max(initial=0.0))


def grasp_metrics(grasp: GraspModel, config: MetricsConfig) -> dict[str, Any]:
    """Fields of GraspResult that describe the present pose, as `mj_forward` left it.

    Distances of fingers are those of their nearest body, negative inside the object, and
    `contact_margin` where none is nearer: contact_distance is the mean of their positive parts,
    contact_consistency the largest minus the smallest (DexGraspBench).
    """
    touching = count_contacts(grasp)
    contact = grasp.data.contact
    a, b = contact.geom.reshape(-1, 2).T
    itself = contact.dist[grasp.hand_geoms[a] & grasp.hand_geoms[b]]
    bodies, distances, _, _ = _contacts_within(grasp, config.contact_margin)
    fingers = np.full(len(grasp.hand.finger_prefixes), config.contact_margin)
    of_finger = grasp.index.finger_of_body[bodies]
    on_finger = of_finger >= 0
    np.minimum.at(fingers, of_finger[on_finger], distances[on_finger])
    near = (np.abs(distances) < config.contact_threshold) & grasp.is_contact_body[bodies]
    quality = GraspQuality()
    if config.analytic:
        used = grasp.is_tip_body if config.tips_only else grasp.is_contact_body
        sliding, torsion = np.asarray(grasp.physics.friction[:2]) * config.friction_share
        quality = grasp_quality(
            *body_contacts(grasp, used, config.analytic_threshold), sliding, torsion
        )
    return {
        "contacts_grasp": touching,
        "hand_object_penetration": float(np.maximum(-distances, 0.0).max(initial=0.0)),
        "self_penetration": float(np.maximum(-itself, 0.0).max(initial=0.0)),
        "contact_number": len(np.unique(bodies[near])),
        "contact_distance": float(np.maximum(fingers, 0.0).mean()),
        "contact_consistency": float(np.ptp(fingers)),
        "quality": quality,
    }


def _contacts_with_object(grasp: GraspModel) -> tuple[NDArray[np.int64], Float, Float, Float]:
    """Hand-object contacts: hand body (n,), distance (n,) m, point (n, 3), normal (n, 3).

    World frame; normals point from the hand into the object.
    """
    contact = grasp.data.contact
    geoms = contact.geom.reshape(-1, 2)
    object_first = grasp.is_object[geoms[:, 0]]
    hand = np.where(object_first, geoms[:, 1], geoms[:, 0])
    mine = (object_first | grasp.is_object[geoms[:, 1]]) & grasp.hand_geoms[hand]
    normals = contact.frame.reshape(-1, 9)[:, :3] * np.where(object_first, -1.0, 1.0)[:, None]
    bodies = grasp.model.geom_bodyid[hand[mine]].astype(np.int64)
    return bodies, contact.dist[mine], contact.pos.reshape(-1, 3)[mine], normals[mine]


def _contacts_within(
    grasp: GraspModel, margin: float
) -> tuple[NDArray[np.int64], Float, Float, Float]:
    """`_contacts_with_object` up to `margin` m apart, at the present kinematics."""
    model = grasp.model
    model.geom_margin[grasp.object_geoms] = model.geom_gap[grasp.object_geoms] = margin
    try:
        mujoco.mj_collision(model, grasp.data)
        return _contacts_with_object(grasp)
    finally:
        model.geom_margin[grasp.object_geoms] = model.geom_gap[grasp.object_geoms] = 0.0


def body_contacts(
    grasp: GraspModel, wanted: NDArray[np.bool_], margin: float
) -> tuple[Float, Float]:
    """Mean point and mean unit normal of each `wanted` (nbody,) body's contacts, (B, 3) each."""
    bodies, distances, points, normals = _contacts_within(grasp, margin)
    used = wanted[bodies] & (np.abs(distances) < margin)
    bodies, points, normals = bodies[used], points[used], normals[used]
    names, which = np.unique(bodies, return_inverse=True)
    count = np.bincount(which, minlength=len(names))[:, None]
    means = [np.zeros((len(names), 3)) for _ in range(2)]
    for mean, values in zip(means, (points, normals), strict=True):
        np.add.at(mean, which, values)
        mean /= count
    length = np.linalg.norm(means[1], axis=1, keepdims=True)
    sound = length[:, 0] > 1e-9  # normals that cancel say nothing
    return means[0][sound], means[1][sound] / length[sound]
