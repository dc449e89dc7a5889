"""Where grains start: loose staggered layers, each grain a little off its place."""

import numpy as np
from numpy.typing import NDArray

from stages.scene.granular.errors import GrainsError

SPACING = 2.6  # radii between places
JITTER = 0.29  # radii to each side: neighbours at 2.6 apart stay apart


def layers(
    count: int, half_x: float, half_y: float, bottom: float, radius: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """(count, 3) centres, m, that do not touch each other, above `bottom` in a box about z.

    Odd layers stand over the gaps of even ones. Raises GrainsError when not one grain fits.
    """
    step, edge = SPACING * radius, (1 + JITTER) * radius
    places: list[NDArray[np.float64]] = []
    for odd in (0, 1):
        shift = odd * step / 2
        x = np.arange(-half_x + edge + shift, half_x - edge + 1e-9, step)
        y = np.arange(-half_y + edge + shift, half_y - edge + 1e-9, step)
        places.append(np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2))
    if not len(places[0]):
        raise GrainsError(
            f"grains of radius {radius} m do not fit between walls {2 * half_x} m and "
            f"{2 * half_y} m apart; take smaller grains or a larger bin"
        )
    out: list[NDArray[np.float64]] = []
    left, z, odd = count, bottom + edge, 0
    while left > 0:
        plane = rng.permutation(places[odd])[:left]
        out.append(np.column_stack([plane, np.full(len(plane), z)]))
        left -= len(plane)
        z += step
        odd = 1 - odd if len(places[1]) else 0
    centres = np.concatenate(out) if out else np.zeros((0, 3))
    return centres + rng.uniform(-JITTER, JITTER, centres.shape) * radius
