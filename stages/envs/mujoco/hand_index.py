"""Where a hand is in a compiled model, and how it is put somewhere or driven there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from stages.assets.hands.errors import HandError
from stages.assets.hands.spec import HandSpec
from stages.envs.mujoco.urdf import ROOT_JOINT

Float = NDArray[np.float64]
Int = NDArray[np.int64]
MOCAP_BODY = "hand_mocap"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Followers:
    """Joints that are not in joint_names but follow one that is, such as URDF's `mimic`.

    qpos = start + polynomial(master's qpos - its start), as MuJoCo's joint equality has it. All
    in the order in which they can be computed, a follower of a follower after it.
    """

    qpos: Int  # (M,) addresses
    dof: Int  # (M,)
    master_qpos: Int  # (M,) address of the joint it follows; -1 when it stays where it is
    starts: Float  # (M, 2) rad or m: of the follower and of its master
    coefficients: Float  # (M, 5) of degree 0 to 4


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HandIndex:
    """Addresses of a hand in a compiled model. All arrays are int unless said otherwise."""

    root_qpos: int  # first of the seven numbers of the root pose; -1 without a floating root
    root_dof: int
    joint_ids: Int  # (J,) in control order
    joint_qpos: Int  # (J,)
    joint_dof: Int  # (J,)
    followers: Followers
    coupled: Int  # (J,) joints with one number move as one: a linkage, a jaw on one screw
    actuators: Int  # (A,); A = J, but for tendons that couple joints
    transmission: Float  # (A, J): ctrl = transmission @ joint targets + ctrl_offset
    ctrl_offset: Float  # (A,)
    mocap: int  # row in mocap_pos, mocap_quat, of what leads the root; of the base of a rig
    bodies: Int  # the root and everything below
    carrier: int  # body that a lift moves: the root, or lift_body of a rig
    contact_bodies: Int
    tip_bodies: Int
    geoms: Int  # colliding geoms of the hand
    finger_of_body: Int  # (nbody,) index in finger_prefixes; -1 palm or not the hand


def hand_index(spec: HandSpec, model: mujoco.MjModel) -> HandIndex:
    """Addresses of `spec`'s joints, actuators, bodies and geoms in `model`."""

    def ids(kind: mujoco.mjtObj, names: Sequence[str]) -> Int:
        return np.array([mujoco.mj_name2id(model, kind, name) for name in names], np.int64)

    joints = ids(mujoco.mjtObj.mjOBJ_JOINT, spec.joint_names)
    root = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, spec.root_body)
    mocap_body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, MOCAP_BODY)
    carrier = root if spec.mocap else model.body(spec.lift_body).id
    if not spec.mocap:
        mocap_body = root
    bodies = [b for b in range(model.nbody) if is_below(model, b, root)]
    geoms = [
        g for g in range(model.ngeom) if model.geom_bodyid[g] in bodies and model.geom_contype[g]
    ]
    free = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, ROOT_JOINT)
    actuators, transmission, ctrl_offset = _actuators(model, joints)
    return HandIndex(
        root_qpos=int(model.jnt_qposadr[free]) if free >= 0 else -1,
        root_dof=int(model.jnt_dofadr[free]) if free >= 0 else -1,
        joint_ids=joints,
        joint_qpos=np.asarray(model.jnt_qposadr[joints], np.int64),
        joint_dof=np.asarray(model.jnt_dofadr[joints], np.int64),
        followers=_followers(model, joints),
        coupled=_coupled(model, joints),
        actuators=actuators,
        transmission=transmission,
        ctrl_offset=ctrl_offset,
        mocap=int(model.body_mocapid[mocap_body]) if mocap_body >= 0 else -1,
        bodies=np.array(bodies, np.int64),
        carrier=carrier,
        contact_bodies=ids(mujoco.mjtObj.mjOBJ_BODY, spec.contact_bodies),
        tip_bodies=ids(mujoco.mjtObj.mjOBJ_BODY, spec.tip_bodies),
        geoms=np.array(geoms, np.int64),
        finger_of_body=_fingers(spec, model, bodies),
    )


