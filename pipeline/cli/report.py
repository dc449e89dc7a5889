"""`pipeline report`: what an output holds, as one HTML file."""

from pathlib import Path

import click

from pipeline.cli.options import OUTPUT


@click.command()
@click.argument("out", type=OUTPUT)
@click.option(
    "--to", type=click.Path(path_type=Path), help="File to write.  [default: OUT/report.html]"
)
@click.option("--no-pictures", is_flag=True, help="Numbers and alarms only; takes a second.")
def report(out: Path, to: Path | None, no_pictures: bool) -> None:
    """Write OUT/report.html: pictures, failures, distributions, alarms, cost and versions.

    One file without scripts that needs no network. A run makes it at its end.

    \b
    python -m pipeline report data/out/demo
    python -m pipeline report data/out/demo --to /tmp/demo.html --no-pictures
    """
    from pipeline.report.after_run import REPORT
    from pipeline.report.write import write_report

    target = to or out / REPORT
    alarms = write_report(out, target, pictures=not no_pictures)
    for alarm in alarms:
        click.echo(f"alarm: {alarm.what}")
    click.echo(f"report: {target}, {len(alarms)} alarms")
