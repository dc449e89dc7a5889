"""`pipeline status`: what an output holds."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

from pipeline.cli.options import OUTPUT
from pipeline.errors import UserError
from pipeline.ledger import scan
from pipeline.registry import Registry
from pipeline.store import Store
from stages.contract import OK


@click.command()
@click.argument("out", type=OUTPUT)
@click.option("--failures", is_flag=True, help="List failures and repeats with their reasons.")
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
def status(out: Path, failures: bool, as_json: bool) -> None:
    """Count the outcomes in OUT by stage and code.

    \b
    python -m pipeline status data/out/demo
    python -m pipeline status data/out/demo --failures
    python -m pipeline status data/out/demo --failures --json
    """
    if not (out / "version").exists():
        raise UserError(f"output {out}: holds no blocks; give the --out of a run")
    found = _look(out)
    if as_json:
        if not failures:
            for stage in found["stages"].values():
                del stage["failures"]
        click.echo(json.dumps(found, indent=1))
        return
    for name, stage in found["stages"].items():
        codes = sorted(stage["codes"].items())
        text = ", ".join(f"{_coloured(code)} {n}" for code, n in codes) or "none"
        click.echo(f"{name:<8}{stage['outcomes']:>7} outcomes: {text}")
        if failures:
            for row in stage["failures"]:
                click.echo(f"  {row['id']}: {_coloured(row['code'])}: {row['message']}")
    for row in found["corrupt"]:
        click.echo(f"{click.style('corrupt', fg='red')}: {row['stage']} {row['block']}: "
                   f"{row['message']}")  # fmt: skip
    click.echo("dataset: " + ("published" if found["dataset"] else "not yet; run the target shard"))


def _look(out: Path) -> dict[str, Any]:
    """{stages: {name: {outcomes, codes, failures}}, corrupt, dataset}; JSON values."""
    store, registry = Store(out), Registry()
    store.check_version()
    ledger = scan(store, list(registry.stages), deep=False)
    stages: dict[str, Any] = {}
    for name in registry.stages:
        rows = [entry.row for (stage, _), entry in ledger.entries.items() if stage == name]
        stages[name] = {
            "outcomes": len(rows),
            "codes": dict(Counter(row.code for row in rows)),
            "failures": [
                {"id": row.id, "code": row.code, "message": row.message}
                for row in sorted(rows, key=lambda row: row.id)
                if row.code != OK or row.message  # a success says why it was repeated
            ],
        }
    corrupt = [
        {"stage": stage, "block": block, "message": str(error)}
        for stage, block, error in ledger.corrupt
    ]
    return {"stages": stages, "corrupt": corrupt, "dataset": (out / "dataset.json").exists()}


def _coloured(code: str) -> str:
    return click.style(code, fg="green" if code == OK else "yellow")
