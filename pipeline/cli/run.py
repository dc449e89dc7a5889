"""`pipeline run`: do what is not done yet."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pipeline.cli.options import pairs, planning, read_plan
from pipeline.config import RunConfig
from pipeline.errors import BudgetError, UserError
from pipeline.estimate import estimate, estimate_table
from pipeline.executors import Executor
from pipeline.files import lock, storage_error
from pipeline.graph import Targets
from pipeline.plan import StagePlan
from pipeline.registry import Registry, load
from pipeline.runner import run_stages, survey, with_runtime
from pipeline.saved import save_config
from pipeline.store import Store
from pipeline.summary import explain, next_steps, table
from pipeline.threads import cpu_count
from stages.storage import is_remote


@click.command()
@planning
@click.option("--workers", type=int, help="Processes; 0 runs in this one. [default: cores]")
@click.option("--block-size", type=int, help="Items per block at most; changes no result.")
@click.option("--scheduler", metavar="tcp://...", help="An existing Dask scheduler.")
@click.option(
    "--cluster",
    type=click.Choice(["local", "ssh", "slurm"]),
    help="Start a Dask cluster for this run; --workers are processes, per host, or jobs.",
)
@click.option("--host", "hosts", multiple=True, help="A machine of --cluster ssh; repeat.")
@click.option(
    "--cluster-option",
    "cluster_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="Of the cluster's class, e.g. queue=gpu, walltime=02:00:00.",
)
@click.option("--max-failure-fraction", type=float, help="Stop above this; exit code 3.")
@click.option("--retry-failed", is_flag=True, help="Repeat what crashed or timed out.")
@click.option("--no-report", is_flag=True, help="Leave OUT/report.html as it is.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Say what would be done, why, how long and how large; OUT stays as it is.",
)
def run(
    targets: str,
    config_path: Path,
    out: Path | None,
    overrides: tuple[str, ...],
    smoke: bool,
    workers: int | None,
    block_size: int | None,
    scheduler: str | None,
    cluster: str | None,
    hosts: tuple[str, ...],
    cluster_options: tuple[str, ...],
    max_failure_fraction: float | None,
    retry_failed: bool,
    no_report: bool,
    dry_run: bool,
) -> None:
    """Run TARGETS: stages joined by +, "shard", or "all". What is done is not done again.

    Stages are assets, scene, render, grasp and label; each brings what it needs.

    \b
    python -m pipeline run all --smoke
    python -m pipeline run render+label --config configs/demo.yaml --workers 4
    python -m pipeline run all --config configs/demo.yaml --set render.views=16 --dry-run
    python -m pipeline run all --config configs/ycb.yaml --cluster slurm --workers 100

    Exit codes: 0 done, 2 a mistake in what was asked, 3 too many failures, 130 interrupted. The
    same command goes on where it was.
    """
    config, wanted, plans, folder, registry = read_plan(targets, config_path, out, overrides, smoke)
    try:
        config = with_runtime(
            config,
            workers=workers,
            block_size=block_size,
            max_failure_fraction=max_failure_fraction,
        )
    except ValueError as error:
        raise UserError(str(error)) from error
    if scheduler and cluster:
        raise UserError("--scheduler and --cluster: give one of them, not both")
    if (hosts or cluster_options) and not cluster:
        raise UserError("--host and --cluster-option: belong to --cluster; give that too")
    options = pairs("--cluster-option", cluster_options)
    store = Store(folder)
    if dry_run:
        store.check_version()
        _, states = survey(store, plans, retry=retry_failed, deep=False)
        click.echo(explain(states))
        at_once = cpu_count() if config.workers is None else config.workers
        estimates = estimate(config, plans, states, store, say=click.echo)
        click.echo(estimate_table(estimates, at_once))
        return

    def start() -> Executor:
        return _executor(config, scheduler, cluster, hosts, options)

    carry_out(
        *(config, wanted, plans, store, registry),
        start=start,
        retry=retry_failed,
        report=not no_report,
    )


def carry_out(
    config: RunConfig,
    wanted: Targets,
    plans: Mapping[str, StagePlan],
    store: Store,
    registry: Registry,
    *,
    start: Callable[[], Executor] | None = None,
    retry: bool = False,
    report: bool = True,
) -> None:
    """Run the plan into the store, publish what the targets publish, and say what was done.

    `start` makes the executor; local processes without it.
    """
    from pipeline.report.after_run import REPORT, report_after_run

    folder = store.out
    store.open()
    with lock(folder):
        save_config(folder, config)
        executor = start() if start else _executor(config)
        try:
            result = run_stages(config, plans, store, executor, retry=retry, say=click.echo)
        except BudgetError as error:
            click.echo(table(error.summaries))
            raise
        finally:
            executor.close()
            if executor.local and not is_remote(folder):
                store.clean()  # of what a stopped worker was writing
        published = None
        for name in wanted.publish:
            try:
                published = load(registry.publishers[name])(config, plans, result.states, store)
            except OSError as error:
                raise storage_error(folder, error) or error from error
    nothing = result.did_nothing and published is None
    if nothing:
        click.echo("Nothing to do: every item is done already.")
    click.echo(table(result.summaries))
    if published is not None:
        click.echo("shard   " + ", ".join(f"{name} {n}" for name, n in published.items()))
    if report and not (nothing and (folder / REPORT).exists()):
        report_after_run(folder, click.echo)
    click.echo(next_steps(folder, dataset=(folder / "dataset.json").exists()))


def _executor(
    config: RunConfig,
    scheduler: str | None = None,
    cluster: str | None = None,
    hosts: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Executor:
    workers = cpu_count() if config.workers is None else config.workers
    if scheduler or cluster:
        from pipeline.executors.clusters import start_executor
        from pipeline.executors.dask import DaskExecutor

        executor = (
            start_executor(cluster, workers=workers, hosts=hosts, options=options or {})
            if cluster
            else DaskExecutor(str(scheduler))
        )
        click.echo(f"Dask: {executor.slots} at once, dashboard {executor.dashboard}")
        return executor
    if workers == 0:
        from pipeline.executors.inline import InlineExecutor

        return InlineExecutor()
    from pipeline.executors.processes import ProcessExecutor
    from pipeline.work import work

    return ProcessExecutor(
        work,
        workers=workers,
        max_blocks=config.worker_max_blocks,
        max_rss_mb=config.worker_max_rss_mb,
    )
