"""A hand as a MuJoCo model: floating root on a mocap weld, position actuators, collision bits."""

from pathlib import Path

import mujoco
import numpy as np

from stages.assets.hands.errors import HandError
from stages.assets.hands.models import resolve_model
from stages.assets.hands.spec import HandSpec
from stages.envs.mujoco.collision import HAND_CONAFFINITY, HAND_CONTYPE, HAND_GROUP
from stages.envs.mujoco.hand_index import MOCAP_BODY, hand_index, set_hand_qpos
from stages.envs.mujoco.quiet import no_warnings
from stages.envs.mujoco.urdf import ROOT_JOINT, prepare_urdf

ROOT_WELD = "hand_weld"
WELD_SOLREF = (0.01, 1.0)  # s, damping ratio; at least 2 steps of 4 ms, MuJoCo's own lower bound
WELD_SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)


def hand_mjspec(spec: HandSpec) -> mujoco.MjSpec:
    """The hand as an editable MjSpec; names of bodies and joints stay those of its file.

    What the file holds besides the root body and what hangs on it is dropped, and with it the
    actuators, tendons, equalities and contact exclusions that name it.
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


def _load(spec: HandSpec) -> mujoco.MjSpec:
    path = resolve_model(spec.model)
    if path.suffix.lower() == ".urdf":
        urdf = prepare_urdf(path, spec.root_body, floating=spec.mocap)
        return mujoco.MjSpec.from_string(urdf.xml, assets=urdf.assets)
    model = mujoco.MjSpec.from_file(str(path))
    for key in list(model.keys):
        model.delete(key)
    model = _keep_subtree(spec, model)
    if not spec.native_dynamics:
        for actuator in list(model.actuators):  # ours replace them: kp and limits are known
            model.delete(actuator)
    if spec.mocap:
        model.body(spec.root_body).add_freejoint(name=ROOT_JOINT)
    return model


def _keep_subtree(spec: HandSpec, model: mujoco.MjSpec) -> mujoco.MjSpec:
    """The root body with what hangs on it, at top level; its own joints go, for it will float."""
    root = model.body(spec.root_body)
    if root is None:
        names = ", ".join(body.name for body in model.bodies if body.name != "world")
        raise HandError(
            f"hand {spec.name!r}: no body {spec.root_body!r} in {spec.model}; bodies: {names}"
        )
    if spec.mocap:
        for joint in list(root.joints):
            model.delete(joint)
    top = model.worldbody
    if root.parent.name == "world" and len(top.bodies) == 1 and not list(top.geoms):
        return model
    kept = mujoco.MjSpec()
    kept.option.cone, kept.option.impratio = model.option.cone, model.option.impratio
    kept.option.integrator = model.option.integrator
    # MuJoCo warns that names without a prefix may not be saved to XML, which nobody does here; a
    # copy compiles without that warning.
    with no_warnings():
        moved = kept.worldbody.add_frame().attach_body(root, "", "")
        moved.pos, moved.quat = np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0])
        return kept.copy()


def _check_names(spec: HandSpec, model: mujoco.MjSpec) -> None:
    joints = {joint.name for joint in model.joints} - {ROOT_JOINT}
    bodies = {body.name for body in model.bodies} - {"world"}
    named = (*spec.contact_bodies, *spec.tip_bodies, *filter(None, [spec.lift_body]))
    problems = [f"joint {n!r}" for n in spec.joint_names if n not in joints]
    problems += [f"body {n!r}" for n in named if n not in bodies]
    if problems:
        raise HandError(
            f"hand {spec.name!r}: {spec.model} has no {', '.join(problems)}; "
            f"joints: {', '.join(sorted(joints))}; bodies: {', '.join(sorted(bodies))}"
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
    armature = dict(zip(spec.joint_names, spec.armatures, strict=True))
    masters = {e.name1: e.name2 for e in model.equalities if e.type == mujoco.mjtEq.mjEQ_JOINT}
    for name in masters:  # followers are as the joint that leads them
        leading = name
        for _ in masters:
            if leading not in spec.joint_names:
                leading = masters.get(leading, leading)
        armature.setdefault(name, armature.get(leading, min(spec.armatures)))
    for name, inertia in armature.items():
        joint = model.joint(name)
        joint.armature = inertia
        # All damping is the actuator's below, so that the spec says how the joint behaves.
        joint.damping[:] = 0.0
        joint.frictionloss = 0.0
    for i, name in enumerate(spec.joint_names):
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
        set_hand_qpos(data, index, np.array([0, 0, 0, 1, 0, 0, 0, *qpos]), drive=False)
        mujoco.mj_forward(compiled, data)
        for contact in data.contact:
            a, b = (compiled.body(int(compiled.geom_bodyid[g])).name for g in contact.geom)
            pairs.add((min(a, b), max(a, b)))
    for a, b in sorted(pairs):
        model.add_exclude(name=f"exclude_{a}_{b}", bodyname1=a, bodyname2=b)
