"""`pipeline completion`: what a shell needs to complete commands, options and file names."""

import click

SHELLS = ("bash", "zsh", "fish")
PROGRAM, VARIABLE = "grasp-clouds", "_GRASP_CLOUDS_COMPLETE"
"""The name that the package installs; completion belongs to a name, not to `python -m`."""


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script by which SHELL completes `grasp-clouds` (the same as python -m pipeline).

    \b
    python -m pipeline completion bash >> ~/.bashrc
    python -m pipeline completion zsh >> ~/.zshrc
    python -m pipeline completion fish > ~/.config/fish/completions/grasp-clouds.fish
    """
    from click.shell_completion import get_completion_class

    from pipeline.cli import main

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, PROGRAM, VARIABLE).source())
