"""`pipeline run`: do what is not done yet."""

from collections.abc import Mapping
from pathlib import Path

import click

from pipeline.cli.options import cpu_count, planning, read_plan
from pipeline.config import RunConfig
from pipeline.errors import BudgetError, UserError
from pipeline.executors import Executor
from pipeline.files import lock, storage_error
from pipeline.graph import Targets
from pipeline.plan import StagePlan
from pipeline.registry import Registry, load
from pipeline.runner import run_stages, survey, with_runtime
from pipeline.saved import save_config
from pipeline.store import Store
from pipeline.summary import explain, next_steps, table


@click.command()
@planning
@click.option("--workers", type=int, help="Processes; 0 runs in this one. [default: cores]")
@click.option("--block-size", type=int, help="Items per block at most; changes no result.")
@click.option("--scheduler", metavar="tcp://...", help="An existing Dask scheduler.")
@click.option("--max-failure-fraction", type=float, help="Stop above this; exit code 3.")
@click.option("--retry-failed", is_flag=True, help="Repeat what crashed or timed out.")
@click.option("--dry-run", is_flag=True, help="Say what would be done and why; write nothing.")
def run(
    targets: str,
    config_path: Path,
    out: Path | None,
    overrides: tuple[str, ...],
    smoke: bool,
    workers: int | None,
    block_size: int | None,
    scheduler: str | None,
    max_failure_fraction: float | None,
    retry_failed: bool,
    dry_run: bool,
) -> None:
    """Run TARGETS: stages joined by +, "shard", or "all". What is done is not done again.

    Stages are assets, scene, render, grasp and label; each brings what it needs.
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
    store = Store(folder)
    if dry_run:
        store.check_version()
        _, states = survey(store, plans, retry=retry_failed, deep=False)
        click.echo(explain(states))
        return
    carry_out(config, wanted, plans, store, registry, scheduler=scheduler, retry=retry_failed)


def carry_out(
    config: RunConfig,
    wanted: Targets,
    plans: Mapping[str, StagePlan],
    store: Store,
    registry: Registry,
    *,
    scheduler: str | None = None,
    retry: bool = False,
) -> None:
    """Run the plan into the store, publish what the targets publish, and say what was done."""
    folder = store.out
    store.open()
    with lock(folder):
        save_config(folder, config)
        executor = _executor(config, scheduler)
        try:
            result = run_stages(config, plans, store, executor, retry=retry, say=click.echo)
        except BudgetError as error:
            click.echo(table(error.summaries))
            raise
        finally:
            executor.close()
        published = None
        for name in wanted.publish:
            try:
                published = load(registry.publishers[name])(config, plans, result.states, store)
            except OSError as error:
                raise storage_error(folder, error) or error from error
    if result.did_nothing and published is None:
        click.echo("Nothing to do: every item is done already.")
    click.echo(table(result.summaries))
    if published is not None:
        click.echo("shard   " + ", ".join(f"{name} {n}" for name, n in published.items()))
    click.echo(next_steps(folder, dataset=(folder / "dataset.json").exists()))


def _executor(config: RunConfig, scheduler: str | None) -> Executor:
    if scheduler:
        from pipeline.executors.dask import DaskExecutor

        return DaskExecutor(scheduler)
    workers = cpu_count() if config.workers is None else config.workers
    if workers == 0:
        from pipeline.executors.inline import InlineExecutor

        return InlineExecutor()
    from pipeline.executors.processes import ProcessExecutor

    return ProcessExecutor(
        workers=workers, max_blocks=config.worker_max_blocks, max_rss_mb=config.worker_max_rss_mb
    )
