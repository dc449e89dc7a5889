"""`pipeline verify`: is every byte what it should be?"""

import json
from dataclasses import asdict
from pathlib import Path

import click

from pipeline.cli.options import OUTPUT
from pipeline.errors import UserError
from pipeline.registry import Registry
from pipeline.verify import verify_output


@click.command()
@click.argument("out", type=OUTPUT)
@click.option("--digest", is_flag=True, help="Print one content hash of the dataset's arrays.")
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
def verify(out: Path, digest: bool, as_json: bool) -> None:
    """Check every marker, checksum, schema, frame and unit in OUT; exit code 1 on a finding.

    \b
    python -m pipeline verify data/out/demo
    python -m pipeline verify data/out/demo --json
    python -m pipeline verify data/out/demo --digest
    """
    if digest:
        from stages.shard.digest import dataset_digest
        from stages.shard.errors import DatasetError

        try:
            found = dataset_digest(out)
        except DatasetError as error:
            raise UserError(str(error)) from error
        click.echo(json.dumps({"digest": found}) if as_json else found)
        return
    blocks, findings, dataset = verify_output(out, Registry())
    if as_json:
        rows = [asdict(finding) for finding in findings]
        click.echo(json.dumps({"blocks": blocks, "dataset": dataset, "findings": rows}, indent=1))
        raise SystemExit(1 if findings else 0)
    for finding in findings:
        click.echo(f"{click.style(finding.place, fg='red')}: {finding.message}", err=True)
    what = f"{blocks} blocks" + (" and the dataset" if dataset else "")
    if findings:
        click.echo(
            f"{len(findings)} problems in {what}. Run again: broken parts are redone; "
            f"`python -m pipeline repair {out} --dry-run` lists them"
        )
        raise SystemExit(1)
    click.echo(f"{what}: " + click.style("all sound", fg="green"))
