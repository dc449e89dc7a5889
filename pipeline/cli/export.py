"""`pipeline export`: the dataset's clouds and labels as files of other formats."""

from pathlib import Path

import click

from pipeline.cli.options import OUTPUT
from pipeline.errors import UserError

FORMATS = ("webdataset", "ply", "npz")


@click.command()
@click.argument("out", type=OUTPUT)
@click.option("--format", "format_", required=True, type=click.Choice(FORMATS))
@click.option("--to", required=True, type=click.Path(path_type=Path), help="A new folder.")
@click.option("--split", help="train, val or test; all by default.")
def export(out: Path, format_: str, to: Path, split: str | None) -> None:
    """Write the dataset in OUT as WebDataset tars, PLY or NPZ files, all or nothing.

    \b
    python -m pipeline export data/out/demo --format ply --to clouds
    python -m pipeline export data/out/demo --format webdataset --to tars --split train
    """
    from stages.shard.errors import DatasetError, ExportError, UnknownChoiceError
    from stages.shard.export import export_dataset

    try:
        count = export_dataset(out, to, format_=format_, split=split)
    except (DatasetError, ExportError, UnknownChoiceError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"cannot write {to}: {error}") from error
    click.echo(f"{to}: {count} clouds as {format_}, with grasps and labels")
