"""A hand as a MuJoCo model: floating root on a mocap weld, position actuators, collision bits."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from stages.assets.hands.errors import HandError
from stages.assets.hands.models import resolve_model
from stages.assets.hands.spec import HandSpec
from stages.envs.mujoco.collision import HAND_CONAFFINITY, HAND_CONTYPE, HAND_GROUP
from stages.envs.mujoco.urdf import ROOT_JOINT, prepare_urdf

MOCAP_BODY = "hand_mocap"
ROOT_WELD = "hand_weld"
WELD_SOLREF = (0.01, 1.0)  # s, damping ratio; at least 2 steps of 4 ms, MuJoCo's own lower bound
WELD_SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)


def hand_mjspec(spec: HandSpec) -> mujoco.MjSpec:
    """The hand as an editable MjSpec; names of bodies and joints stay those of its file.

    The root body has a free joint (first seven qpos: xyz + wxyz, world) and is welded to the
    mocap body `hand_mocap`. A root that is a mocap body itself would be simpler, but has no
    velocity: friction, which acts on velocity, would then not carry an object upwards in a lift.
    The root of a rig (`mocap: false`) stands on a fixed base: it is a mocap body itself, which
    moves only when it is put elsewhere.
    Each joint gets a position actuator named after it, in control order, with the spec's kp,
    damping and force limit; with `native_dynamics` the file's own stay, tendons included. Gravity
    does not act on the hand.
    """
    model = _load(spec)
    root = model.body(spec.root_body)
    if root is None:
        raise HandError(f"hand {spec.name!r}: no body {spec.root_body!r} in {spec.model}")
    _check_names(spec, model)
    for body in [root, *root.find_all(mujoco.mjtObj.mjOBJ_BODY)]:
        body.gravcomp = 1.0  # the hand hangs on an arm that carries it
        _set_collision(body, visual_files=Path(spec.model).suffix == ".xml")
    if not spec.native_dynamics:
        _set_joints(spec, model)
    if spec.mocap:
        _add_mocap(model, root)
    else:
        if root.parent.name != "world" or list(root.joints):
            raise HandError(
                f"hand {spec.name!r}: the root of a rig (mocap: false) must be a top body without "
                f"joints, {spec.root_body!r} is not; name the base of the arm, or set mocap: true"
            )
        root.mocap = True
    if not spec.native_dynamics:
        _exclude_resting_contacts(spec, model)
    return model


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HandIndex:
    """Addresses of a hand in a compiled model. All arrays are int."""

    root_qpos: int  # first of the seven numbers of the root pose; -1 without a floating root
    root_dof: int
    joint_qpos: NDArray[np.int64]  # (J,) in control order
    joint_dof: NDArray[np.int64]  # (J,)
    actuators: NDArray[np.int64]  # (A,); A = J, but for tendons that couple joints
    transmission: NDArray[np.float64]  # (A, J): ctrl = transmission @ joint targets
    mocap: int  # row in mocap_pos, mocap_quat, of what leads the root; of the base of a rig
    bodies: NDArray[np.int64]  # the root and everything below
    carrier: int  # body that a lift moves: the root, or lift_body of a rig
    contact_bodies: NDArray[np.int64]
    tip_bodies: NDArray[np.int64]
    geoms: NDArray[np.int64]  # colliding geoms of the hand
    finger_of_body: NDArray[np.int64]  # (nbody,) index in finger_prefixes; -1 palm or not the hand


def hand_index(spec: HandSpec, model: mujoco.MjModel) -> HandIndex:
    """Addresses of `spec`'s joints, actuators, bodies and geoms in `model`."""

    def ids(kind: mujoco.mjtObj, names: Sequence[str]) -> NDArray[np.int64]:
        return np.array([mujoco.mj_name2id(model, kind, name) for name in names], np.int64)

    joints = ids(mujoco.mjtObj.mjOBJ_JOINT, spec.joint_names)
    root = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, spec.root_body)
    mocap_body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, MOCAP_BODY)
    carrier = root if spec.mocap else model.body(spec.lift_body).id
    if not spec.mocap:
        mocap_body = root
    bodies = [b for b in range(model.nbody) if _is_below(model, b, root)]
    geoms = [
        g for g in range(model.ngeom) if model.geom_bodyid[g] in bodies and model.geom_contype[g]
    ]
    free = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, ROOT_JOINT)
    actuators, transmission = _actuators(model, joints)
    return HandIndex(
        root_qpos=int(model.jnt_qposadr[free]) if free >= 0 else -1,
        root_dof=int(model.jnt_dofadr[free]) if free >= 0 else -1,
        joint_qpos=np.asarray(model.jnt_qposadr[joints], np.int64),
        joint_dof=np.asarray(model.jnt_dofadr[joints], np.int64),
        actuators=actuators,
        transmission=transmission,
        mocap=int(model.body_mocapid[mocap_body]) if mocap_body >= 0 else -1,
        bodies=np.array(bodies, np.int64),
        carrier=carrier,
        contact_bodies=ids(mujoco.mjtObj.mjOBJ_BODY, spec.contact_bodies),
        tip_bodies=ids(mujoco.mjtObj.mjOBJ_BODY, spec.tip_bodies),
        geoms=np.array(geoms, np.int64),
        finger_of_body=_fingers(spec, model, bodies),
    )


