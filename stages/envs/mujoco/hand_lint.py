"""What is wrong with a hand file, said before a thousand grasps fail because of it."""

from collections.abc import Iterator

import mujoco
import numpy as np
from numpy.typing import NDArray

from schemas.frames import pose_to_matrix
from stages.assets.hands.errors import HandError
from stages.assets.hands.spec import PARALLEL_JAW, HandSpec
from stages.envs.config import PhysicsConfig
from stages.envs.mujoco.grasp_model import configure_options
from stages.envs.mujoco.hand_index import (
    HandIndex,
    drive_hand,
    hand_index,
    is_below,
    joint_limits,
    set_hand_qpos,
)
from stages.envs.mujoco.hand_model import hand_mjspec
from stages.envs.mujoco.hand_report import ERROR, WARNING, Finding, HandReport, joint_rows
from stages.envs.mujoco.quiet import no_warnings

Float = NDArray[np.float64]

LIGHTEST, HEAVIEST = 0.05, 5.0  # kg, of a hand; heavier is an arm, lighter a unit gone wrong
WIDTH_TOLERANCE = 0.1  # 1, of opening_width
SETTLE_TIME, SETTLE_ERROR, SETTLE_SPEED = 1.0, 0.05, 0.05  # s; rad or m; rad/s or m/s


def lint_hand(spec: HandSpec) -> HandReport:
    """Compile `spec` and check it. Raises HandNotFoundError when model files are missing."""
    try:
        built = hand_mjspec(spec)
        configure_options(built, PhysicsConfig())
        model = built.compile()
        index = hand_index(spec, model)
    except (HandError, ValueError) as error:  # ValueError: MuJoCo's, about the file
        finding = Finding(
            level=ERROR, what="model", expected="one that holds what the hand file names",
            got=str(error), fix="correct the names or the model",
        )  # fmt: skip
        return HandReport(findings=(finding,))
    data = mujoco.MjData(model)
    hand = [int(b) for b in index.bodies if is_below(model, int(b), index.carrier)]
    mass = float(model.body_mass[hand].sum())
    findings = (
        *_joints(spec, model, index),
        *_bodies(spec, model, index),
        *_mass(mass),
        *_geometry(spec, model, data, index),
        *_settling(spec, model, data, index),
    )
    return HandReport(
        findings=findings,
        joints=tuple(joint_rows(spec, model, index)),
        mass=mass,
        bodies=len(index.bodies),
        actuators=len(index.actuators),
    )


def _joints(spec: HandSpec, model: mujoco.MjModel, index: HandIndex) -> Iterator[Finding]:
    order = np.argsort(index.joint_ids)
    if (np.diff(order) < 0).any():
        yield Finding(
            level=WARNING, what="joint_names", expected="the order of the model",
            got=", ".join(spec.joint_names),
            fix=f"the model has {', '.join(spec.joint_names[i] for i in order)}; keep your order "
            "only if the rows you bring are in it",
        )  # fmt: skip
    low, high = joint_limits(model, index).T
    for field in ("open_qpos", "pregrasp_qpos", "closed_qpos"):
        values = np.array(getattr(spec, field))
        for i in np.flatnonzero((values < low - 1e-6) | (values > high + 1e-6)):
            yield Finding(
                level=ERROR, what=f"{field}, {spec.joint_names[i]}",
                expected=f"{low[i]:.4g} to {high[i]:.4g}, the joint's limits",
                got=f"{values[i]:.4g}", fix="stay within them, or mend the sign or the unit",
            )  # fmt: skip
    moved = index.transmission.any(axis=0)
    for i, name in enumerate(spec.joint_names):
        if not moved[index.coupled == index.coupled[i]].any():
            yield Finding(
                level=ERROR, what=f"joint {name}", expected="an actuator", got="none",
                fix="set native_dynamics: false, or add one to the model",
            )  # fmt: skip
    known = {*index.joint_dof.tolist(), *index.followers.dof.tolist()}
    for joint in range(model.njnt):
        single = model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_FREE
        if single and int(model.jnt_dofadr[joint]) not in known:
            yield Finding(
                level=WARNING, what=f"joint {model.joint(joint).name}",
                expected="to be in joint_names or to follow one that is", got="neither",
                fix="it swings freely; list it",
            )  # fmt: skip