def joint_limits(model: mujoco.MjModel, index: HandIndex) -> Float:
    """(J, 2) lowest and highest position of each joint, rad or m; infinite without a limit."""
    limited = model.jnt_limited[index.joint_ids, None] == 1
    return np.where(limited, model.jnt_range[index.joint_ids], [-np.inf, np.inf])


def is_below(model: mujoco.MjModel, body: int, root: int) -> bool:
    """Whether `body` is `root` or hangs on it."""
    while body > 0 and body != root:
        body = int(model.body_parentid[body])
    return body == root


def set_hand_qpos(
    data: mujoco.MjData, index: HandIndex, qpos: Float, *, drive: bool = True
) -> None:
    """Put the hand at `qpos` (7 + J: root xyz m, wxyz, joints) at rest, followers included.

    With `drive`, the mocap body and the actuators aim at the same place.
    """
    a = index.root_qpos
    if a >= 0:
        data.qpos[a : a + 7] = qpos[:7]
        data.qvel[index.root_dof : index.root_dof + 6] = 0.0
    else:
        _set_mocap(data, index, qpos)
    data.qpos[index.joint_qpos] = qpos[7:]
    data.qvel[index.joint_dof] = 0.0
    f = index.followers
    for i, address in enumerate(f.qpos):
        start, master_start = f.starts[i]
        x = data.qpos[f.master_qpos[i]] - master_start if f.master_qpos[i] >= 0 else 0.0
        data.qpos[address] = start + np.polynomial.polynomial.polyval(x, f.coefficients[i])
    data.qvel[f.dof] = 0.0
    if drive:
        drive_hand(data, index, qpos)


def drive_hand(data: mujoco.MjData, index: HandIndex, qpos: Float) -> None:
    """Aim the mocap root and the position actuators at `qpos` (7 + J,)."""
    _set_mocap(data, index, qpos)
    data.ctrl[index.actuators] = index.transmission @ qpos[7:] + index.ctrl_offset


def _set_mocap(data: mujoco.MjData, index: HandIndex, qpos: Float) -> None:
    if index.mocap >= 0:
        data.mocap_pos[index.mocap] = qpos[:3]
        data.mocap_quat[index.mocap] = qpos[3:7]


def _fingers(spec: HandSpec, model: mujoco.MjModel, bodies: Sequence[int]) -> Int:
    """(nbody,) the finger whose prefixes a body's name has, -1 where none."""
    out = np.full(model.nbody, -1, np.int64)
    for body in bodies:
        name = model.body(body).name
        for finger, prefixes in enumerate(spec.finger_prefixes):
            if name.startswith(tuple(prefixes.split("|"))):
                out[body] = finger
                break
    return out


def _actuators(model: mujoco.MjModel, joints: Int) -> tuple[Int, Float, Float]:
    """Actuators that move `joints` (J,): (A,), and ctrl = (A, J) @ joint targets + (A,).

    An actuator with gain g and affine bias b0 + b1 * length is at rest where
    g * ctrl + b0 + b1 * length = 0, so ctrl = -(b1 * length + b0) / g. A `position` actuator has
    g = -b1 = kp and takes the length itself; a gripper's may count from 0 to 255.
    """
    column = {int(joint): j for j, joint in enumerate(joints)}
    found: list[int] = []
    rows: list[Float] = []
    offsets: list[float] = []
    for actuator in range(model.nu):
        target, row = int(model.actuator_trnid[actuator, 0]), np.zeros(len(joints))
        kind = model.actuator_trntype[actuator]
        if kind == mujoco.mjtTrn.mjTRN_TENDON:
            first = model.tendon_adr[target]
            for wrap in range(first, first + model.tendon_num[target]):
                if int(model.wrap_objid[wrap]) in column:
                    row[column[int(model.wrap_objid[wrap])]] = model.wrap_prm[wrap]
        elif kind == mujoco.mjtTrn.mjTRN_JOINT and target in column:
            row[column[target]] = 1.0
        if not row.any():
            continue
        gain = model.actuator_gainprm[actuator, 0]
        b0, b1 = model.actuator_biasprm[actuator, :2]
        affine = model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_AFFINE
        if not affine or gain == 0 or b1 >= 0:
            raise HandError(
                f"actuator {model.actuator(actuator).name!r} is no position servo: expected an "
                f"affine bias with a negative stiffness, got gain {gain}, bias {b0}, {b1}; set "
                "native_dynamics: false and give kp, damping and force_limits"
            )
        found.append(actuator)
        rows.append(row * model.actuator_gear[actuator, 0] * (-b1 / gain))
        offsets.append(-b0 / gain)
    order = np.argsort([int(np.flatnonzero(row)[0]) for row in rows], kind="stable")
    matrix = np.array(rows).reshape(-1, len(joints))
    return np.array(found, np.int64)[order], matrix[order], np.array(offsets, np.float64)[order]


