"""Which pixels can survive the crop. The others are never cast.

A pixel can survive only inside the projection of an extracted object's convex hull, and inside
that of the crop box. Both are rasterised outward (one pixel of margin), so nothing that would
have survived is lost; everything inside is still cast against every occluder.

A sensor's noise moves points along the ray of their pixel, so it never carries one into the box's
projection. It may give a pixel the segment of a neighbour: hulls grow by the sensor's `reach`.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Camera, Intrinsics
from schemas.frames import invert, pose_to_matrix, transform_points
from schemas.records import FIRST_OBJECT, Scene
from stages.crop import CropSpec, kept_segments, slopes_at

Float = NDArray[np.float64]
NEAR = 1e-3  # m; a hull that reaches behind this plane has no bounded projection
MARGIN = 1.0  # pixels


def surviving_pixels(
    scene: Scene, hulls_world: Sequence[Float], camera: Camera, spec: CropSpec, reach: int = 0
) -> NDArray[np.int64] | None:
    """Ascending pixel indices that can survive the crop, or None for all of them.

    `hulls_world` holds, per object of the scene, points (n, 3) whose convex hull contains it.
    `reach` is how many pixels beside an object may still get its segment (`SensorConfig.reach`).
    """
    T_cam_world = invert(camera.T_world_cam)
    footprint: Footprint | None = None
    kept = kept_segments(spec, scene.segment_table)
    # Table, background and grains reach across the image; only crops to objects can be culled.
    last = FIRST_OBJECT + len(hulls_world)
    if kept is not None and ((kept >= FIRST_OBJECT) & (kept < last)).all():
        footprint = Footprint(camera)
        for segment in kept:
            points = transform_points(T_cam_world, hulls_world[int(segment) - FIRST_OBJECT])
            if not footprint.add(points):
                footprint = None
                break
    mask = None if footprint is None else grown(footprint.mask(), reach)
    if spec.box_min is not None and spec.box_max is not None:
        corners = np.stack(np.meshgrid(*zip(spec.box_min, spec.box_max, strict=True)), axis=-1)
        corners = corners.reshape(-1, 3)
        if spec.box_frame == "world":
            corners = transform_points(T_cam_world @ pose_to_matrix(scene.table_pose), corners)
        box = Footprint(camera)
        if box.add(corners):
            mask = box.mask() if mask is None else mask & box.mask()
    return None if mask is None else np.flatnonzero(mask)


def grown(mask: NDArray[np.bool_], radius: int) -> NDArray[np.bool_]:
    """`mask` (H, W) and all pixels within `radius` rows and columns of it."""
    for axis in (0, 1):
        out = mask.copy()
        for shift in range(1, radius + 1):
            if axis == 0:
                out[shift:] |= mask[:-shift]
                out[:-shift] |= mask[shift:]
            else:
                out[:, shift:] |= mask[:, :-shift]
                out[:, :-shift] |= mask[:, shift:]
        mask = out
    return mask


class Footprint:
    """Pixels touched by the projections of some convex hulls.

    Each hull is convex in the image too, so a row holds one stretch of it. Only where stretches
    begin and end is written down; one running sum over the image then covers all hulls.

    Behind a distorted lens a hull is not convex, so it is drawn in the image of an ideal lens, and
    each pixel looks up the cell that its ray passes: conservative however the lens bends.
    """

    def __init__(self, camera: Camera) -> None:
        K = camera.intrinsics
        self.intrinsics, self._cell = _ideal_image(K) if K.distortion else (K, None)
        # one column more, where stretches end that reach the right edge
        shape = (K.height, K.width + 1)
        self._changes = np.zeros(shape, np.int16)

    def add(self, points_cam: Float) -> bool:
        """Add the hull of (n, 3) points, camera frame; False when its projection is unbounded.

        The hull of the projections is the projection of the hull when all points lie in front.
        Row by row: the extent of the outline within the row's band.
        """
        K = self.intrinsics
        if points_cam[:, 2].min() < NEAR:
            return False
        u = K.fx * points_cam[:, 0] / points_cam[:, 2] + K.cx
        v = K.fy * points_cam[:, 1] / points_cam[:, 2] + K.cy
        outline = _convex_outline(np.stack([u, v], axis=1))
        start, end = outline, np.roll(outline, -1, axis=0)
        top = max(0, int(np.floor(v.min() - MARGIN)) - 1)
        bottom = min(K.height, int(np.ceil(v.max() + MARGIN)) + 1)
        rows = np.arange(top, bottom)[:, None]
        low, high = rows - MARGIN, rows + 1 + MARGIN
        y0, y1 = start[:, 1][None], end[:, 1][None]
        touches = (np.maximum(y0, y1) >= low) & (np.minimum(y0, y1) <= high)
        dy = np.where(y1 == y0, 1.0, y1 - y0)  # a level edge spans its whole x range in its band
        a = np.where(y1 == y0, 0.0, np.clip((low - y0) / dy, 0, 1))
        b = np.where(y1 == y0, 1.0, np.clip((high - y0) / dy, 0, 1))
        x0, dx = start[:, 0][None], (end[:, 0] - start[:, 0])[None]
        xa, xb = x0 + a * dx, x0 + b * dx
        left = np.where(touches, np.minimum(xa, xb), np.inf).min(axis=1, initial=np.inf)
        right = np.where(touches, np.maximum(xa, xb), -np.inf).max(axis=1, initial=-np.inf)
        # the columns with column + 1 + MARGIN >= left and column - MARGIN <= right
        first = np.clip(np.ceil(left - 1 - MARGIN), 0, K.width)
        last = np.clip(np.floor(right + MARGIN), -1, K.width - 1)
        touched = first <= last
        rows = rows[touched, 0]
        self._changes[rows, first[touched].astype(np.int64)] += 1
        self._changes[rows, last[touched].astype(np.int64) + 1] -= 1
        return True

    def mask(self) -> NDArray[np.bool_]:
        """(H, W)."""
        mask = np.cumsum(self._changes[:, :-1], axis=1, dtype=np.int16) > 0
        if self._cell is None:
            return mask
        return np.append(mask.reshape(-1), False)[self._cell].reshape(mask.shape)


@lru_cache(maxsize=4)
def _ideal_image(K: Intrinsics) -> tuple[Intrinsics, NDArray[np.int64]]:
    """An ideal image of the size of K's over the same field of view, and each pixel's cell in it.

    Cells (H * W,) are row * width + column, or -1 where no ray comes out of the lens.
    """
    numbers: list[float] = []
    places: list[NDArray[np.int64]] = []
    slopes = [s.astype(np.float64) for s in slopes_at(np.arange(K.height * K.width), K)]
    for slope, size in zip(slopes, (K.width, K.height), strict=True):
        low = min(float(np.nanmin(slope, initial=0.0)), 0.0)
        high = max(float(np.nanmax(slope, initial=0.0)), 0.0)
        focal = size / max(high - low, 1e-9)
        numbers += [focal, min(max(-low * focal, 0.0), float(size))]
        cell = np.floor(np.nan_to_num(slope) * focal - low * focal).astype(np.int64)
        places.append(np.clip(cell, 0, size - 1))
    fx, cx, fy, cy = numbers
    ideal = Intrinsics(fx=fx, fy=fy, cx=cx, cy=cy, width=K.width, height=K.height)
    cell = places[1] * K.width + places[0]
    return ideal, np.where(np.isfinite(slopes[0]), cell, -1)


def _convex_outline(points: Float) -> Float:
    """Convex hull of (n, 2) points in order; points in a line come as they are."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return points[ConvexHull(points).vertices]
    except (QhullError, ValueError):  # all in a line, or fewer than three
        return points
