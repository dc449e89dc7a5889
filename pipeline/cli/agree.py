"""`pipeline agree`: how far two protocols, usually two engines, agree on the same grasps."""

import json
from pathlib import Path

import click

from pipeline.errors import UserError
from stages.envs.config import PROTOCOLS


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--reference", default="tabletop", show_default=True, type=click.Choice(PROTOCOLS),
    help="Protocol whose margins the flips are sorted by.",
)  # fmt: skip
@click.option("--other", default="rollout", show_default=True, type=click.Choice(PROTOCOLS))
@click.option("--save", "target", type=click.Path(path_type=Path), help="Write it as JSON too.")
def agree(out: Path, reference: str, other: str, target: Path | None) -> None:
    """Compare the labels in OUT: confusion per hand and object, flips by margin.

    MuJoCo is the reference; by default its `tabletop` against ManiSkill's `rollout`.

    \b
    python -m pipeline agree data/out/demo --save agree.json
    python -m pipeline agree data/out/demo --reference fc --other tabletop
    """
    from pipeline.agreement import lines, pair_labels, read_labels, report

    if reference == other:
        raise UserError(f"--reference and --other are both {reference!r}; give two protocols")
    labels, config = read_labels(out)
    pairs = pair_labels(labels, reference, other, config)
    used = [label.engine for label in labels if label.protocol in (reference, other)]
    values = report(pairs, reference, other, used)
    for line in lines(values):
        click.echo(line)
    if target is not None:
        try:
            target.write_text(json.dumps(values, indent=1), encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {target}: {error}") from error
        click.echo(f"{target}: the same as JSON")
