"""`pipeline status`: what an output holds."""

from collections import Counter
from pathlib import Path

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
def status(out: Path, failures: bool) -> None:
    """Count the outcomes in OUT by stage and code."""
    if not (out / "version").exists():
        raise UserError(f"output {out}: holds no blocks; give the --out of a run")
    store, registry = Store(out), Registry()
    store.check_version()
    ledger = scan(store, list(registry.stages), deep=False)
    for name in registry.stages:
        rows = [entry.row for (stage, _), entry in ledger.entries.items() if stage == name]
        counts = Counter(row.code for row in rows)
        text = ", ".join(f"{code} {n}" for code, n in sorted(counts.items())) or "none"
        click.echo(f"{name:<8}{len(rows):>7} outcomes: {text}")
        if failures:
            for row in sorted(rows, key=lambda row: row.id):
                if row.code != OK or row.message:  # a message of a success says why it was repeated
                    click.echo(f"  {row.id}: {row.code}: {row.message}")
    for stage, block, error in ledger.corrupt:
        click.echo(f"corrupt: {stage} {block}: {error}")
    dataset = (out / "dataset.json").exists()
    click.echo("dataset: " + ("published" if dataset else "not yet; run the target shard"))
