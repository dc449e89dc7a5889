"""`tabletop`: grip an object that rests on the table, put its weight on, lift, then judge."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from schemas.frames import invert, matrix_to_pose, pose_to_matrix, rotation_angle
from stages.envs.base import GraspResult
from stages.envs.config import TabletopConfig
from stages.envs.errors import StoppedError
from stages.envs.motion import minimum_jerk
from stages.envs.mujoco.ik import TOLERANCE
from stages.envs.mujoco.metrics import count_contacts
from stages.envs.mujoco.protocols.trial import Float, Trial
from stages.envs.outcomes import NO_CONTACT, OK, OUT_OF_REACH, ROTATED, SLIPPED

WAYPOINTS = 9  # heights at which the arm's joints are solved for, 2.5 cm apart


def run_tabletop(trial: Trial, config: TabletopConfig) -> GraspResult:
    """Score one grasp by lifting it `lift_height` m against its weight."""
    result = trial.close_hand(config.closing)
    if result.outcome:
        return result
    grasp, data = trial.grasp, trial.grasp.data
    start = _object_in_hand(trial)
    data.xfrc_applied[grasp.object_body, 2] = -grasp.mass * config.gravity
    trial.step(grasp.steps(config.weight_time))
    raise_to = _lift(trial, config.lift_height)
    lift, hold = grasp.steps(config.lift_time), grasp.steps(config.hold_time)
    slip = turn = 0.0
    outcome = OK
    for done in range(1, lift + hold + 1):
        # A new target every step: a hand that jumps shakes the object out of a sound grip.
        if done <= lift:
            raise_to(config.lift_height * minimum_jerk(done / lift))
        trial.step(1)
        if done % config.check_every and done < lift + hold:
            continue
        now = _object_in_hand(trial)
        slip = max(slip, float(np.linalg.norm(now[:3] - start[:3])))
        turn = max(turn, rotation_angle(start[3:], now[3:]))
        if slip > config.lift_slip_thre:
            outcome = SLIPPED
        elif turn > config.angle_thre:
            outcome = ROTATED
        if outcome != OK:
            break
    contacts = count_contacts(grasp)
    if outcome == OK and contacts == 0:
        outcome = NO_CONTACT
    direction_success = np.zeros(6, bool)
    direction_success[5] = outcome == OK  # the weight pulls along -z
    return replace(
        result,
        outcome=outcome,
        direction_success=direction_success,
        final_object_pose=grasp.object_pose(),
        translation=slip,
        rotation=turn,
        contacts_end=contacts,
    )


def _object_in_hand(trial: Trial) -> Float:
    """(7,) pose of the object in the frame of the body that is lifted."""
    index, object_body = trial.grasp.index, trial.grasp.object_body
    # Both from the last kinematics: a step moves qpos on without it.
    T_world_hand, T_world_object = (
        pose_to_matrix(trial.grasp.body_pose(body)) for body in (index.carrier, object_body)
    )
    return matrix_to_pose(invert(T_world_hand) @ T_world_object)


def _lift(trial: Trial, height: float) -> Callable[[float], None]:
    """A function that aims the hand at so many metres above where it is now.

    A floating hand follows its mocap body. The arm of a rig moves by inverse kinematics of
    `lift_body`, solved at WAYPOINTS heights in advance and interpolated. Raises StoppedError when
    the arm cannot reach `height`.
    """
    grasp, data = trial.grasp, trial.grasp.data
    if grasp.arm is None:
        base = data.mocap_pos[grasp.index.mocap].copy()

        def move_mocap(rise: float) -> None:
            data.mocap_pos[grasp.index.mocap] = base + np.array([0.0, 0.0, rise])

        return move_mocap

    here, pose = grasp.hand_qpos(), grasp.body_pose(grasp.index.carrier)
    heights = np.linspace(0.0, height, WAYPOINTS)
    path = [here]
    for rise in heights[1:]:
        target = pose + np.array([0.0, 0.0, rise, 0.0, 0.0, 0.0, 0.0])
        qpos, error = grasp.arm.reach(path[-1], target)
        if error > 10 * TOLERANCE:
            raise StoppedError(
                OUT_OF_REACH, f"the arm stops {error:.4f} (m, rad) short of {rise:.3f} m"
            )
        path.append(qpos)
    # Added to the targets as they are, so that the grip and the arm's own sag stay.
    ctrl, joints = data.ctrl.copy(), np.array(path)[:, 7:] - here[7:]

    def move_arm(rise: float) -> None:
        delta = [np.interp(rise, heights, joint) for joint in joints.T]
        data.ctrl[grasp.index.actuators] = (
            ctrl[grasp.index.actuators] + grasp.index.transmission @ delta
        )

    return move_arm
