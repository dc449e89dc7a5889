"""A frame of one object as a picture of its errors."""

import numpy as np
from numpy.typing import NDArray

from pipeline.pictures.points import Image
from stages.render.retake import Silhouette

FULL = 0.002  # m of error at which a colour is full
NEAR_COLOUR, FAR_COLOUR = np.array([0, 114, 178]), np.array([213, 94, 0])  # Okabe and Ito
SIDE = 260  # pixels


def error_picture(depth: NDArray[np.float64], exact: Silhouette) -> Image:
    """(SIDE, SIDE, 3) RGB: blue before the surface, red behind, black where nothing was measured.

    `depth` (H, W) m; colours are full at 2 mm along the normal.
    """
    error = exact.normal_error(depth)
    share = np.clip(np.abs(np.nan_to_num(error)) / FULL, 0, 1)[:, None]
    colour = np.where(error[:, None] < 0, NEAR_COLOUR, FAR_COLOUR)
    shown = 235 * (1 - share) + colour * share
    shown[np.isnan(error)] = 0
    image = np.full((*depth.shape, 3), 255, np.uint8)
    image.reshape(-1, 3)[exact.pixel] = shown.astype(np.uint8)
    row, column = np.divmod(exact.pixel, depth.shape[1])
    return _square(image, row, column)


def _square(image: Image, row: NDArray[np.int64], column: NDArray[np.int64]) -> Image:
    """The part around the pixels (row, column), scaled to SIDE by the nearest pixel."""
    half = int(max(np.ptp(row), np.ptp(column))) // 2 + 8
    y, x = int(row.min() + row.max()) // 2, int(column.min() + column.max()) // 2
    at = (np.arange(SIDE) + 0.5) / SIDE * 2 * half - half
    r, c = np.floor(y + at).astype(np.int64), np.floor(x + at).astype(np.int64)
    inside = ((r >= 0) & (r < image.shape[0]))[:, None] & ((c >= 0) & (c < image.shape[1]))[None]
    picked = image[np.clip(r, 0, image.shape[0] - 1)][:, np.clip(c, 0, image.shape[1] - 1)]
    return np.where(inside[:, :, None], picked, np.uint8(255)).astype(np.uint8)
