"""`pipeline card`: a dataset card from the manifest."""

from pathlib import Path

import click

from pipeline.cli.options import OUTPUT
from pipeline.errors import UserError


@click.command()
@click.argument("out", type=OUTPUT)
@click.option(
    "--to", type=click.Path(path_type=Path), help="File to write.  [default: OUT/README.md]"
)
def card(out: Path, to: Path | None) -> None:
    """Write the card of the dataset in OUT: licence, splits, labels, fields with their units.

    \b
    python -m pipeline card data/out/demo
    python -m pipeline card data/out/demo --to CARD.md
    """
    from stages.shard.card import MARK, card_text
    from stages.shard.errors import DatasetError
    from stages.shard.layout import publish_bytes

    target = to or out / "README.md"
    try:
        text = card_text(out)
        if target.exists() and MARK not in target.read_text(encoding="utf-8"):
            raise UserError(f"{target} was written by someone else; give another file with --to")
        publish_bytes(target, text.encode())
    except DatasetError as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"cannot write {target}: {error}") from error
    click.echo(f"{target}: {text.count(chr(10))} lines")
