"""`pipeline doctor`: what this machine lacks."""

from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("data/out"),
    show_default=True,
    help="Where datasets would go; its disk is looked at.",
)
def doctor(out: Path) -> None:
    """Say what this machine has and lacks, each lack with its fix; exit code 1 if it cannot run.

    \b
    python -m pipeline doctor
    python -m pipeline doctor --out /data
    """
    from pipeline.doctor import examine

    checks = examine(out)
    marks = {"ok": "ok      ", "missing": "MISSING ", "optional": "optional"}
    for check in checks:
        click.echo(f"{marks[check.state]}  {check.name:<22}{check.detail}")
        if check.fix:
            click.echo(f"{'':10}{'':<22}-> {check.fix}")
    missing = [check.name for check in checks if check.state == "missing"]
    if missing:
        click.echo(f"The pipeline cannot run here: {', '.join(missing)}", err=True)
        raise SystemExit(1)
    click.echo("The pipeline can run here.")
