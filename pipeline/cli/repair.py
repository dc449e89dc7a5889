"""`pipeline repair`: take away what is broken, so that the next run makes it again."""

from pathlib import Path

import click

from pipeline.cli.options import OutputPath
from pipeline.files import lock, storage_error
from pipeline.registry import Registry
from pipeline.repair import mend_version, plan_repair, remove
from pipeline.store import Store


@click.command()
@click.argument("out", type=OutputPath(exists=True))
@click.option("--dry-run", is_flag=True, help="Say what would be dropped and why; touch nothing.")
def repair(out: Path, dry_run: bool) -> None:
    """Drop exactly the blocks and shards of OUT that verify finds broken; say which and why.

    \b
    python -m pipeline repair data/out/demo --dry-run
    python -m pipeline repair data/out/demo
    """
    store, registry = Store(out), Registry()
    if dry_run:
        removals, left = plan_repair(out, registry)
        torn = store.version_is_torn()
    else:
        with lock(out):
            removals, left = plan_repair(out, registry)
            try:
                torn = mend_version(store)
                remove(store, removals)
            except OSError as error:
                raise storage_error(out, error) or error from error
    verb = "would drop" if dry_run else "dropped"
    for removal in removals:
        click.echo(f"{verb} {removal.paths[0].relative_to(out).as_posix()}: {removal.why}")
    if torn:
        click.echo(f"{'would write' if dry_run else 'wrote'} version: it was missing or torn")
    for finding in left:
        click.echo(f"kept {finding.place}: {finding.message}", err=True)
    if not removals and not torn and not left:
        click.echo("Nothing is broken.")
    elif removals:
        click.echo(f"{verb} {len(removals)} broken parts; the next run makes them again")
    if left:
        raise SystemExit(1)
