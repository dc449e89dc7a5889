"""`dexgraspbench`: the published evaluation step by step, to compare with what others report.

It differs from `fc` in its ramps, in counting motion from before the closing, in looking at it
every 50 steps only, and in ending at the first direction that fails.
"""

from dataclasses import replace

import numpy as np

from schemas.frames import rotation_angle
from stages.envs.base import GraspResult
from stages.envs.config import DexGraspBenchConfig
from stages.envs.mujoco.metrics import count_contacts
from stages.envs.mujoco.protocols.fc import AXES
from stages.envs.mujoco.protocols.trial import Trial
from stages.envs.outcomes import DROPPED, OK, ROTATED


def run_dexgraspbench(trial: Trial, config: DexGraspBenchConfig) -> GraspResult:
    """Score one grasp: two ramps, then six forces, each from the state after the ramps.

    The closing is simulated once; its own code repeats it for each direction, from the same state
    and with the same result. Directions after the first that fails stay False: they are not tried.
    """
    result = trial.close_hand(config.closing, need_contact=False)
    if result.outcome:
        return result
    grasp, data = trial.grasp, trial.grasp.data
    start, origin = trial.save(), trial.object_start()
    held = np.zeros(6, bool)
    outcome = OK
    largest_move = largest_turn = 0.0
    for k, direction in enumerate(AXES):
        trial.restore(start)
        data.xfrc_applied[grasp.object_body, :3] = direction * config.fc_force_scale * grasp.mass
        for _ in range(config.blocks):
            trial.step(config.block_steps)
            pose = grasp.object_pose()
            move = float(np.linalg.norm(pose[:3] - origin[:3]))
            turn = rotation_angle(origin[3:], pose[3:])
            if move > config.trans_thre or turn > config.angle_thre:
                outcome = DROPPED[k] if move > config.trans_thre else ROTATED
                break
        largest_move, largest_turn = max(largest_move, move), max(largest_turn, turn)
        if outcome != OK:
            break
        held[k] = True
    data.xfrc_applied[grasp.object_body, :3] = 0.0
    return replace(
        result,
        outcome=outcome,
        direction_success=held,
        final_object_pose=grasp.object_pose(),
        translation=largest_move,
        rotation=largest_turn,
        contacts_end=count_contacts(grasp),
    )