def _bodies(spec: HandSpec, model: mujoco.MjModel, index: HandIndex) -> Iterator[Finding]:
    solid = set(model.geom_bodyid[index.geoms].tolist())
    for field, bodies in (
        ("contact_bodies", index.contact_bodies),
        ("tip_bodies", index.tip_bodies),
    ):
        for body in bodies.tolist():
            if body not in solid:
                yield Finding(
                    level=ERROR, what=f"{field}, {model.body(body).name}",
                    expected="a body with a shape that collides", got="none",
                    fix="name the body that holds the shape, or give it one",
                )  # fmt: skip
    names = [model.body(int(body)).name for body in index.bodies]
    fingers = [tuple(prefixes.split("|")) for prefixes in spec.finger_prefixes]
    for finger, prefixes in zip(spec.finger_prefixes, fingers, strict=True):
        if not any(name.startswith(prefixes) for name in names):
            yield Finding(
                level=ERROR, what=f"finger_prefixes, {finger}",
                expected="the beginning of some body's name", got="none of that name",
                fix=f"the bodies are {', '.join(names)}",
            )  # fmt: skip
    for name in spec.contact_bodies:
        mine = [f for f, p in zip(spec.finger_prefixes, fingers, strict=True) if name.startswith(p)]
        if len(mine) > 1:
            yield Finding(
                level=ERROR, what=f"finger_prefixes, {name}", expected="one finger at most",
                got=", ".join(mine), fix="make the prefixes longer",
            )  # fmt: skip
    owner: dict[int, str] = {}
    for name, body in zip(spec.tip_bodies, index.tip_bodies.tolist(), strict=True):
        finger = int(index.finger_of_body[body])
        if finger < 0 or finger in owner:
            yield Finding(
                level=ERROR, what=f"tip_bodies, {name}", expected="one tip a finger",
                got=f"{owner[finger]} is of that finger too" if finger in owner else "no finger",
                fix="correct finger_prefixes or tip_bodies",
            )  # fmt: skip
        owner[finger] = name


def _mass(mass: float) -> Iterator[Finding]:
    if not LIGHTEST <= mass <= HEAVIEST:
        yield Finding(
            level=WARNING, what="mass of the hand", expected=f"{LIGHTEST} to {HEAVIEST} kg",
            got=f"{mass:.4g} kg", fix="look at the inertials of the model, and at root_body",
        )  # fmt: skip


def _geometry(
    spec: HandSpec, model: mujoco.MjModel, data: mujoco.MjData, index: HandIndex
) -> Iterator[Finding]:
    opened, closed = np.array(spec.open_qpos), np.array(spec.closed_qpos)
    tips = _tips(spec, model, data, index, opened)
    if not all(len(geoms) for geoms in _tip_geoms(model, index)) or len(tips) < 2:
        return  # said by _bodies
    apart = np.linalg.norm(tips[:, None] - tips[None], axis=2)
    width = float(apart.max())
    if spec.kind == PARALLEL_JAW:
        gap = _gap(model, data, index)
        if abs(gap - spec.opening_width) > WIDTH_TOLERANCE * spec.opening_width:
            yield Finding(
                level=ERROR, what="opening_width",
                expected=f"{gap:.4f} m, measured between the tips at open_qpos",
                got=f"{spec.opening_width} m", fix="correct it, or open_qpos",
            )  # fmt: skip
        along = abs((tips[1] - tips[0])[1]) / float(np.linalg.norm(tips[1] - tips[0]))
        if along < 0.9:
            yield Finding(
                level=ERROR, what="T_root_grasp", expected="y along the closing line of the jaw",
                got=f"{np.degrees(np.arccos(along)):.0f} degrees off", fix="turn the frame about z",
            )  # fmt: skip
    middle = _tips(spec, model, data, index, (opened + closed) / 2).mean(axis=0)
    if np.linalg.norm(middle) > width:
        yield Finding(
            level=WARNING, what="T_root_grasp",
            expected=f"a point between the tips of the half-closed hand, {width:.3f} m wide",
            got=f"one {np.linalg.norm(middle):.3f} m from their middle",
            fix=f"their middle is {np.round(middle, 3).tolist()} m in the grasp frame: move there",
        )  # fmt: skip
    frame = _grasp_frame(spec, data, index)
    ahead = frame[:3, :3] @ middle + frame[:3, 3] - data.xpos[index.carrier]
    if ahead @ frame[:3, 2] <= 0:
        yield Finding(
            level=WARNING, what="T_root_grasp", expected="z from the palm to the object",
            got="z away from the tips of the half-closed hand", fix="turn the frame",
        )  # fmt: skip


