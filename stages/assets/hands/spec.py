"""HandSpec: everything the samplers and the physics need to know about a hand.

Plain data, so that it can be written to YAML, hashed and sent to another process. Joint vectors
are in control order (`joint_names`); a revolute joint counts in radians and newton metres, a
prismatic one in metres and newtons.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from schemas.errors import FrameError
from schemas.frames import check_quaternion
from stages.assets.hands.errors import HandError

PARALLEL_JAW, DEXTEROUS = "parallel_jaw", "dexterous"

_DYNAMICS = ("kp", "damping", "force_limits")
_PER_JOINT = ("open_qpos", "pregrasp_qpos", "closed_qpos", "squeeze_delta", *_DYNAMICS)


@dataclass(frozen=True, kw_only=True, slots=True)
class HandSpec:
    """One hand. Every `(J,)` field is in the order of `joint_names`."""

    name: str
    kind: str  # parallel_jaw | dexterous
    model: str  # mani_skill://<path in its assets>, menagerie://<path>, or a file path
    licence: str  # of the model files
    root_body: str  # what a grasp's root pose places; bodies above it are dropped
    joint_names: tuple[str, ...]  # (J,) control order; the order of every qpos row
    open_qpos: tuple[float, ...]  # (J,) widest opening
    pregrasp_qpos: tuple[float, ...]  # (J,) shape in which the hand approaches
    closed_qpos: tuple[float, ...]  # (J,) fully closed on nothing
    squeeze_delta: tuple[float, ...]  # (J,) squeeze target = grasp + this; makes the grip force
    kp: tuple[float, ...]  # (J,) Nm/rad or N/m, stiffness of the position actuators
    damping: tuple[float, ...]  # (J,) Nm s/rad or N s/m
    force_limits: tuple[float, ...]  # (J,) Nm or N, largest actuator effort
    finger_prefixes: tuple[str, ...]  # one entry a finger: prefixes of its bodies' names, by "|"
    contact_bodies: tuple[str, ...]  # bodies whose touch counts as a contact
    tip_bodies: tuple[str, ...]  # fingertips, for contact distance and consistency
    T_root_grasp: tuple[float, ...]  # (7,) pose in root_body, or in lift_body of a rig: origin at
    # the grasp centre between the tips, +z from palm to object (approach), +y the closing
    # direction of the thumb or first jaw
    opening_width: float = 0.0  # m between the pads of a jaw at open_qpos; 0 when not a jaw
    armature: float | tuple[float, ...] = 0.0  # kg m^2 or kg of reflected rotor inertia, of every
    # joint or (J,); keeps light links stable at a 4 ms step. An arm needs it: MuJoCo's contacts do
    # not know the damping of the servos, so that on light and damped joints a grip creeps
    mocap: bool = True  # the root follows a mocap body; False for a rig that stands on a base
    native_dynamics: bool = False  # keep the MJCF's own actuators, joint damping, friction and
    # contact exclusions, tendon couplings included; kp, damping and force_limits are then empty
    lift_body: str = ""  # fixed-base rigs: the body to lift, where the hand begins
    ik_joints: tuple[str, ...] = ()  # fixed-base rigs: joints that the IK may move, the arm's
    base_pose: tuple[float, ...] = (
        0.0,
        0.0,
        0.0,
        1.0,
        0.0,
        0.0,
        0.0,
    )  # (7,) fixed-base rigs: where
    # root_body stands, world; the object lies about the world's origin

    def __post_init__(self) -> None:
        # YAML gives lists and integers; the record always holds tuples and floats.
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list | tuple):
                cast = float if "float" in str(field.type) else str
                object.__setattr__(self, field.name, tuple(cast(v) for v in value))
        problems = self.problems()
        if problems:
            raise HandError(f"hand {self.name!r}: " + "; ".join(problems))

    def problems(self) -> list[str]:
        """All that is wrong with the description; empty when it is sound."""
        out: list[str] = []
        if self.kind not in (PARALLEL_JAW, DEXTEROUS):
            out.append(f"kind: expected parallel_jaw or dexterous, got {self.kind!r}")
        joints = len(self.joint_names)
        if joints == 0 or len(set(self.joint_names)) != joints:
            out.append(f"joint_names: expected distinct names, got {list(self.joint_names)}")
        for name in _PER_JOINT:
            values: tuple[float, ...] = getattr(self, name)
            if self.native_dynamics and name in _DYNAMICS:
                if values:
                    out.append(f"{name}: native_dynamics takes the model's own; leave it empty")
            elif len(values) != joints:
                out.append(f"{name}: expected {joints} numbers, one a joint, got {len(values)}")
            elif not np.isfinite(values).all():
                out.append(f"{name}: holds NaN or infinity")
        for name in ("kp", "force_limits"):
            if any(v <= 0 for v in getattr(self, name)):
                out.append(f"{name}: every entry must be positive")
        if any(v < 0 for v in (*self.armatures, *self.damping)):
            out.append("damping and armature must not be negative")
        if isinstance(self.armature, tuple) and len(self.armature) != joints:
            out.append(f"armature: expected one number or {joints}, got {len(self.armature)}")
        for name in ("T_root_grasp", "base_pose"):
            pose: tuple[float, ...] = getattr(self, name)
            if len(pose) != 7:
                out.append(f"{name}: expected 7 numbers, got {len(pose)}")
                continue
            try:
                check_quaternion(pose[3:], name)
            except FrameError as error:
                out.append(str(error))
        if self.kind == PARALLEL_JAW and not self.opening_width > 0:
            out.append("opening_width: a parallel jaw needs it, metres")
        if not self.contact_bodies or not self.tip_bodies:
            out.append("contact_bodies and tip_bodies must name at least one body")
        if not self.mocap and not (self.lift_body and self.ik_joints):
            out.append("a hand without mocap root needs lift_body and ik_joints")
        if unknown := [name for name in self.ik_joints if name not in self.joint_names]:
            out.append(f"ik_joints: {unknown} are not among joint_names")
        return out

    @property
    def armatures(self) -> tuple[float, ...]:
        """(J,) the armature of each joint."""
        if isinstance(self.armature, tuple):
            return self.armature
        return (self.armature,) * len(self.joint_names)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, tuples as lists, in field order."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
