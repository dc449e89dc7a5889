"""The pictures of a report: scenes, crops, grasps. Drawn with numpy, which needs no driver."""

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.errors import UserError
from pipeline.pictures.points import Image, Paint, around, draw, paint_segments
from pipeline.report.facts import CloudRow, Facts, all_labels, spread
from schemas.camera import Camera, Intrinsics
from schemas.frames import transform_points

if TYPE_CHECKING:
    from stages.shard.clouds import CloudTable

SCENES, CROPS, GRASPS = 12, 3, 4  # pictures; GRASPS of each verdict, hand and protocol
WIDTH, GRASP_SIDE = 320, 200  # pixels
QUALITY = 82  # of JPEG
TABLE_SHOWN = 0.25  # m around the middle of the table
Caption = str
Picture = tuple[str, Caption]
"""A data URI and what stands below it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pictures:
    """By section. `notes` says what could not be drawn, and why."""

    scenes: list[Picture]
    crops: list[tuple[Picture, Picture]]  # before, after
    grasps: dict[tuple[str, str], tuple[list[Picture], list[Picture]]]  # passed, failed
    notes: list[str]


def draw_all(facts: Facts, *, pictures: bool = True) -> Pictures:
    """Every picture that can be drawn; what fails becomes a note."""
    drawn = Pictures(scenes=[], crops=[], grasps={}, notes=[])
    if not pictures:
        return drawn
    _try(drawn, "scenes", lambda: drawn.scenes.extend(_scenes(facts)))
    if facts.manifest is None:
        return drawn
    _try(drawn, "crops", lambda: drawn.crops.extend(_crops(facts)))
    for hand, protocol, _ in all_labels(facts):

        def add(hand: str = hand, protocol: str = protocol) -> None:
            drawn.grasps[hand, protocol] = _grasps(facts, hand, protocol)

        _try(drawn, f"grasps of {hand} under {protocol}", add)
    return drawn


def _try(pictures: Pictures, what: str, make: Callable[[], None]) -> None:
    try:
        make()
    except (UserError, OSError, ValueError, KeyError, LookupError, ImportError) as error:
        pictures.notes.append(f"{what} could not be drawn: {error}")


def data_uri(image: Image) -> str:
    """A JPEG inside the page."""
    from PIL import Image as Pillow

    buffer = io.BytesIO()
    Pillow.fromarray(image).save(buffer, format="JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _scenes(facts: Facts) -> Iterator[Picture]:
    for row, cloud in shown_clouds(facts, SCENES):
        paint = paint_segments(cloud["points"], cloud["segment"])
        towards = cloud["T_world_cam"][:3, 3] - paint.points.mean(axis=0)
        image = draw(paint, *around(paint, towards, (WIDTH, WIDTH * 3 // 4)))
        place = ", ".join(part for part in (row.split, f"{row.points:,} points") if part)
        yield data_uri(image), f"{row.scene} view {row.view}: {place}"


def _shown_rows(facts: Facts, most: int) -> list[CloudRow]:
    """One cloud a scene, spread over splits and kinds; empty ones left out."""
    firsts: dict[str, CloudRow] = {}
    for row in facts.clouds:
        if row.points:
            firsts.setdefault(row.scene, row)
    rows = sorted(firsts.values(), key=lambda row: (row.split, row.kind, row.scene))
    return spread(rows, most)


def shown_clouds(facts: Facts, most: int) -> Iterator[tuple[CloudRow, dict[str, Any]]]:
    """The clouds of `_shown_rows` in the world frame."""
    chosen = _shown_rows(facts, most)
    if facts.manifest is None:
        yield from _from_blocks(facts, chosen)
        return
    for row, table, index in _placed(facts, chosen):
        yield row, table.read(index, index + 1)[0]


def _placed(facts: Facts, rows: Sequence[CloudRow]) -> Iterator[tuple[CloudRow, "CloudTable", int]]:
    """The table of each row, opened once a split, and its place in it."""
    from stages.shard.clouds import CloudTable

    tables: dict[str, CloudTable] = {}
    for row in rows:
        if row.split not in tables:
            tables[row.split] = CloudTable(out=facts.out, split=row.split, frame="world")
        table = tables[row.split]
        yield row, table, table.index.keys.index((row.scene, row.view))


def _from_blocks(facts: Facts, rows: list[CloudRow]) -> Iterator[tuple[CloudRow, dict[str, Any]]]:
    from pipeline.report.from_blocks import records
    from pipeline.store import Store
    from schemas.records import Cloud

    wanted = {(row.scene, row.view): row for row in rows}
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for cloud in records(facts, Store(facts.out), "render", Cloud):
        key = (cloud.scene_id, cloud.view)
        if key in wanted and key not in found:
            points = cloud.points.astype(np.float64)
            if cloud.frame == "camera":
                points = transform_points(cloud.T_world_cam, points)
            found[key] = {
                "points": points,
                "segment": cloud.segment,
                "intrinsics": cloud.intrinsics,
                "T_world_cam": cloud.T_world_cam,
            }
    for key, row in wanted.items():
        if key in found:
            yield row, found[key]


def _crops(facts: Facts) -> Iterator[tuple[Picture, Picture]]:
    """The scene as exact rays see it, and what the crop left of it, both from the side."""
    from pipeline.pictures.scene import scene_of
    from stages.crop import CropSpec, crop_depth
    from stages.render.backends.embree import EmbreeBackend

    keep_all = CropSpec(extract_segments=(), sampling="none", frame="world")
    backend = EmbreeBackend()
    for row, table, index in _placed(facts, _shown_rows(facts, CROPS)):
        cloud = table.read(index, index + 1)[0]
        scene, assets = scene_of(table, index)
        K, T = Intrinsics.from_array(cloud["intrinsics"]), cloud["T_world_cam"]
        hits = backend.render(backend.prepare(scene, assets), Camera(intrinsics=K, T_world_cam=T))
        depth, segment = hits.dense(K.height, K.width)
        before = crop_depth(
            depth, K, keep_all, seed=0, segment=segment, segment_table=scene.segment_table,
            T_world_cam=T,
        )  # fmt: skip
        near = np.linalg.norm(before.points[:, :2], axis=1) < TABLE_SHOWN
        whole = paint_segments(before.points[near], before.segment[near])
        kept = paint_segments(cloud["points"], cloud["segment"])
        camera, T_side = around(whole, _from_the_side(T, whole), (WIDTH, WIDTH * 3 // 4))
        title = f"{row.scene} view {row.view} before the crop: {len(before.points):,} points"
        yield (
            (data_uri(draw(whole, camera, T_side)), title),
            (data_uri(draw(kept, camera, T_side)), f"after: {row.points:,} points"),
        )


def _from_the_side(T_world_cam: Any, paint: Paint) -> Any:
    """(3,) halfway between the camera's view and a level one across it."""
    towards = T_world_cam[:3, 3] - paint.points.mean(axis=0)
    towards = towards / max(float(np.linalg.norm(towards)), 1e-9)
    return towards + np.array([-towards[1], towards[0], 0.35])


def _grasps(facts: Facts, hand: str, protocol: str) -> tuple[list[Picture], list[Picture]]:
    from pipeline.pictures.cloud import load_surface
    from pipeline.pictures.sheet import choose, grasp_picture, tables_with

    tables = tables_with(facts.out, hand, protocol)
    surface = load_surface(tables[0])
    out: list[list[Picture]] = []
    for success in (True, False):
        pictures: list[Picture] = []
        for table, row in choose(tables, success, GRASPS):
            name = table.object_ids[table.arrays["object_index"][row]]
            code = table.outcome_codes[table.arrays["outcome"][row]]
            number = table.arrays["grasp_index"][row]
            image = grasp_picture(surface, table, row, GRASP_SIDE)
            pictures.append((data_uri(image), f"{name} #{number}: {code}"))
        out.append(pictures)
    return out[0], out[1]
