"""Write docs/commands.md from the help of every command; `--check` only compares."""

from collections.abc import Iterator
from pathlib import Path

import click
from pages import write_or_check

from pipeline.cli import main

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
HEAD = """\
# Commands

<!-- written by scripts/write_commands_page.py -->

`python -m pipeline COMMAND --help` prints the same. After an installation `grasp-clouds` is another
name for `python -m pipeline`, one that shells complete: `python -m pipeline completion bash`.
"""


def commands(group: click.Group, words: str) -> Iterator[tuple[str, click.Context]]:
    """Every command below a group, by its words."""
    context = click.Context(group, info_name=words, terminal_width=92, max_content_width=92)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{words} {name}")
        else:
            yield (
                name,
                click.Context(
                    command, info_name=f"{words} {name}", terminal_width=92, max_content_width=92
                ),
            )


def page() -> str:
    parts = [HEAD]
    for _, context in commands(main, "python -m pipeline"):
        title = (context.info_name or "").removeprefix("python -m pipeline ")
        text = context.command.get_help(context)
        parts.append(f"## {title}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    write_or_check(PAGE, page())
