"""`pipeline view`: look at clouds, grasps, labels and rollouts."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from pipeline.cli import complete
from pipeline.cli.options import OUTPUT
from pipeline.errors import UserError

RENDERERS = ("auto", "open3d", "numpy")
FILMS = (".gif", ".mp4")


@click.command()
@click.argument("out", type=OUTPUT)
@click.option("--split", help="train, val or test; the first that has the scene by default.")
@click.option("--scene", help="Scene id; the first by default.")
@click.option("--view", "number", type=int, help="View of the scene; the first by default.")
@click.option(
    "--grasps",
    "hand",
    metavar="HAND",
    shell_complete=complete.hands,
    help="Draw grasps of this hand too.",
)
@click.option(
    "--labels",
    metavar="HAND",
    shell_complete=complete.hands,
    help="A sheet of five successes and five failures.",
)
@click.option(
    "--rollout",
    metavar="HAND",
    shell_complete=complete.hands,
    help="The film of one grasp, simulated again.",
)
@click.option("--grasp", "which", metavar="OBJECT:N", help="Of --rollout: grasp N of an object.")
@click.option(
    "--protocol",
    shell_complete=complete.protocols,
    help="Of the labels and rollouts.  [default: fc]",
)
@click.option(
    "--save",
    "target",
    type=click.Path(path_type=Path),
    help="A file, no window: .png, or .gif and .mp4 for a turntable or a rollout.",
)
@click.option("--web", is_flag=True, help="A web page, for a machine without a screen.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Of --web.")
@click.option("--port", default=8080, show_default=True, help="Of --web; the next free one.")
@click.option("--renderer", type=click.Choice(RENDERERS), default="auto", show_default=True)
def view(
    out: Path,
    split: str | None,
    scene: str | None,
    number: int | None,
    hand: str | None,
    labels: str | None,
    rollout: str | None,
    which: str | None,
    protocol: str | None,
    target: Path | None,
    web: bool,
    host: str,
    port: int,
    renderer: str,
) -> None:
    """Look at the dataset in OUT: in a window, in a browser, or as a file.

    \b
    python -m pipeline view data/out/demo --grasps panda_gripper
    python -m pipeline view data/out/demo --grasps panda_gripper --web
    python -m pipeline view data/out/demo --save cloud.png
    python -m pipeline view data/out/demo --grasps allegro_right --save turn.gif
    python -m pipeline view data/out/demo --labels panda_gripper --save sheet.png
    python -m pipeline view data/out/demo --rollout panda_gripper --grasp 025_mug:0 --save fc.gif

    In the window S and A go to the next scene and back, V and B to the next view, G and F to the
    next grasp, P from pregrasp to grasp to squeeze, R plays the rollout, C hides the cameras.
    """
    from stages.shard.errors import DatasetError, UnknownChoiceError

    place = (split, scene, number, hand)
    try:
        if labels is not None:
            _labels(out, labels, protocol or "fc", target)
        elif rollout is not None:
            _rollout(out, rollout, which, protocol or "fc", target)
        elif target is not None and target.suffix.lower() in FILMS:
            _turntable(out, place, target)
        elif target is not None:
            _picture(out, place, target, renderer)
        else:
            _album(out, place, protocol, web, host, port)
    except (DatasetError, UnknownChoiceError) as error:
        raise UserError(str(error)) from error


Place = tuple[str | None, str | None, int | None, str | None]


@contextmanager
def _writing(target: Path) -> Generator[None]:
    """What cannot be written, or is no kind of file, as a UserError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write {target}: {error}") from error


def _labels(out: Path, hand: str, protocol: str, target: Path | None) -> None:
    from pipeline.pictures.points import save
    from pipeline.pictures.sheet import label_sheet

    if target is None:
        raise UserError("--labels draws a picture; say where with --save sheet.png")
    image, titles = label_sheet(out, hand, protocol)
    with _writing(target):
        save(image, target)
    for title in titles:
        click.echo("  " + title.replace("\n", "  "))
    click.echo(f"{target}: {hand} under {protocol}, drawn with numpy")


def _rollout(out: Path, hand: str, which: str | None, protocol: str, target: Path | None) -> None:
    from pipeline.pictures.cloud import load_surface
    from pipeline.pictures.sheet import tables_with
    from pipeline.viewer.film import rollout_film
    from pipeline.viewer.replay import replay

    if target is None:
        raise UserError("--rollout makes a film; say where with --save rollout.gif (or .mp4)")
    tables = tables_with(out, hand, protocol)
    if which is None:
        name = next(n for n, rows in tables[0].rows.items() if len(rows))
        which = f"{name}:{tables[0].arrays['grasp_index'][tables[0].rows[name][0]]}"
    name, colon, text = which.rpartition(":")
    if not colon or not text.isdigit():
        raise UserError(f"--grasp {which}: expected OBJECT:N, e.g. 025_mug:0")
    play = replay(out, hand, protocol, name, int(text))
    click.echo(f"{play.title} (stored: {play.stored})")
    _save_film(rollout_film(play, load_surface(tables[0])), target)


def _turntable(out: Path, place: Place, target: Path) -> None:
    from pipeline.pictures.cloud import load_picture
    from pipeline.viewer.film import turntable

    picture = load_picture(out, *place)
    for note in picture.notes:
        click.echo(note)
    _save_film(turntable(picture.all, picture.title), target)


def _save_film(images: list[Any], target: Path) -> None:
    from pipeline.viewer.film import save_film

    with _writing(target):
        save_film(images, target)
    click.echo(f"{target}: {len(images)} frames, drawn with numpy")


def _picture(out: Path, place: Place, target: Path, renderer: str) -> None:
    from pipeline.pictures.cloud import load_picture, render_picture
    from pipeline.pictures.points import save

    picture = load_picture(out, *place)
    for note in picture.notes:
        click.echo(note)
    image, used = render_picture(picture, renderer)
    with _writing(target):
        save(image, target)
    click.echo(f"{target}: drawn with {used}")


def _album(out: Path, place: Place, protocol: str | None, web: bool, host: str, port: int) -> None:
    from pipeline.viewer.album import open_album

    split, scene, number, hand = place
    album = open_album(out, split, scene, number, hand, protocol)
    if web:
        from pipeline.viewer.web import WebPage

        page = WebPage(album, host, port)
        click.echo(f"{page.url}: open it in a browser; Ctrl-C ends it")
        try:
            page.wait()
        except KeyboardInterrupt:
            click.echo()
        page.stop()
        return
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform == "linux" and not has_display:
        raise UserError(
            "no display to open a window on; look with --web from another machine, or draw with "
            "--save picture.png"
        )
    try:
        from pipeline.viewer.window import Window

        window = Window(album, click.echo)
    except ImportError as error:
        raise UserError(f"open3d cannot be loaded ({error}); use --web or --save") from error
    window.start()
    window.run()
