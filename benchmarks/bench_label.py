"""Label DexGraspBench's 200 reference grasps: verdicts against theirs, and speed.

    python -m benchmarks.bench_label [--protocol fc] [--every N] [--full] [--workers 2]

Needs the reference folder (SHARED_REFERENCE_DIR). Prints agreement, grasps per second, steps per
grasp, microseconds per step, and the share of the time inside mj_step; with --workers the share of
the time that the workers are busy; with --full also every hold to its end, and what that changes.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
import mujoco
import numpy as np

from schemas.records import GraspSet, ObjectAsset
from stages.assets.hands.load import load_hand
from stages.envs.base import GraspResult
from stages.envs.config import DexGraspBenchConfig, FcConfig, MetricsConfig, MjEnvConfig
from stages.envs.mujoco.env import MjEnv
from stages.envs.mujoco.evaluator import ENGINE, Evaluator
from tests.dexgraspbench import HAND, Reference, labels, read_reference, reference_asset


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


Assets = dict[tuple[str, float], ObjectAsset]


def on_one_core(
    config: MjEnvConfig, protocol: str, references: Sequence[Reference], assets: Assets
) -> list[GraspResult]:
    """Print the speed of one process."""
    clock, evaluator = StepClock(), Evaluator(config)
    start = time.perf_counter()
    results = [
        evaluator.evaluate(r.row, assets[r.object_id, r.scale], protocol) for r in references
    ]
    seconds = time.perf_counter() - start
    n = len(references)
    click.echo(f"  successes                 {sum(r.success for r in results)}")
    click.echo(f"  grasps_per_s              {n / seconds:.2f}")
    click.echo(f"  steps_per_grasp           {clock.steps / n:.0f}")
    click.echo(f"  us_per_step               {clock.seconds / clock.steps * 1e6:.0f}")
    click.echo(f"  share_in_mj_step          {clock.seconds / seconds:.2f}")
    return results


def on_workers(
    config: MjEnvConfig, protocol: str, references: Sequence[Reference], assets: Assets
) -> None:
    """Print the speed of a pool, its start left out by a first round."""
    hand = load_hand(config.hand)
    pairs: list[tuple[GraspSet, ObjectAsset]] = []
    for key, asset in assets.items():
        rows = [r.row for r in references if (r.object_id, r.scale) == key]
        grasps = GraspSet(
            hand=hand.name, hand_digest="", object_id=asset.object_id,
            joint_names=hand.joint_names, object_pose=rows[0].object_pose,
            pregrasp_qpos=np.array([r.pregrasp_qpos for r in rows]),
            grasp_qpos=np.array([r.grasp_qpos for r in rows]),
            squeeze_qpos=np.array([r.squeeze_qpos for r in rows]),
            grasp_index=np.arange(len(rows)),
        )  # fmt: skip
        pairs.append((grasps, asset))
    with MjEnv(config) as env:
        env.evaluate_all(pairs[: config.workers], protocol)
        before, start = env.busy_s, time.perf_counter()
        env.evaluate_all(pairs, protocol)
        seconds = time.perf_counter() - start
        busy = (env.busy_s - before) / (seconds * config.workers)
    click.echo(f"  grasps_per_s              {len(references) / seconds:.2f}")
    click.echo(f"  workers_busy              {busy:.3f}")


@click.command()
@click.option("--protocol", default="dexgraspbench", show_default=True)
@click.option("--every", default=1, show_default=True, help="Take every so many grasps.")
@click.option("--workers", default=0, show_default=True, help="Measure a pool of so many too.")
@click.option("--full", is_flag=True, help="Run every hold to its end too.")
@click.option("--no-metrics", is_flag=True, help="Leave the five analytic metrics out.")
def main(protocol: str, every: int, workers: int, full: bool, no_metrics: bool) -> None:
    """Measure on this machine; run it on an idle one."""
    chosen = labels()[::every]
    references = [read_reference(label) for label in chosen]
    assets = {(r.object_id, r.scale): reference_asset(r.object_id, r.scale) for r in references}
    config = MjEnvConfig(hand=HAND, workers=0, metrics=MetricsConfig(analytic=not no_metrics))
    click.echo(f"protocol {protocol}, {ENGINE}, {len(chosen)} grasps, one core")
    results = on_one_core(config, protocol, references, assets)
    agree = sum(ours.success == t["succ_flag"] for ours, t in zip(results, chosen, strict=True))
    click.echo(f"  agree_with_reference      {agree} of {len(chosen)}")
    if workers:
        click.echo(f"{workers} workers")
        on_workers(replace(config, workers=workers), protocol, references, assets)
    if full:
        click.echo("every hold to its end, one core")
        whole = replace(
            config,
            fc=FcConfig(settled_move=0.0),
            dexgraspbench=DexGraspBenchConfig(settled_move=0.0),
        )
        longer = on_one_core(whole, protocol, references, assets)
        same = sum(
            a.outcome == b.outcome and a.direction_success.tolist() == b.direction_success.tolist()
            for a, b in zip(results, longer, strict=True)
        )
        click.echo(f"  same_as_decided_early     {same} of {len(chosen)}")


if __name__ == "__main__":
    main()
