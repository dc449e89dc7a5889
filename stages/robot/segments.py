"""Which pixel belongs to what on a real frame, under the names that simulation uses.

A segmenter is a function of a frame that gives ids (H, W) and their names: a mask file, the user's
own network, what stands on the table, or a box around the workspace. The crop then takes
`extract_segments` and `remove_segments` as it does in simulation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.frames import check_transform, invert, pose_to_matrix
from schemas.records import BACKGROUND, FIRST_OBJECT, TABLE
from stages.crop import slopes_at
from stages.crop.files import read_image
from stages.robot.errors import SegmentationError
from stages.robot.frame import Frame
from stages.robot.table import ON_THE_ORIGIN, calibrate_table

Segments = tuple[NDArray[np.integer], Mapping[str, int]]
Segmenter = Callable[[Frame], Segments]
OBJECT = "object:"
EVERY_OBJECT = "object:*"
NAMES = {"background": BACKGROUND, "table": TABLE, EVERY_OBJECT: FIRST_OBJECT}


def named_ids(names: Mapping[str, Any], largest: int) -> dict[str, int]:
    """Name -> id, with "object:*" spread over all ids from its own to the `largest` of the image.

    No names at all mean the project's own: background 0, table 1, objects from 2.
    """
    names = names or NAMES
    if wrong := [n for n, i in names.items() if not (isinstance(i, int) and 0 <= i < 2**16)]:
        raise SegmentationError(f"segments {wrong}: expected ids from 0 to 65535")
    if largest >= 2**16:
        raise SegmentationError(f"segment: expected ids from 0 to 65535, got {largest}")
    out = {name: i for name, i in names.items() if name != EVERY_OBJECT}
    if EVERY_OBJECT in names:
        first = names[EVERY_OBJECT]
        out |= {f"{OBJECT}{i - first}": i for i in range(first, largest + 1)}
    return out


def segmented(frame: Frame, segmenter: Segmenter) -> Frame:
    """`frame` with the segments that `segmenter` finds. Raises SegmentationError."""
    found = cast(Any, segmenter(frame))
    if not (isinstance(found, tuple) and len(cast(tuple[Any, ...], found)) == 2):
        raise SegmentationError(
            f"segmenter: expected (ids (H, W), {{name: id}}), got {type(found).__name__}"
        )
    ids, table = np.asarray(found[0]), dict(found[1])
    if ids.shape != frame.depth.shape or not np.issubdtype(ids.dtype, np.integer):
        raise SegmentationError(
            f"segmenter: expected integer ids {frame.depth.shape}, got {ids.dtype} {ids.shape}"
        )
    if ids.size and not (ids.min() >= 0 and ids.max() < 2**16):
        raise SegmentationError(
            f"segmenter: expected ids 0 to 65535, got {ids.min()} to {ids.max()}"
        )
    return replace(frame, segment=ids, segment_table=table)


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskFile:
    """Ids of an image file (.npy or .png), read anew for each frame."""

    path: Path
    names: Mapping[str, int]

    def __call__(self, frame: Frame) -> Segments:
        image = read_image(self.path)
        if image.dtype.kind == "b":
            image = image.astype(np.uint8)
        if image.dtype.kind not in "ui":
            raise SegmentationError(f"{self.path}: expected integer ids, got {image.dtype}")
        return image, named_ids(self.names, int(image.max()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """A calibrated box: what lies in it is object:0. Needs the frame's T_world_cam.

    Corners in metres relative to `table_pose` (7,) xyz + wxyz, world, like the crop's box;
    `box_min` a little above 0 leaves the table out.
    """

    box_min: tuple[float, float, float]
    box_max: tuple[float, float, float]
    table_pose: tuple[float, ...] = ON_THE_ORIGIN

    def __call__(self, frame: Frame) -> Segments:
        pixel, points = points_above(frame, self.table_pose)
        inside = np.all((points >= self.box_min) & (points <= self.box_max), axis=1)
        return _painted(frame, [(pixel[inside], FIRST_OBJECT)])


@dataclass(frozen=True, kw_only=True, slots=True)
class OnTheTable:
    """Table, and what stands on it in clusters: object:0 is the largest.

    With `table_pose` (7,) and the frame's T_world_cam the table is known; without it the plane that
    most of the near pixels lie on is the table, anew for each frame.
    """

    table_pose: ArrayLike | None = None
    above: float = 0.008  # m; nearer to the plane is table: noise and its own unevenness
    reach: float = 0.6  # m; what is higher is no object
    half_width: float = 0.6  # m from the table's origin in x and y
    cell: float = 0.012  # m; points in cells that touch are one cluster
    min_points: int = 150  # pixels; smaller clusters stay background

    def __call__(self, frame: Frame) -> Segments:
        if self.table_pose is None:
            fit = calibrate_table(frame)
            pixel, points = points_above(frame, fit.table_pose, fit.T_world_cam)
        else:
            pixel, points = points_above(frame, self.table_pose)
        near = (np.abs(points[:, :2]) <= self.half_width).all(axis=1)
        z = points[:, 2]
        table = near & (np.abs(z) <= self.above)
        standing = near & (z > self.above) & (z <= self.reach)
        label = clusters(points[standing], self.cell)
        sizes = np.bincount(label) if len(label) else np.zeros(0, np.int64)
        order = [i for i in np.argsort(-sizes, kind="stable") if sizes[i] >= self.min_points]
        layers = [(pixel[table], TABLE)]
        layers += [(pixel[standing][label == i], FIRST_OBJECT + k) for k, i in enumerate(order)]
        return _painted(frame, layers)


def points_above(
    frame: Frame, table_pose: Any, T_world_cam: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pixels (M,) that were measured, and their points (M, 3) m relative to the table's pose.

    `T_world_cam` where the frame has none. Raises SegmentationError.
    """
    T = frame.T_world_cam if T_world_cam is None else T_world_cam
    if T is None:
        raise SegmentationError(
            f"{frame.name}: it has no T_world_cam, so where is the table's frame? Give the pose "
            "(calibrate-table finds one)"
        )
    z = frame.depth.reshape(-1).astype(np.float64)
    pixel = np.flatnonzero(np.isfinite(z) & (z > 0))
    x, y = slopes_at(pixel, frame.intrinsics)
    z = z[pixel]
    known = np.isfinite(x)
    points = np.stack([x * z, y * z, z], axis=1)[known]
    T = invert(pose_to_matrix(table_pose)) @ check_transform(T, "T_world_cam")
    return pixel[known], points @ T[:3, :3].T + T[:3, 3]


