"""One click command per file; a command's module is imported when it is called or listed."""

from importlib import import_module
from typing import Any

import click

from pipeline.errors import UserError

COMMANDS = ("run", "plan", "status", "verify", "view", "crop", "doctor")


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(f"pipeline.cli.{cmd_name}"), cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)


@click.command(cls=_Commands)
def main() -> None:
    """Labelled point clouds for robotic grasping, from meshes, hands and cameras."""