def _settling(
    spec: HandSpec, model: mujoco.MjModel, data: mujoco.MjData, index: HandIndex
) -> Iterator[Finding]:
    """Drive the free hand from open to pregrasp and let it rest."""
    root = np.array(spec.base_pose)
    mujoco.mj_resetData(model, data)
    set_hand_qpos(data, index, np.concatenate([root, spec.open_qpos]))
    target = np.concatenate([root, spec.pregrasp_qpos])
    drive_hand(data, index, target)
    with no_warnings():  # a hand that diverges is said below
        mujoco.mj_step(model, data, round(SETTLE_TIME / model.opt.timestep))
    off = float(np.abs(data.qpos[index.joint_qpos] - target[7:]).max())
    speed = float(np.abs(data.qvel).max())
    if not (off < SETTLE_ERROR and speed < SETTLE_SPEED):
        yield Finding(
            level=ERROR, what="motion from open_qpos to pregrasp_qpos",
            expected=f"rest within {SETTLE_ERROR} rad or m after {SETTLE_TIME} s",
            got=f"{off:.3g} rad or m off at {speed:.3g} rad/s or m/s",
            fix="less kp, more damping or armature; or bodies that overlap and push",
        )  # fmt: skip


def _tip_geoms(model: mujoco.MjModel, index: HandIndex) -> list[list[int]]:
    return [
        [int(g) for g in index.geoms if model.geom_bodyid[g] == body] for body in index.tip_bodies
    ]


def _grasp_frame(spec: HandSpec, data: mujoco.MjData, index: HandIndex) -> Float:
    """(4, 4) T_world_grasp at the present pose."""
    carrier = np.concatenate([data.xpos[index.carrier], data.xquat[index.carrier]])
    return pose_to_matrix(carrier) @ pose_to_matrix(np.array(spec.T_root_grasp))


def _tips(
    spec: HandSpec, model: mujoco.MjModel, data: mujoco.MjData, index: HandIndex, joints: Float
) -> Float:
    """(F, 3) m, middle of each tip's shapes in the grasp frame with the hand at `joints` (J,)."""
    set_hand_qpos(data, index, np.concatenate([spec.base_pose, joints]), drive=False)
    mujoco.mj_forward(model, data)
    frame = _grasp_frame(spec, data, index)
    centres = np.array([data.geom_xpos[g].mean(axis=0) for g in _tip_geoms(model, index) if g])
    return (centres.reshape(-1, 3) - frame[:3, 3]) @ frame[:3, :3]


def _gap(model: mujoco.MjModel, data: mujoco.MjData, index: HandIndex) -> float:
    """m, smallest distance between the shapes of the first two tips."""
    first, second = _tip_geoms(model, index)[:2]
    return min(mujoco.mj_geomDistance(model, data, a, b, 1.0, None) for a in first for b in second)
