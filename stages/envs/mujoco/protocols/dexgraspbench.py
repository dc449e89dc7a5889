"""`dexgraspbench`: the published evaluation step by step, to compare with what others report.

It differs from `fc` in its ramps, in counting motion from before the closing, in looking at it
every 50 steps only, and in ending at the first direction that fails: directions after it stay
False. Its own code repeats the closing for each direction, from the same state and with the same
result; here it is simulated once.
"""

from stages.envs.base import GraspResult
from stages.envs.config import DexGraspBenchConfig
from stages.envs.mujoco.protocols.fc import hold_all
from stages.envs.mujoco.protocols.trial import Trial


def run_dexgraspbench(trial: Trial, config: DexGraspBenchConfig) -> GraspResult:
    """Score one grasp: two ramps, then six forces, each from the state after the ramps."""
    result = trial.close_hand(config.closing, need_contact=False)
    return result if result.outcome else hold_all(trial, config, result)
