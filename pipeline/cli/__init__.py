"""One click command per file. A command's module is imported when it is called, never for help."""

import os
from importlib import import_module
from typing import Any

import click

from pipeline.errors import UserError
from stages.storage import of_the_network

COMMANDS = {
    "run": "Run TARGETS: stages joined by +, or all; what is done is kept.",
    "plan": "Say what TARGETS consist of, what is done, and why not.",
    "status": "Count the outcomes in OUT by stage and code.",
    "verify": "Check every marker, checksum, schema, frame and unit in OUT.",
    "repair": "Drop exactly what verify finds broken in OUT, for the next run to redo.",
    "extend": "Grow the scenes or the grasps of OUT; what is there stays as it is.",
    "prune": "Drop blocks of OUT that its config no longer needs, and leftovers.",
    "report": "Write OUT/report.html: pictures, failures, distributions, alarms, cost.",
    "view": "Look at clouds, grasps, labels and rollouts.",
    "hand": "List the hands, or check a hand file and draw it.",
    "crop": "Cut a cloud from a frame of a depth camera with the dataset's crop.",
    "calibrate-table": "Say where the table is in a frame of a depth camera.",
    "hand-eye": "Say where the camera is on the robot, and how well poses agree.",
    "label": "Label grasps that someone else published.",
    "agree": "Compare the labels of two protocols in OUT, say MuJoCo's and ManiSkill's.",
    "noise": "Fit a sensor's noise to frames of a real camera.",
    "compare": "How far a dataset's clouds are from those of a real camera.",
    "export": "Write OUT as WebDataset tars, PLY or NPZ files.",
    "card": "Write a dataset card of OUT: licence, splits, fields with units.",
    "completion": "Print what a shell needs to complete commands and options.",
    "doctor": "Say what this machine lacks, with the fix.",
}
"""Name -> one line for `--help`, kept here so that help imports no command."""

FIRST_STEPS = (
    "python -m pipeline doctor",
    "python -m pipeline run all --smoke",
    "python -m pipeline COMMAND --help",
)
INTERRUPTED_CODE = 130  # 128 + SIGINT, as shells have it
INTERRUPTED = (
    "interrupted: what was finished is kept and nothing is half-written; the same command goes on "
    "where it was"
)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in ("run", "extend", "label"):
            one_thread()
        name = cmd_name.replace("-", "_")
        return getattr(import_module(f"pipeline.cli.{name}"), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("First steps"):
            for line in FIRST_STEPS:
                formatter.write_text(line)

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"{click.style('error', fg='red')}: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo(f"\n{INTERRUPTED}", err=True)
            ctx.exit(INTERRUPTED_CODE)
        except Exception as error:
            if not of_the_network(error):
                raise
            click.echo(
                f"error: the object store cannot be reached ({error}); check the address, the "
                "credentials and AWS_ENDPOINT_URL",
                err=True,
            )
            ctx.exit(2)


def one_thread() -> None:
    """One BLAS thread, as in the workers, before numpy loads: threads may round differently."""
    from pipeline.threads import THREAD_VARIABLES

    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")


@click.command(cls=_Commands)
def main() -> None:
    """Labelled point clouds for robotic grasping, from meshes, hands and cameras."""
