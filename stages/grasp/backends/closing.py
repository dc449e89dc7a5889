"""Closing a hand on a fixed object until contact, with MuJoCo's kinematics and collision.

No dynamics: the joints move from the pregrasp towards the closed shape in small steps, and a joint
stops for good once a body that it moves touches the object or another finger. Joints that are
coupled stop together, once each of the fingers that they move has touched: a jaw on one screw
pushes the object until both pads are on it. The result does not depend on gains or masses, and
costs one collision pass a step.
"""

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.records import ObjectAsset
from stages.assets.hands.errors import HandError
from stages.assets.hands.spec import HandSpec
from stages.envs.config import PhysicsConfig
from stages.envs.mujoco.grasp_model import GraspModel, build_grasp_model
from stages.envs.mujoco.hand_index import is_below, joint_limits, set_hand_qpos
from stages.envs.mujoco.ik import TOLERANCE

Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Touch:
    """Hand-object contacts of one pose."""

    depth: float  # m, deepest penetration; 0 without contact
    fingers: frozenset[int]  # that touch, by index in HandSpec.finger_prefixes
    normals: Float  # (n, 3) from the object outwards, world


class HandCloser:
    """One hand and one object; poses are in the world in which `place_object` put the object."""

    def __init__(self, hand: HandSpec, asset: ObjectAsset) -> None:
        self.hand = hand
        self._m = build_grasp_model(hand, asset, PhysicsConfig())
        model, index = self._m.model, self._m.index
        self.joint_range: Float = joint_limits(model, index)
        moves = _moved_bodies(self._m)
        # One a group of coupled joints: those joints, and the bodies of each finger they move.
        self._groups = [
            (members, _by_finger(moves[members].any(axis=0), index.finger_of_body, members))
            for members in (index.coupled == c for c in np.unique(index.coupled))
        ]
        self._closing = ~np.isin(hand.joint_names, hand.ik_joints)
        # The base of a rig stands on the table; what can move must stay clear of it.
        fixed = ~moves.any(axis=0) if self._m.arm is not None else np.zeros(model.nbody, bool)
        self._lowest_of = [g for g in index.geoms if not fixed[model.geom_bodyid[g]]]

    def place_object(self, pose: ArrayLike) -> None:
        """`pose` (7,) world <- object."""
        a = self._m.object_qpos
        self._m.data.qpos[a : a + 7] = pose

    def touch(self, qpos: Float) -> Touch:
        """Contacts with the hand at `qpos` (7 + J,)."""
        self._update(qpos)
        return self._touch()

    def lowest(self, qpos: Float) -> float:
        """Lowest z (m, world) of the hand's collision shapes at `qpos`."""
        self._update(qpos)
        return min(_lowest(self._m.model, self._m.data, g) for g in self._lowest_of)

    def placed(self, qpos: Float) -> Float:
        """(7,) world, the root of a floating hand or the lift_body of a rig at `qpos`."""
        self._update(qpos)
        return self._m.body_pose(self._m.index.carrier)

    def reach(self, qpos: Float, target: Float) -> Float | None:
        """`qpos` (7 + J,) with the arm of a rig moved until `lift_body` is at `target` (7,).

        None when that is out of reach.
        """
        if self._m.arm is None:
            raise HandError(f"hand {self.hand.name!r} has no arm; only a rig (mocap: false) has")
        reached, error = self._m.arm.reach(qpos, target)
        return reached if error <= 10 * TOLERANCE else None

    def close(self, pregrasp: Float, steps: int) -> tuple[Float, Touch]:
        """The hand (7 + J,) when every joint has touched or closed, and what it touches."""
        start = pregrasp[7:]
        closed = np.clip(self.hand.closed_qpos, *self.joint_range.T)
        qpos = pregrasp.copy()
        stopped = ~self._closing
        touched = np.zeros(self._m.model.nbody, bool)
        for step in range(1, steps + 1):
            target = start + (closed - start) * (step / steps)
            qpos[7:] = np.where(stopped, qpos[7:], target)
            self._update(qpos)
            touched[list(self._touching_bodies())] = True
            for members, fingers in self._groups:
                if all((touched & bodies).any() for bodies in fingers):
                    stopped |= members
            if stopped.all():
                break
        return qpos, self._touch()

    def _update(self, qpos: Float) -> None:
        m = self._m
        set_hand_qpos(m.data, m.index, qpos, drive=False)
        mujoco.mj_kinematics(m.model, m.data)
        mujoco.mj_comPos(m.model, m.data)
        mujoco.mj_collision(m.model, m.data)

    def _contacts(self) -> tuple[NDArray[np.int32], Float, Float]:
        """(n, 2) geoms, (n,) distances, (n, 3) normals from the first geom to the second."""
        contact = self._m.data.contact
        return contact.geom, contact.dist, contact.frame[:, :3]

    def _touching_bodies(self) -> set[int]:
        geoms, dist, _ = self._contacts()
        hand = self._m.hand_geoms[geoms] & (dist <= 0)[:, None]
        return set(self._m.model.geom_bodyid[geoms[hand]].tolist())

    def _touch(self) -> Touch:
        geoms, dist, normals = self._contacts()
        m = self._m
        mine = (dist <= 0) & m.hand_geoms[geoms].any(axis=1) & m.is_object[geoms].any(axis=1)
        geoms, dist, normals = geoms[mine], dist[mine], normals[mine]
        object_first = m.is_object[geoms[:, 0]]
        bodies = m.model.geom_bodyid[np.where(object_first, geoms[:, 1], geoms[:, 0])]
        fingers = set(m.index.finger_of_body[bodies].tolist())
        return Touch(
            depth=float(-dist.min()) if len(dist) else 0.0,
            fingers=frozenset(f for f in fingers if f >= 0),
            normals=np.where(object_first[:, None], normals, -normals),
        )


def _moved_bodies(m: GraspModel) -> NDArray[np.bool_]:
    """(J, nbody) which bodies each joint moves, by itself or through joints that follow it."""
    model, index = m.model, m.index
    joint_at = {int(address): joint for joint, address in enumerate(model.jnt_qposadr)}
    driven = {int(joint): [int(joint)] for joint in index.joint_ids}
    for address, master in zip(index.followers.qpos, index.followers.master_qpos, strict=True):
        for joints in driven.values():
            if joint_at.get(int(master)) in joints:
                joints.append(joint_at[int(address)])
    return np.array(
        [
            [
                any(is_below(model, body, int(model.jnt_bodyid[j])) for j in driven[int(joint)])
                for body in range(model.nbody)
            ]
            for joint in index.joint_ids
        ]
    )


def _by_finger(
    moved: NDArray[np.bool_], finger_of_body: NDArray[np.int64], members: NDArray[np.bool_]
) -> list[NDArray[np.bool_]]:
    """The `moved` bodies (nbody,), split by finger when several joints move them together."""
    if members.sum() == 1:
        return [moved]
    fingers = np.unique(finger_of_body[moved])
    named = [moved & (finger_of_body == finger) for finger in fingers if finger >= 0]
    return named or [moved]


def _lowest(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> float:
    """Lowest z of a geom: exact for boxes, spheres and meshes, its bounding sphere otherwise."""
    centre, up = float(data.geom_xpos[geom, 2]), data.geom_xmat[geom].reshape(3, 3)[2]
    kind = model.geom_type[geom]
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return centre - float(np.abs(up) @ model.geom_size[geom])
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        return centre + float((model.mesh_vert[first : first + count] @ up).min())
    return centre - float(model.geom_rbound[geom])
