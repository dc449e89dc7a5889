"""`pipeline prune`: give back the space of what the current config no longer needs."""

from collections import Counter
from pathlib import Path

import click

from pipeline.cli.options import OutputPath
from pipeline.files import lock, storage_error
from pipeline.registry import Registry
from pipeline.repair import plan_prune, remove
from pipeline.store import Store


@click.command()
@click.argument("out", type=OutputPath(exists=True))
@click.option("--dry-run", is_flag=True, help="Say what would be dropped and why; touch nothing.")
def prune(out: Path, dry_run: bool) -> None:
    """Drop blocks of OUT that the config of its last run does not need, and half-written files.

    A config that is run again later makes its dropped blocks anew.

    \b
    python -m pipeline prune data/out/demo --dry-run
    python -m pipeline prune data/out/demo
    """
    store, registry = Store(out), Registry()
    if dry_run:
        removals, broken = plan_prune(out, registry)
        sizes = [removal.size for removal in removals]
    else:
        with lock(out):
            removals, broken = plan_prune(out, registry)
            sizes = [removal.size for removal in removals]
            try:
                remove(store, removals)
            except OSError as error:
                raise storage_error(out, error) or error from error
    verb = "would drop" if dry_run else "dropped"
    whys: Counter[str] = Counter()
    for removal, size in zip(removals, sizes, strict=True):
        whys[removal.why] += size
        place = removal.paths[0].relative_to(out).as_posix()
        click.echo(f"{verb} {place}: {size} bytes: {removal.why}")
    if broken:
        click.echo(f"kept {broken} broken blocks; see `python -m pipeline repair {out}`")
    click.echo(f"{verb} {len(removals)} parts, {whys.total()} bytes")
