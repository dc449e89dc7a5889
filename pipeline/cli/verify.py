"""`pipeline verify`: is every byte what it should be?"""

from pathlib import Path

import click

from pipeline.cli.options import OUTPUT
from pipeline.errors import UserError
from pipeline.registry import Registry
from pipeline.verify import verify_output


@click.command()
@click.argument("out", type=OUTPUT)
@click.option("--digest", is_flag=True, help="Print one content hash of the dataset's arrays.")
def verify(out: Path, digest: bool) -> None:
    """Check every marker, checksum, schema, frame and unit in OUT; exit code 1 on a finding."""
    if digest:
        from stages.shard.digest import dataset_digest
        from stages.shard.errors import DatasetError

        try:
            click.echo(dataset_digest(out))
        except DatasetError as error:
            raise UserError(str(error)) from error
        return
    blocks, findings, dataset = verify_output(out, Registry())
    for finding in findings:
        click.echo(f"{finding.place}: {finding.message}", err=True)
    what = f"{blocks} blocks" + (" and the dataset" if dataset else "")
    if findings:
        click.echo(
            f"{len(findings)} problems in {what}. Run again: broken parts are redone; "
            f"`python -m pipeline repair {out} --dry-run` lists them"
        )
        raise SystemExit(1)
    click.echo(f"{what}: all sound")
