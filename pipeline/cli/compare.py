"""`pipeline compare`: how far the clouds of a dataset are from those of a real camera."""

from pathlib import Path

import click

from pipeline.errors import UserError


@click.command()
@click.argument("dataset", type=click.Path(path_type=Path))
@click.argument("captures", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--object", "objects", multiple=True, required=True, metavar="MESH",
    help="What CAPTURES show: ycb://NAME or a mesh file, m; one for all, or one each in order.",
)  # fmt: skip
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the report.")
@click.option("--clouds", default=8, show_default=True, help="Of the dataset, an object at most.")
def compare(
    dataset: Path, captures: tuple[Path, ...], objects: tuple[str, ...], out: Path, clouds: int
) -> None:
    """Compare DATASET with real CAPTURES: report.md, report.json and report.png in --out.

    DATASET is a dataset, or a run's config (.yaml), of which only the sensor is used. Each capture
    is registered and taken again by rays, without noise and with the dataset's sensor.

    \b
    python -m pipeline compare data/out/demo a.npz --object ycb://006_mustard_bottle --out compared
    """
    from pipeline.comparison import compare_all, read_sensor, write_report
    from stages.render.errors import RegistrationError, SensorFitError
    from stages.robot.errors import CalibrationError
    from stages.shard.errors import DatasetError, UnknownChoiceError

    try:
        sensor = read_sensor(dataset)
        report = compare_all(dataset, sensor, captures, objects, clouds)
        write_report(report, out)
    except (
        RegistrationError,
        SensorFitError,
        CalibrationError,
        DatasetError,
        UnknownChoiceError,
    ) as error:
        raise UserError(f"compare: {error}") from error
    except OSError as error:
        raise UserError(f"compare: cannot write {out}: {error}") from error
    for line in report.lines():
        click.echo(line)
    click.echo(f"{out / 'report.md'}: with pictures, densities and extents")
