"""`fc`: force closure in free space. Close once, then hold against six forces from that state."""

from dataclasses import dataclass, replace

import numpy as np

from schemas.frames import rotation_angle
from stages.envs.base import GraspResult
from stages.envs.config import FcConfig, HoldConfig
from stages.envs.mujoco.metrics import count_contacts
from stages.envs.mujoco.protocols.trial import Float, Trial
from stages.envs.outcomes import DROPPED, OK, ROTATED

AXES = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], float)


@dataclass(frozen=True, kw_only=True, slots=True)
class Hold:
    """What one force did: largest motion (m, rad), and "" or what failed."""

    translation: float
    rotation: float
    failed: str  # "" | "translation" | "rotation"


def run_fc(trial: Trial, config: FcConfig) -> GraspResult:
    """Score one grasp: close, then six forces of `fc_force_scale * mass` N, world axes."""
    result = trial.close_hand(config.closing)
    return result if result.outcome else hold_all(trial, config, result)


def hold_all(trial: Trial, config: HoldConfig, result: GraspResult) -> GraspResult:
    """`result` of the closing, completed by what the six forces did; each starts from here."""
    grasp = trial.grasp
    start = trial.save()
    origin = trial.object_start() if config.count_closing else grasp.object_pose()
    closed = len(trial.snapshots)
    holds: list[Hold] = []
    outcome = OK
    for direction in AXES:
        trial.restore(start)
        if outcome == OK:  # a rollout shows the closing, then the first failure or the last hold
            del trial.snapshots[closed:]
        recording, trial.record = trial.record, trial.record and outcome == OK
        force = direction * config.fc_force_scale * grasp.mass
        hold = hold_against(trial, force, config, origin)
        trial.record = recording
        if hold.failed and outcome == OK:
            outcome = ROTATED if hold.failed == "rotation" else DROPPED[len(holds)]
        holds.append(hold)
        if hold.failed and not config.every_direction:
            break
    held = np.zeros(6, bool)
    held[: len(holds)] = [not hold.failed for hold in holds]
    return replace(
        result,
        outcome=outcome,
        direction_success=held,
        final_object_pose=grasp.object_pose(),
        translation=max(hold.translation for hold in holds),
        rotation=max(hold.rotation for hold in holds),
        contacts_end=count_contacts(grasp),
    )


def hold_against(trial: Trial, force: Float, config: HoldConfig, origin: Float) -> Hold:
    """Pull on the object's centre of mass with `force` (3,) N, world, for `hold_time`.

    Motion is counted from `origin` (7,), world.
    """
    grasp, data = trial.grasp, trial.grasp.data
    data.xfrc_applied[grasp.object_body, :3] = force
    total, done = grasp.steps(config.hold_time), 0
    largest_move = largest_turn = 0.0
    before = _motion(origin, grasp.object_pose())
    failed = ""
    while done < total and not failed:
        n = min(config.settled_every, total - done)
        trial.step(n)
        done += n
        now = _motion(origin, grasp.object_pose())
        largest_move, largest_turn = max(largest_move, now[0]), max(largest_turn, now[1])
        if done % config.check_every == 0 or done == total:
            if now[0] > config.trans_thre:
                failed = "translation"
            elif now[1] > config.angle_thre:
                failed = "rotation"
        if _settled(trial, n, total - done, before, now, config):
            break
        before = now
    data.xfrc_applied[grasp.object_body, :3] = 0.0
    return Hold(translation=largest_move, rotation=largest_turn, failed=failed)


def _motion(origin: Float, pose: Float) -> tuple[float, float]:
    """(m, rad) from pose `origin` (7,) to `pose` (7,)."""
    return float(np.linalg.norm(pose[:3] - origin[:3])), rotation_angle(origin[3:], pose[3:])


def _settled(
    trial: Trial,
    n: int,
    left: int,
    before: tuple[float, float],
    now: tuple[float, float],
    config: HoldConfig,
) -> bool:
    """Whether the object's present speed is too low for anything to come of it in the time left.

    `before` and `now` are the motion (m, rad) `n` steps ago and now; `left` steps remain.
    """
    grasp = trial.grasp
    velocity = grasp.data.qvel[grasp.object_dof : grasp.object_dof + 6]
    window, remaining = n * grasp.physics.timestep, left * grasp.physics.timestep
    # The larger of the speed now and over the last window: neither a rest between two slips nor a
    # swing about its turning point passes for a halt.
    speed = max(float(np.linalg.norm(velocity[:3])), abs(now[0] - before[0]) / window)
    spin = max(float(np.linalg.norm(velocity[3:])), abs(now[1] - before[1]) / window)
    move, turn = speed * remaining, spin * remaining
    return (
        move < config.settled_move
        and turn < config.settled_turn
        and now[0] + move < config.trans_thre
        and now[1] + turn < config.angle_thre
    )
