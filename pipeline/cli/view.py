"""`pipeline view`: look at a cloud, its grasps, or a sheet of labels."""

import os
import sys
from pathlib import Path

import click

from pipeline.errors import UserError

RENDERERS = ("auto", "open3d", "numpy")


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--split", help="train, val or test; the first that has the scene by default.")
@click.option("--scene", help="Scene id; the first by default.")
@click.option("--view", "number", type=int, help="View of the scene; the first by default.")
@click.option("--grasps", "hand", metavar="HAND", help="Draw some grasps of this hand too.")
@click.option("--labels", metavar="HAND", help="A sheet of five successes and five failures.")
@click.option("--protocol", default="fc", show_default=True, help="Protocol of --labels.")
@click.option("--save", "target", type=click.Path(path_type=Path), help="Write a PNG, no window.")
@click.option("--renderer", type=click.Choice(RENDERERS), default="auto", show_default=True)
def view(
    out: Path,
    split: str | None,
    scene: str | None,
    number: int | None,
    hand: str | None,
    labels: str | None,
    protocol: str,
    target: Path | None,
    renderer: str,
) -> None:
    """Look at the dataset in OUT: a cloud in a window, or --save a picture of it."""
    from stages.shard.errors import DatasetError, UnknownChoiceError

    try:
        if labels is not None:
            _labels(out, labels, protocol, target)
        else:
            _cloud(out, (split, scene, number, hand), target, renderer)
    except (DatasetError, UnknownChoiceError) as error:
        raise UserError(str(error)) from error


def _labels(out: Path, hand: str, protocol: str, target: Path | None) -> None:
    from pipeline.pictures.points import save
    from pipeline.pictures.sheet import label_sheet

    if target is None:
        raise UserError("--labels draws a picture; say where with --save sheet.png")
    image, titles = label_sheet(out, hand, protocol)
    try:
        save(image, target)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write {target}: {error}") from error
    for title in titles:
        click.echo("  " + title.replace("\n", "  "))
    click.echo(f"{target}: {hand} under {protocol}, drawn with numpy")


def _cloud(
    out: Path,
    which: tuple[str | None, str | None, int | None, str | None],
    target: Path | None,
    renderer: str,
) -> None:
    from pipeline.pictures.cloud import load_picture, render_picture
    from pipeline.pictures.points import save

    picture = load_picture(out, *which)
    for note in picture.notes:
        click.echo(note)
    if target is None:
        has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if sys.platform == "linux" and not has_display:
            raise UserError("no display to open a window on; draw with --save picture.png")
        try:
            from pipeline.pictures.open3d_child import show

            show(picture.all, picture.title)
        except ImportError as error:
            raise UserError(f"open3d cannot be loaded ({error}); draw with --save") from error
        return
    image, used = render_picture(picture, renderer)
    try:
        save(image, target)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write {target}: {error}") from error
    click.echo(f"{target}: drawn with {used}")
