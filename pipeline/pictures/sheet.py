"""A contact sheet of labels: do the pictures show what the labels say?"""

from pathlib import Path

import numpy as np

from pipeline.pictures.cloud import load_surface
from pipeline.pictures.hand import HandSurface
from pipeline.pictures.points import Float, Image, Paint, around, draw, join, paint_mesh, tile
from schemas.frames import pose_to_matrix, transform_points
from stages.shard.errors import UnknownChoiceError
from stages.shard.grasps import GraspTable
from stages.shard.layout import SPLITS
from stages.shard.open import load_commit, load_manifest

OBJECT_COLOUR = np.array([230, 159, 0], np.uint8)
SIDE = 300  # pixels


def tables_with(out: Path, hand: str, protocol: str) -> list[GraspTable]:
    """The hand's grasps in every split that has some."""
    splits = load_manifest(out)["splits"]
    shards = load_commit(out)["shards"]
    found: list[GraspTable] = []
    error: UnknownChoiceError | None = None
    for split in [s for s in SPLITS if s in splits and f"{s}-grasps.zarr" in shards]:
        try:
            found.append(GraspTable(out, split, hand, protocol))
        except UnknownChoiceError as unknown:
            error = unknown
    if not found:
        raise error or UnknownChoiceError("hand", hand, ())
    return found


def choose(tables: list[GraspTable], success: bool, count: int) -> list[tuple[GraspTable, int]]:
    """Up to `count` grasps, one outcome after the other, and within one spread over objects."""
    groups: dict[tuple[str, str], list[tuple[GraspTable, int]]] = {}
    for table in tables:
        for name, rows in table.rows.items():
            for row in rows.tolist():
                if bool(table.arrays["success"][row]) == success:
                    code = table.outcome_codes[table.arrays["outcome"][row]]
                    groups.setdefault((code, name), []).append((table, row))
    by_code: dict[str, list[tuple[GraspTable, int]]] = {}
    for code in sorted({code for code, _ in groups}):
        columns = [groups[key] for key in sorted(groups) if key[0] == code]
        by_code[code] = _deal(columns, count)
    return _deal(list(by_code.values()), count)


def _deal(columns: list[list[tuple[GraspTable, int]]], count: int) -> list[tuple[GraspTable, int]]:
    """The first of every column, then the second, until there are `count`."""
    longest = max(map(len, columns), default=0)
    dealt = [column[i] for i in range(longest) for column in columns if i < len(column)]
    return dealt[:count]


def label_sheet(out: Path, hand: str, protocol: str, each: int = 5) -> tuple[Image, list[str]]:
    """Successes above, failures below, and the titles; the hand at its squeeze pose."""
    tables = tables_with(out, hand, protocol)
    surface = load_surface(tables[0])
    images: list[Image] = []
    titles: list[str] = []
    for success in (True, False):
        chosen = choose(tables, success, each)
        for table, row in chosen:
            images.append(grasp_picture(surface, table, row))
            name = table.object_ids[table.arrays["object_index"][row]]
            code = table.outcome_codes[table.arrays["outcome"][row]]
            number = table.arrays["grasp_index"][row]
            verdict = "success" if success else "failure"
            titles.append(f"{name} #{number}\n{verdict}: {code}")
        for _ in range(each - len(chosen)):
            images.append(np.full((SIDE, SIDE, 3), 255, np.uint8))
            titles.append(f"no other {'success' if success else 'failure'}\nin this dataset")
    return tile(images, titles, each), titles


def grasp_picture(surface: HandSurface, table: GraspTable, row: int, side: int = SIDE) -> Image:
    """(side, side, 3) RGB of one grasp: the object and the hand at its squeeze pose."""
    share = (side / SIDE) ** 1.5  # of the points that a picture of SIDE gets
    name = table.object_ids[table.arrays["object_index"][row]]
    vertices, faces = table.mesh(name)
    pose = table.arrays["object_pose"][row]
    placed = transform_points(pose_to_matrix(pose), vertices)
    thing = paint_mesh(placed, faces, OBJECT_COLOUR, round(30000 * share))
    hand = surface.paint(table.arrays["squeeze_qpos"][row], round(60000 * share))
    both = join([thing, hand])
    camera, T = around(both, side_view(thing, hand), (side, side))
    return draw(both, camera, T)


def side_view(thing: Paint, hand: Paint) -> Float:
    """(3,) direction to look from: across the line from hand to object, a little from above."""
    reach = hand.points.mean(axis=0) - thing.points.mean(axis=0)
    across = np.cross(reach, [0.0, 0.0, 1.0])
    length = float(np.linalg.norm(across))
    across = across / length if length > 0.02 else np.array([0.8, 0.6, 0.0])
    return across + np.array([0.0, 0.0, 0.45])