def _fingers(spec: HandSpec, model: mujoco.MjModel, bodies: Sequence[int]) -> NDArray[np.int64]:
    """(nbody,) the finger whose prefixes a body's name has, -1 where none."""
    out = np.full(model.nbody, -1, np.int64)
    for body in bodies:
        name = model.body(body).name
        for finger, prefixes in enumerate(spec.finger_prefixes):
            if name.startswith(tuple(prefixes.split("|"))):
                out[body] = finger
                break
    return out


def _actuators(
    model: mujoco.MjModel, joints: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Actuators that move `joints` (J,), (A,), and each one's length per joint, (A, J)."""
    column = {int(joint): j for j, joint in enumerate(joints)}
    found: list[int] = []
    rows: list[NDArray[np.float64]] = []
    for actuator in range(model.nu):
        target, row = int(model.actuator_trnid[actuator, 0]), np.zeros(len(joints))
        if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_TENDON:
            first = model.tendon_adr[target]
            for wrap in range(first, first + model.tendon_num[target]):
                if int(model.wrap_objid[wrap]) in column:
                    row[column[int(model.wrap_objid[wrap])]] = model.wrap_prm[wrap]
        elif target in column:
            row[column[target]] = 1.0
        if row.any():
            found.append(actuator)
            rows.append(row)
    order = np.argsort([int(np.flatnonzero(row)[0]) for row in rows], kind="stable")
    return np.array(found, np.int64)[order], np.array(rows).reshape(-1, len(joints))[order]


def set_hand_qpos(
    data: mujoco.MjData, index: HandIndex, qpos: NDArray[np.float64], *, drive: bool = True
) -> None:
    """Put the hand at `qpos` (7 + J: root xyz m, wxyz, joints) at rest.

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
    if drive:
        drive_hand(data, index, qpos)


def drive_hand(data: mujoco.MjData, index: HandIndex, qpos: NDArray[np.float64]) -> None:
    """Aim the mocap root and the position actuators at `qpos` (7 + J,)."""
    _set_mocap(data, index, qpos)
    data.ctrl[index.actuators] = index.transmission @ qpos[7:]


def _set_mocap(data: mujoco.MjData, index: HandIndex, qpos: NDArray[np.float64]) -> None:
    if index.mocap >= 0:
        data.mocap_pos[index.mocap] = qpos[:3]
        data.mocap_quat[index.mocap] = qpos[3:7]


def _load(spec: HandSpec) -> mujoco.MjSpec:
    path = resolve_model(spec.model)
    if path.suffix.lower() == ".urdf":
        urdf = prepare_urdf(path, spec.root_body, floating=spec.mocap)
        return mujoco.MjSpec.from_string(urdf.xml, assets=urdf.assets)
    model = mujoco.MjSpec.from_file(str(path))
    if not spec.native_dynamics:
        for actuator in list(model.actuators):  # ours replace them: kp and limits are known
            model.delete(actuator)
    for key in list(model.keys):
        model.delete(key)
    if spec.mocap:
        root = model.body(spec.root_body)
        if root is not None and not any(j.type == mujoco.mjtJoint.mjJNT_FREE for j in root.joints):
            root.add_freejoint(name=ROOT_JOINT)
    return model


def _check_names(spec: HandSpec, model: mujoco.MjSpec) -> None:
    joints = {joint.name for joint in model.joints}
    bodies = {body.name for body in model.bodies}
    named = (*spec.contact_bodies, *spec.tip_bodies, *filter(None, [spec.lift_body]))
    problems = [f"joint {n!r}" for n in spec.joint_names if n not in joints]
    problems += [f"body {n!r}" for n in named if n not in bodies]
    if problems:
        raise HandError(
            f"hand {spec.name!r}: {spec.model} has no {', '.join(problems)}; "
            f"joints: {sorted(joints)}; bodies: {sorted(bodies)}"
        )


def _set_collision(body: mujoco.MjsBody, *, visual_files: bool) -> None:
    for i, geom in enumerate(list(body.geoms)):
        # In an MJCF, geoms that collide with nothing are pictures; a URDF's were dropped.
        collides = not visual_files or geom.contype or geom.conaffinity
        geom.contype = HAND_CONTYPE if collides else 0
        geom.conaffinity = HAND_CONAFFINITY if collides else 0
        if collides:
            geom.group = HAND_GROUP
        if not geom.name:
            geom.name = f"{body.name}/geom{i}"


def _set_joints(spec: HandSpec, model: mujoco.MjSpec) -> None:
    for i, name in enumerate(spec.joint_names):
        joint = model.joint(name)
        joint.armature = spec.armature
        # All damping is the actuator's below, so that the spec says how the joint behaves.
        joint.damping[:] = 0.0
        joint.frictionloss = 0.0
        actuator = model.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_position(kp=spec.kp[i], kv=spec.damping[i])
        actuator.forcelimited = 1
        actuator.forcerange = [-spec.force_limits[i], spec.force_limits[i]]


def _add_mocap(model: mujoco.MjSpec, root: mujoco.MjsBody) -> None:
    model.worldbody.add_body(name=MOCAP_BODY, mocap=True, pos=root.pos, quat=root.quat)
    weld = model.add_equality(
        name=ROOT_WELD,
        type=mujoco.mjtEq.mjEQ_WELD,
        objtype=mujoco.mjtObj.mjOBJ_BODY,
        name1=MOCAP_BODY,
        name2=root.name,
    )
    weld.data[:] = 0.0
    weld.data[6] = 1.0  # relative pose: identity
    weld.data[10] = 1.0  # torque scale, m: one radian of error counts as one metre
    weld.solref[:] = WELD_SOLREF
    weld.solimp[:] = WELD_SOLIMP


def _exclude_resting_contacts(spec: HandSpec, model: mujoco.MjSpec) -> None:
    """Bodies that overlap in the open hand do so by their coarse shapes, not by a collision."""
    compiled = model.copy().compile()
    data = mujoco.MjData(compiled)
    index = hand_index(spec, compiled)
    pairs: set[tuple[str, str]] = set()
    for qpos in (spec.open_qpos, spec.pregrasp_qpos):
        data.qpos[index.joint_qpos] = qpos
        mujoco.mj_forward(compiled, data)
        for contact in data.contact:
            a, b = (compiled.body(int(compiled.geom_bodyid[g])).name for g in contact.geom)
            pairs.add((min(a, b), max(a, b)))
    for a, b in sorted(pairs):
        model.add_exclude(name=f"exclude_{a}_{b}", bodyname1=a, bodyname2=b)


def _is_below(model: mujoco.MjModel, body: int, root: int) -> bool:
    while body > 0 and body != root:
        body = int(model.body_parentid[body])
    return body == root
