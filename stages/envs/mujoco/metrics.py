"""Contact counts, penetration and fingertip distances of the current state."""

import mujoco
import numpy as np

from stages.envs.mujoco.grasp_model import GraspModel

TIP_DISTANCE_LIMIT = 0.2  # m; a tip farther away counts as this far


def count_contacts(grasp: GraspModel) -> int:
    """Contacts between the object and the hand's contact bodies."""
    if grasp.data.ncon == 0:
        return 0
    a, b = grasp.data.contact.geom.T
    touching = grasp.data.contact.dist <= 0
    pairs = (grasp.is_object[a] & grasp.contact_geoms[b]) | (
        grasp.is_object[b] & grasp.contact_geoms[a]
    )
    return int((pairs & touching).sum())


def penetrations(grasp: GraspModel) -> tuple[float, float]:
    """(hand-object, hand-hand) deepest penetration, metres, >= 0."""
    if grasp.data.ncon == 0:
        return 0.0, 0.0
    a, b = grasp.data.contact.geom.T
    depth = np.maximum(-grasp.data.contact.dist, 0.0)
    hand_a, hand_b = grasp.hand_geoms[a], grasp.hand_geoms[b]
    with_object = (hand_a & grasp.is_object[b]) | (hand_b & grasp.is_object[a])
    with_itself = hand_a & hand_b
    return (
        float(depth[with_object].max(initial=0.0)),
        float(depth[with_itself].max(initial=0.0)),
    )


def tip_distances(grasp: GraspModel) -> np.ndarray:
    """(T,) m: distance of each fingertip body to the object's pieces, 0 when touching."""
    out: list[float] = []
    for tip in grasp.index.tip_bodies:
        geoms = np.flatnonzero((grasp.model.geom_bodyid == tip) & grasp.hand_geoms)
        distances = [
            mujoco.mj_geomDistance(
                grasp.model, grasp.data, int(g), int(o), TIP_DISTANCE_LIMIT, None
            )
            for g in geoms
            for o in grasp.object_geoms
        ]
        if distances:
            out.append(max(0.0, min(distances)))
    return np.array(out)