def _equalities(model: mujoco.MjModel, kind: mujoco.mjtEq) -> Iterator[int]:
    for i in np.flatnonzero(model.eq_type == kind):
        if model.eq_active0[i]:
            yield int(i)


def _followers(model: mujoco.MjModel, joints: Int) -> Followers:
    known = set(joints.tolist())
    waiting = {}
    for i in _equalities(model, mujoco.mjtEq.mjEQ_JOINT):
        follower, master = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
        if follower not in known:
            waiting[follower] = (master, model.eq_data[i, :5])
    rows: list[tuple[int, int, Float]] = []
    while ready := [f for f, (master, _) in waiting.items() if master < 0 or master in known]:
        for follower in ready:
            rows.append((follower, *waiting.pop(follower)))
            known.add(follower)
    ids = np.array([row[0] for row in rows], np.int64)
    masters = np.array([row[1] for row in rows], np.int64)
    start = model.qpos0[model.jnt_qposadr]
    return Followers(
        qpos=np.asarray(model.jnt_qposadr[ids], np.int64),
        dof=np.asarray(model.jnt_dofadr[ids], np.int64),
        master_qpos=np.where(masters < 0, -1, model.jnt_qposadr[masters]).astype(np.int64),
        starts=np.stack([start[ids], np.where(masters < 0, 0.0, start[masters])], axis=1),
        coefficients=np.array([row[2] for row in rows], np.float64).reshape(-1, 5),
    )


def _coupled(model: mujoco.MjModel, joints: Int) -> Int:
    """(J,) the smallest column of the joints that equalities tie together; a tendon ties none."""
    parent = list(range(model.njnt))

    def top(joint: int) -> int:
        while parent[joint] != joint:
            joint = parent[joint]
        return joint

    def tie(tied: Sequence[int]) -> None:
        for joint in tied[1:]:
            parent[top(joint)] = top(tied[0])

    single = (mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE)
    single_joints = set(np.flatnonzero(np.isin(model.jnt_type, [int(k) for k in single])).tolist())
    for i in _equalities(model, mujoco.mjtEq.mjEQ_JOINT):
        if model.eq_obj2id[i] >= 0:
            tie([int(model.eq_obj1id[i]), int(model.eq_obj2id[i])])
    for i in _equalities(model, mujoco.mjtEq.mjEQ_CONNECT):
        if model.eq_objtype[i] == mujoco.mjtObj.mjOBJ_BODY:
            a, b = (_chain(model, int(o[i])) for o in (model.eq_obj1id, model.eq_obj2id))
            # the joints of the loop: not those that both bodies hang on
            tie(sorted((a ^ b) & single_joints))
    tops = [top(int(joint)) for joint in joints]
    return np.array([tops.index(t) for t in tops], np.int64)


def _chain(model: mujoco.MjModel, body: int) -> set[int]:
    """Joints between the world and `body`."""
    out: set[int] = set()
    while body > 0:
        first = int(model.body_jntadr[body])
        out.update(range(first, first + int(model.body_jntnum[body])))
        body = int(model.body_parentid[body])
    return out
