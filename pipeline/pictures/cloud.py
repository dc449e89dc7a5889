"""The picture of one cloud of a dataset, with grasps of its objects when asked for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import CannotDrawError
from pipeline.hand_files import find_hand
from pipeline.pictures.hand import HandSurface
from pipeline.pictures.open3d_child import try_draw
from pipeline.pictures.points import Float, Image, Paint, around, draw, join, paint_segments, tile
from schemas.camera import Intrinsics
from stages.shard.clouds import CloudTable
from stages.shard.errors import UnknownChoiceError
from stages.shard.grasps import GraspTable
from stages.shard.open import load_manifest

HANDS_SHOWN = 3
WIDTH = 640  # pixels of one view


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CloudPicture:
    """What is to be drawn: world frame, so that up is up."""

    title: str
    cloud: Paint
    hands: tuple[Paint, ...]
    camera: Intrinsics
    T_world_cam: Float
    notes: tuple[str, ...]

    @property
    def all(self) -> Paint:
        return join([self.cloud, *self.hands])


def load_picture(
    out: Path, split: str | None, scene: str | None, view: int | None, hand: str | None
) -> CloudPicture:
    """The asked-for cloud; where nothing is asked, the first that is not empty."""
    table, index = find_cloud(out, split, scene, view)
    cloud = table.read(index, index + 1)[0]
    title = f"{cloud['scene_id']} view {cloud['view']} ({table.split})"
    notes = [f"{title}: {len(cloud['points'])} points, objects {', '.join(cloud['object_ids'])}"]
    hands: list[Paint] = []
    if hand is not None:
        hands, more = _hands(out, table.split, hand, cloud)
        notes += more
    own = Intrinsics.from_array(cloud["intrinsics"])
    return CloudPicture(
        title=title,
        cloud=paint_segments(cloud["points"], cloud["segment"]),
        hands=tuple(hands),
        camera=own.rescaled(WIDTH, round(WIDTH * own.height / own.width)),
        T_world_cam=cloud["T_world_cam"],
        notes=tuple(notes),
    )


def render_picture(picture: CloudPicture, renderer: str) -> tuple[Image, str]:
    """Seen by its own camera and from the side; and what drew it: open3d, or numpy and why."""
    paint = picture.all
    towards = picture.T_world_cam[:3, 3] - (
        picture.cloud.points.mean(axis=0) if len(picture.cloud.points) else np.zeros(3)
    )
    level = np.array([-towards[1], towards[0], 0.0])
    if np.linalg.norm(level) < 1e-6:  # a camera straight above
        level = np.array([1.0, 0.0, 0.0])
    direction = np.asarray(level / np.linalg.norm(level) + [0.0, 0.0, 0.6], np.float64)
    size = (picture.camera.width, picture.camera.height)
    views = [(picture.camera, picture.T_world_cam), around(paint, direction, size)]
    images, used = _render(paint, views, renderer)
    return tile(images, [f"{picture.title}\nas its camera saw it", "from the side\n"], 2), used


def _render(
    paint: Paint, views: list[tuple[Intrinsics, Float]], renderer: str
) -> tuple[list[Image], str]:
    why = "asked for"
    if renderer != "numpy":
        images: list[Image] = []
        for camera, T in views:
            image, why = try_draw(paint, camera, T)
            if image is None:
                break
            images.append(image)
        if len(images) == len(views):
            return images, "open3d"
        why = f"open3d cannot draw here: {why}"
        if renderer == "open3d":
            raise CannotDrawError(f"{why}; leave out --renderer to draw with numpy")
    return [draw(paint, camera, T) for camera, T in views], f"numpy ({why})"


def find_cloud(
    out: Path, split: str | None, scene: str | None, view: int | None
) -> tuple[CloudTable, int]:
    """The asked-for cloud, world frame; where no view is asked for, the first that has points."""
    scenes: set[str] = set()
    views: set[str] = set()
    for name in [split] if split else load_manifest(out)["splits"]:
        table = CloudTable(out=out, split=name, frame="world", min_points=int(view is None))
        for index, (of, number) in enumerate(table.index.keys):
            if scene in (None, of) and view in (None, number):
                return table, index
            scenes.add(of)
            views |= {str(number)} if scene in (None, of) else set()
    if scene is not None and scene not in scenes:
        shown = sorted(scenes)
        more = [f"... and {len(shown) - 20} more"] if len(shown) > 20 else []
        raise UnknownChoiceError("scene", scene, shown[:20] + more)
    raise UnknownChoiceError("view", view, views)


def _hands(
    out: Path, split: str, hand: str, cloud: dict[str, Any]
) -> tuple[list[Paint], list[str]]:
    """Up to HANDS_SHOWN hands at the squeeze pose, spread over the grasps of the scene."""
    table = GraspTable(out, split, hand)
    found = table.of_scene(cloud["object_ids"], cloud["object_poses"], np.eye(4))
    total = len(found["grasp_index"])
    surface = load_surface(table)
    rows = np.unique(np.linspace(0, total - 1, min(total, HANDS_SHOWN)).astype(int))
    notes = [f"{total} grasps of {hand} on these objects, {len(rows)} drawn"]
    if not surface.same:
        notes.append(f"note: hand {hand!r} has changed since these grasps were made")
    return [surface.paint(found["squeeze_qpos"][row]) for row in rows], notes


def load_surface(table: GraspTable) -> HandSurface:
    """The hand of a table; raises CannotDrawError when its model is not here."""
    try:
        source = find_hand(table) or table.hand
        return HandSurface(source, table.joint_names, table.hand_digest)
    except (FileNotFoundError, ImportError) as error:
        raise CannotDrawError(f"hand {table.hand!r} cannot be drawn: {error}") from error
