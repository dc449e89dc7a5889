"""`pipeline plan`: what a config asks for."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from pipeline.cli.options import planning, read_plan
from pipeline.estimate import estimate, estimate_table
from pipeline.runner import survey
from pipeline.store import Store
from pipeline.summary import counts, explain
from pipeline.threads import cpu_count


@click.command()
@planning
@click.option(
    "--estimate", "estimated", is_flag=True, help="Add hours and bytes, as run --dry-run."
)
@click.option("--items", is_flag=True, help="List every item with its content key.")
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
def plan(
    targets: str,
    config_path: Path,
    out: Path | None,
    overrides: tuple[str, ...],
    smoke: bool,
    estimated: bool,
    items: bool,
    as_json: bool,
) -> None:
    """Say what TARGETS consist of, what is done, and what would be done and why.

    \b
    python -m pipeline plan
    python -m pipeline plan render+label --config configs/ycb.yaml --estimate
    python -m pipeline plan all --config configs/demo.yaml --set render.views=16 --json
    """
    config, _, plans, folder, _ = read_plan(targets, config_path, out, overrides, smoke)
    store = Store(folder)
    store.check_version()
    _, states = survey(store, plans, retry=False, deep=False)
    found: dict[str, Any] = {"out": str(folder), "stages": counts(states)}
    at_once = cpu_count() if config.workers is None else config.workers

    def say(line: str) -> None:
        click.echo(line, err=as_json)

    if not as_json:
        click.echo(explain(states))
    if estimated:
        estimates = estimate(config, plans, states, store, say=say)
        found["estimate"] = [asdict(e) for e in estimates]
        if not as_json:
            click.echo(estimate_table(estimates, at_once))
    if items:
        found["items"] = []
        for name, stage in plans.items():
            for item in stage.items:
                state, key = states[name][item.id], stage.keys[item.id]
                row = {"stage": name, "id": item.id, "key": key, "code": state.code,
                       "reason": state.reason}  # fmt: skip
                if as_json:
                    found["items"].append(row)
                else:
                    click.echo(f"{name} {item.id} {key[:16]} {state.code or state.reason}")
    if as_json:
        click.echo(json.dumps(found, indent=1))
