"""Label DexGraspBench's 200 reference grasps: verdicts against theirs, and speed on one core.

    python benchmarks/bench_label.py [--protocol dexgraspbench|fc] [--every N]

Needs the reference folder (SHARED_REFERENCE_DIR). Prints agreement, grasps per second, steps per
grasp, microseconds per step, and the share of the time inside mj_step.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import click
import mujoco

from stages.envs.config import MjEnvConfig
from stages.envs.mujoco.evaluator import ENGINE, Evaluator
from tests.dexgraspbench import labels, read_reference, reference_asset, shadow_file


class StepClock:
    """Counts steps and the time inside `mj_step`, in place of it."""

    def __init__(self) -> None:
        self.steps, self.seconds, self._step = 0, 0.0, mujoco.mj_step
        mujoco.mj_step = self

    def __call__(self, model: Any, data: Any, nstep: int = 1) -> None:
        start = time.perf_counter()
        self._step(model, data, nstep)
        self.seconds += time.perf_counter() - start
        self.steps += nstep


@click.command()
@click.option("--protocol", default="dexgraspbench", show_default=True)
@click.option("--every", default=1, show_default=True, help="Take every so many grasps.")
def main(protocol: str, every: int) -> None:
    """Measure on this machine; run it on an idle one."""
    chosen = labels()[::every]
    references = [read_reference(label) for label in chosen]
    assets = {(r.object_id, r.scale): reference_asset(r.object_id, r.scale) for r in references}
    clock = StepClock()
    with tempfile.TemporaryDirectory() as folder:
        hand = str(shadow_file(Path(folder)))
        evaluator = Evaluator(MjEnvConfig(hand=hand, workers=0))
        start = time.perf_counter()
        results = [
            evaluator.evaluate(r.row, assets[r.object_id, r.scale], protocol) for r in references
        ]
        seconds = time.perf_counter() - start
    agree = sum(ours.success == t["succ_flag"] for ours, t in zip(results, chosen, strict=True))
    n = len(chosen)
    click.echo(f"protocol {protocol}, {ENGINE}, {n} grasps, one core")
    click.echo(f"  agree_with_reference      {agree} of {n}")
    click.echo(f"  successes                 {sum(r.success for r in results)}")
    click.echo(f"  grasps_per_s              {n / seconds:.2f}")
    click.echo(f"  steps_per_grasp           {clock.steps / n:.0f}")
    click.echo(f"  us_per_step               {clock.seconds / clock.steps * 1e6:.0f}")
    click.echo(f"  share_in_mj_step          {clock.seconds / seconds:.2f}")


if __name__ == "__main__":
    main()
