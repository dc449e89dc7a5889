"""`pipeline plan`: what a config asks for."""

from pathlib import Path

import click

from pipeline.cli.options import cpu_count, planning, read_plan
from pipeline.estimate import estimate, estimate_table
from pipeline.runner import survey
from pipeline.store import Store
from pipeline.summary import explain


@click.command()
@planning
@click.option(
    "--estimate", "estimated", is_flag=True, help="Add hours and bytes, as run --dry-run."
)
@click.option("--items", is_flag=True, help="List every item with its content key.")
def plan(
    targets: str,
    config_path: Path,
    out: Path | None,
    overrides: tuple[str, ...],
    smoke: bool,
    estimated: bool,
    items: bool,
) -> None:
    """Say what TARGETS consist of, what is done, and what would be done and why."""
    config, _, plans, folder, _ = read_plan(targets, config_path, out, overrides, smoke)
    store = Store(folder)
    store.check_version()
    _, states = survey(store, plans, retry=False, deep=False)
    click.echo(explain(states))
    if estimated:
        at_once = cpu_count() if config.workers is None else config.workers
        estimates = estimate(config, plans, states, store, say=click.echo)
        click.echo(estimate_table(estimates, at_once))
    if items:
        for name, stage in plans.items():
            for item in stage.items:
                state = states[name][item.id]
                click.echo(
                    f"{name} {item.id} {stage.keys[item.id][:16]} {state.code or state.reason}"
                )
