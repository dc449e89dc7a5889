"""How far frames are from real ones: what is missing, how noisy, how dense, how large, how alike.

Energy distance (Szekely and Rizzo 2013) between features of pixels, with the distribution it has
when both sides are alike: tiles of the image change sides at random. Tiles, since the errors of
neighbouring pixels are alike and single pixels would make every difference look significant.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from stages.render.retake import Silhouette, back_projected

Float = NDArray[np.float64]
TILE = 24  # pixels
STRIDE = 3  # pixels between those whose features are compared, across and down
STEP = 4  # pixels between the two whose errors are subtracted: roughness
MISSING = 3.0  # where a missing pixel lies on its own axis, in typical errors
MOST = 1200  # pixels a side
SHUFFLES = 400


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Features:
    """(M, 3) per pixel of a silhouette: error along the normal (m), its change over STEP pixels
    (m), and 1 where nothing was measured (the others are 0 there). `tile` (M,) names its tile."""

    values: Float
    tile: NDArray[np.int64]


def statistics(
    depth: Float, exact: Silhouette, K: Intrinsics, T_cam_object: Float
) -> dict[str, Any]:
    """JSON values of one frame of an object, `depth` (H, W) m, against its exact silhouette.

    Lengths in mm; `density` holds points per cm^2 of visible surface for thirds of the distance.
    """
    error = exact.normal_error(depth)
    known = np.isfinite(error)
    cuts = np.quantile(exact.z, [0, 1 / 3, 2 / 3, 1])
    third = np.clip(np.digitize(exact.z, cuts[1:3]), 0, 2)
    density = [
        {
            "distance_m": round(float(exact.z[third == i].mean()), 4),
            "points_per_cm2": round(
                float(known[third == i].sum() / exact.area[third == i].sum() / 1e4), 3
            ),
        }
        for i in range(3)
    ]
    mine = np.full(depth.size, np.nan)
    mine[exact.pixel[known]] = depth.reshape(-1)[exact.pixel[known]]
    local = (back_projected(mine.reshape(depth.shape), K) - T_cam_object[:3, 3]) @ T_cam_object[
        :3, :3
    ]
    size = np.ptp(np.quantile(local, [0.005, 0.995], axis=0), axis=0) if len(local) else np.zeros(3)
    absolute = np.abs(error[known]) * 1000
    return {
        "pixels": len(exact.pixel),
        "missing": round(float(1 - known.mean()), 4),
        "noise_median_mm": round(float(np.median(absolute)), 4) if known.any() else None,
        "noise_90_mm": round(float(np.quantile(absolute, 0.9)), 4) if known.any() else None,
        "noise_bias_mm": round(float(np.median(error[known])) * 1000, 4) if known.any() else None,
        "extents_mm": [round(float(v) * 1000, 1) for v in size],
        "density": density,
    }


def features(depth: Float, exact: Silhouette, block: int = 0) -> Features:
    """Of every STRIDE-th pixel of the silhouette; `block` keeps the tiles of frames apart."""
    height, width = depth.shape
    error = np.full(height * width, np.nan)
    error[exact.pixel] = exact.normal_error(depth)
    row, column = np.divmod(exact.pixel, width)
    chosen = (row % STRIDE == 0) & (column % STRIDE == 0) & (column + STEP < width)
    at = exact.pixel[chosen]
    here, there = error[at], error[at + STEP]
    change = np.where(np.isfinite(there), there - here, 0.0)
    lost = ~np.isfinite(here)
    values = np.stack([np.where(lost, 0, here), np.where(lost, 0, change), lost], axis=1)
    tile = (row[chosen] // TILE) * (width // TILE + 1) + column[chosen] // TILE
    return Features(values=values, tile=tile + block * (height * width))


def scale(real: Features) -> Float:
    """(3,) to divide features by: the real frame's typical error, roughness, and 1 / MISSING."""
    known = real.values[real.values[:, 2] == 0]
    typical = 1.4826 * np.median(np.abs(known[:, :2]), axis=0)
    return np.array([*np.maximum(typical, 1e-6), 1 / MISSING])


def energy_distance(real: Features, other: Features, unit: Float) -> dict[str, float]:
    """Distance, the median and 95th percentile of it when tiles change sides, and the p-value.

    Features are divided by `unit`. Tiles of the same name on both sides change places together.
    """
    rng = np.random.default_rng(0)
    sides = [_some(side, rng) for side in (real, other)]
    points = np.concatenate([side.values for side in sides]) / unit
    first = np.repeat([True, False], [len(side.values) for side in sides])
    square = (points**2).sum(axis=1)
    D = np.sqrt(np.maximum(square[:, None] + square[None] - 2 * points @ points.T, 0))
    _, tile = np.unique(np.concatenate([side.tile for side in sides]), return_inverse=True)
    shared = np.intersect1d(sides[0].tile, sides[1].tile).size > 0
    swaps = rng.random((SHUFFLES, tile.max() + 1)) < 0.5
    swapped = swaps[:, tile]
    # Paired tiles swap places; unpaired ones are dealt to a side.
    labels = (first[None] ^ swapped) if shared else swapped
    null = _energy(D, labels)
    found = float(_energy(D, first[None])[0])
    return {
        "distance": round(found, 5),
        "null_median": round(float(np.median(null)), 5),
        "null_95": round(float(np.quantile(null, 0.95)), 5),
        "p": round(float((1 + (null >= found).sum()) / (1 + SHUFFLES)), 5),
    }


def _some(side: Features, rng: np.random.Generator) -> Features:
    if len(side.values) <= MOST:
        return side
    keep = np.sort(rng.choice(len(side.values), MOST, replace=False))
    return Features(values=side.values[keep], tile=side.tile[keep])


def _energy(D: Float, first: NDArray[np.bool_]) -> Float:
    """(S,) energy distances of (N, N) distances under (S, N) labels."""
    count = first.sum(axis=1, keepdims=True)
    weight = np.where(first, 1 / np.maximum(count, 1), -1 / np.maximum(first.shape[1] - count, 1))
    return -((weight @ D) * weight).sum(axis=1)
