"""Which pixels can survive the crop. The others are never cast.

A pixel can survive only inside the projection of an extracted object's convex hull, and inside
that of the crop box. Both are rasterised outward (one pixel of margin), so nothing that would
have survived is lost; everything inside is still cast against every occluder.

A sensor's noise moves points along the ray of their pixel, so it never carries one into the box's
projection. It may give a pixel the segment of a neighbour: hulls grow by the sensor's `reach`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Camera
from schemas.frames import invert, pose_to_matrix, transform_points
from schemas.records import FIRST_OBJECT, Scene
from stages.crop import CropSpec, kept_segments

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
    shape = (camera.intrinsics.height, camera.intrinsics.width)
    mask: NDArray[np.bool_] | None = None
    kept = kept_segments(spec, scene.segment_table)
    # Table and background reach across the image; only crops to objects can be culled by hulls.
    if kept is not None and (kept >= FIRST_OBJECT).all():
        mask = np.zeros(shape, bool)
        for segment in kept:
            points = transform_points(T_cam_world, hulls_world[int(segment) - FIRST_OBJECT])
            footprint = hull_mask(points, camera, MARGIN + reach)
            if footprint is None:
                mask = None
                break
            mask |= footprint
    if spec.box_min is not None and spec.box_max is not None:
        corners = np.stack(np.meshgrid(*zip(spec.box_min, spec.box_max, strict=True)), axis=-1)
        corners = corners.reshape(-1, 3)
        if spec.box_frame == "world":
            corners = transform_points(T_cam_world @ pose_to_matrix(scene.table_pose), corners)
        footprint = hull_mask(corners, camera)
        if footprint is not None:
            mask = footprint if mask is None else mask & footprint
    return None if mask is None else np.flatnonzero(mask)


def hull_mask(
    points_cam: Float, camera: Camera, margin: float = MARGIN
) -> NDArray[np.bool_] | None:
    """(H, W) pixels touched by the projected convex hull of (n, 3) points, or None if unbounded.

    The hull is grown by `margin` pixels along both axes.

    The hull of the projections is the projection of the hull when all points lie in front. Row by
    row: the extent of the outline within the row's band, since the outline is convex.
    """
    K = camera.intrinsics
    if points_cam[:, 2].min() < NEAR:
        return None
    u = K.fx * points_cam[:, 0] / points_cam[:, 2] + K.cx
    v = K.fy * points_cam[:, 1] / points_cam[:, 2] + K.cy
    outline = _convex_outline(np.stack([u, v], axis=1))
    start, end = outline, np.roll(outline, -1, axis=0)
    rows = np.arange(K.height)[:, None]
    low, high = rows - margin, rows + 1 + margin
    y0, y1 = start[:, 1][None], end[:, 1][None]
    touches = (np.maximum(y0, y1) >= low) & (np.minimum(y0, y1) <= high)
    dy = np.where(y1 == y0, 1.0, y1 - y0)  # a level edge spans its whole x range in its band
    a = np.where(y1 == y0, 0.0, np.clip((low - y0) / dy, 0, 1))
    b = np.where(y1 == y0, 1.0, np.clip((high - y0) / dy, 0, 1))
    x0, dx = start[:, 0][None], (end[:, 0] - start[:, 0])[None]
    xa, xb = x0 + a * dx, x0 + b * dx
    left = np.where(touches, np.minimum(xa, xb), np.inf).min(axis=1)
    right = np.where(touches, np.maximum(xa, xb), -np.inf).max(axis=1)
    columns = np.arange(K.width)[None]
    return (columns + 1 + margin >= left[:, None]) & (columns - margin <= right[:, None])


def _convex_outline(points: Float) -> Float:
    """Convex hull of (n, 2) points in order (Andrew's monotone chain, 1979)."""
    ordered = np.unique(points, axis=0)
    if len(ordered) < 3:
        return ordered
    return np.array(_chain(ordered) + _chain(ordered[::-1]))


def _chain(points: Float) -> list[tuple[float, float]]:
    chain: list[tuple[float, float]] = []
    for x, y in points.tolist():
        while len(chain) >= 2:
            (ax, ay), (bx, by) = chain[-2], chain[-1]
            if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                break
            chain.pop()
        chain.append((x, y))
    return chain[:-1]