def _painted(frame: Frame, layers: list[tuple[NDArray[np.int64], int]]) -> Segments:
    ids = np.zeros(frame.depth.size, np.uint16)
    largest = TABLE
    for pixel, number in layers:
        ids[pixel] = number
        largest = max(largest, number)
    return ids.reshape(frame.depth.shape), named_ids(NAMES, largest)


def clusters(points: NDArray[np.float64], cell: float) -> NDArray[np.int64]:
    """(N,) cluster number of points (N, 3): those in cells of edge `cell` that touch are one.

    Numbered by their first cell; cells that share a corner touch.
    """
    if len(points) == 0:
        return np.zeros(0, np.int64)
    grid = np.floor((points - points.min(axis=0)) / cell).astype(np.int64) + 1
    size = grid.max(axis=0) + 2  # a free cell on each side: no key of a neighbour wraps
    key = (grid[:, 0] * size[1] + grid[:, 1]) * size[2] + grid[:, 2]
    cells, of_point = np.unique(key, return_inverse=True)
    pairs: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for dx, dy, dz in np.ndindex(3, 3, 3):
        step = ((dx - 1) * size[1] + dy - 1) * size[2] + dz - 1
        if step <= 0:
            continue  # half of the 26 are enough
        at = np.minimum(np.searchsorted(cells, cells + step), len(cells) - 1)
        touching = np.flatnonzero(cells[at] == cells + step)
        pairs.append((touching, at[touching]))
    a, b = (np.concatenate(side) for side in zip(*pairs, strict=True))
    root = np.arange(len(cells))
    while True:  # the smallest number wins along every pair, and pointers are halved
        low = np.minimum(root[a], root[b])
        new = root.copy()
        np.minimum.at(new, root[a], low)
        np.minimum.at(new, root[b], low)
        new = new[new]
        if np.array_equal(new, root) and np.array_equal(root[a], root[b]):
            break
        root = new
    return np.unique(root, return_inverse=True)[1][of_point]
