"""`tabletop`: grip an object that rests on the table, put its weight on, lift, then judge."""

from dataclasses import replace

import numpy as np

from schemas.frames import invert, matrix_to_pose, pose_to_matrix, rotation_angle
from stages.envs.base import GraspResult
from stages.envs.config import TabletopConfig
from stages.envs.mujoco.metrics import count_contacts
from stages.envs.mujoco.protocols.trial import Float, Trial
from stages.envs.outcomes import NO_CONTACT, OK, ROTATED, SLIPPED


def run_tabletop(trial: Trial, config: TabletopConfig) -> GraspResult:
    """Score one grasp by lifting it `lift_height` m against its weight."""
    result = trial.close_hand(config.closing)
    if result.outcome:
        return result
    grasp, data = trial.grasp, trial.grasp.data
    start = _object_in_hand(trial)
    data.xfrc_applied[grasp.object_body, 2] = -grasp.mass * config.gravity
    trial.step(grasp.steps(config.weight_time))
    base = data.mocap_pos[grasp.index.mocap].copy()
    lift, hold = grasp.steps(config.lift_time), grasp.steps(config.hold_time)
    slip = turn = 0.0
    outcome = OK
    for done in range(0, lift + hold, 5):
        n = min(5, lift + hold - done)
        rise = config.lift_height * _minimum_jerk(min(1.0, (done + n) / lift))
        data.mocap_pos[grasp.index.mocap] = base + np.array([0.0, 0.0, rise])
        trial.step(n)
        if (done + n) % config.check_every and done + n < lift + hold:
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
    """(7,) pose of the object in the frame of the hand's root."""
    T_world_root = pose_to_matrix(trial.grasp.hand_qpos()[:7])
    T_world_object = pose_to_matrix(trial.grasp.object_pose())
    return matrix_to_pose(invert(T_world_root) @ T_world_object)


def _minimum_jerk(t: float) -> float:
    """Smooth step from 0 to 1 with zero speed and acceleration at both ends."""
    return t * t * t * (10 - 15 * t + 6 * t * t)
