"""A turntable of a cloud or the film of a rollout, as GIF or MP4, drawn without a display."""

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import CannotDrawError, UserError
from pipeline.pictures.hand import HandSurface
from pipeline.pictures.points import Image, Paint, around, draw, join, paint_mesh, tile
from pipeline.pictures.sheet import OBJECT_COLOUR
from pipeline.viewer.replay import Replay

SUFFIXES = (".gif", ".mp4")
FRAMES, RATE = 48, 16  # of a turntable; frames per second
SIZE = (480, 360)  # pixels
ELEVATION = 0.45  # of the camera above the horizon, in radii
MOST_FRAMES = 96  # of a rollout


def turntable(paint: Paint, title: str, frames: int = 0) -> list[Image]:
    """One turn around the vertical axis, every frame from the same distance."""
    frames = frames or FRAMES
    angles = np.arange(frames) * 2 * np.pi / frames
    views = [around(paint, np.array([np.cos(a), np.sin(a), ELEVATION]), SIZE) for a in angles]
    focal = min(camera.fx for camera, _ in views)  # one for all, so that nothing swells
    return [
        tile([draw(paint, replace(camera, fx=focal, fy=focal), T)], [title], 1)
        for camera, T in views
    ]


def rollout_film(play: Replay, surface: HandSurface) -> list[Image]:
    """Every snapshot from one camera that sees the whole motion."""
    rows = np.unique(np.linspace(0, len(play.hand_qpos) - 1, MOST_FRAMES).astype(int)).tolist()
    paints = [
        join([paint_mesh(*play.placed(i), OBJECT_COLOUR, 15000),
              surface.paint(play.hand_qpos[i], 30000)])
        for i in rows
    ]  # fmt: skip
    whole = join([paints[0], paints[len(paints) // 2], paints[-1]])
    camera, T = around(whole, np.array([1.0, 0.7, 0.45]), SIZE)
    return [
        tile([draw(p, camera, T)], [f"{play.title}\n{i + 1} of {len(play.hand_qpos)}"], 1)
        for p, i in zip(paints, rows, strict=True)
    ]


def save_film(images: list[Image], path: Path) -> None:
    """By its suffix; raises UserError for another one and CannotDrawError without an encoder."""
    if path.suffix.lower() == ".gif":
        from PIL import Image as Pillow

        first, *rest = [Pillow.fromarray(image).quantize(64) for image in images]
        first.save(
            path, format="GIF", save_all=True, append_images=rest, duration=1000 // RATE, loop=0
        )
        return
    if path.suffix.lower() != ".mp4":
        raise UserError(f"{path}: expected a name that ends in {' or '.join(SUFFIXES)}")
    try:
        ffmpeg: Any = importlib.import_module("imageio_ffmpeg")
    except ImportError as error:
        raise CannotDrawError(f"an MP4 needs imageio-ffmpeg ({error}); save a .gif") from error
    height, width = (n // 2 * 2 for n in images[0].shape[:2])  # the codec wants even sides
    writer = ffmpeg.write_frames(str(path), (width, height), fps=RATE, macro_block_size=1)
    writer.send(None)
    try:
        for image in images:
            writer.send(np.ascontiguousarray(image[:height, :width]))
    finally:
        writer.close()
