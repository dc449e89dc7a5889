"""Closing a hand on a fixed object until contact, with MuJoCo's kinematics and collision.

No dynamics: the joints move from the pregrasp towards the closed shape in small steps, and a joint
stops for good once a body that it moves touches the object or another finger. The result does not
depend on gains or masses, and costs one collision pass a step.
"""

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.records import ObjectAsset
from stages.assets.hands.spec import HandSpec
from stages.envs.config import PhysicsConfig
from stages.envs.mujoco.grasp_model import GraspModel, build_grasp_model
from stages.envs.mujoco.hand_model import set_hand_qpos

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
        model = self._m.model
        joints = _joint_ids(self._m)
        self.joint_range: Float = model.jnt_range[joints].copy()
        joint_bodies = model.jnt_bodyid[joints]
        # moves[j, b]: joint j moves body b
        self._moves = np.array(
            [[_below(model, b, jb) for b in range(model.nbody)] for jb in joint_bodies]
        )

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
        return min(_lowest(self._m.model, self._m.data, g) for g in self._m.index.geoms)

    def close(self, pregrasp: Float, steps: int) -> tuple[Float, Touch]:
        """The hand (7 + J,) when every joint has touched or closed, and what it touches."""
        start = pregrasp[7:]
        closed = np.clip(self.hand.closed_qpos, *self.joint_range.T)
        qpos = pregrasp.copy()
        stopped = np.zeros(len(start), bool)
        for step in range(1, steps + 1):
            target = start + (closed - start) * (step / steps)
            qpos[7:] = np.where(stopped, qpos[7:], target)
            self._update(qpos)
            for body in self._touching_bodies():
                stopped |= self._moves[:, body]
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


def _joint_ids(m: GraspModel) -> NDArray[np.int64]:
    """(J,) MuJoCo's joint of each hand joint, control order."""
    addresses = m.model.jnt_qposadr
    return np.array([int(np.flatnonzero(addresses == a)[0]) for a in m.index.joint_qpos])


def _below(model: mujoco.MjModel, body: int, ancestor: int) -> bool:
    while body > 0:
        if body == ancestor:
            return True
        body = int(model.body_parentid[body])
    return False


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
