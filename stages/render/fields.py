"""Random numbers that are functions of (seed, purpose, pixel), in any order, for any subset.

A counter-based generator: SplitMix64 (Steele, Lea and Flood 2014) over the pixel's index. Only
integer operations, sums, products and square roots are used, since those round alike on every
machine; logarithms and cosines of numpy do not.
"""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Index = NDArray[np.int64]

GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1
TERMS = 8  # uniforms in one normal: excess kurtosis -1.2 / 8, no value beyond 4.9 deviations
BOUND = 5.0  # more than the largest normal
_CELLS = 4096
_PHI = np.array([NormalDist().cdf(x) for x in np.linspace(-BOUND, BOUND, _CELLS + 1)])


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def bits(seed: int, purpose: str, counter: Index) -> NDArray[np.uint64]:
    """64 random bits per entry of `counter` (any shape, >= 0)."""
    name = int.from_bytes(purpose.encode()[:8].ljust(8, b"\0"), "little")
    key = _mix(np.array([(seed + GOLDEN * name) & MASK], np.uint64))
    return _mix(key + (counter.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN))


def uniform(seed: int, purpose: str, counter: Index) -> Float:
    """Uniform in [0, 1), 53 bits."""
    return (bits(seed, purpose, counter) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def normal(seed: int, purpose: str, counter: Index) -> Float:
    """Mean 0, variance 1: the sum of TERMS 16-bit uniforms (Irwin 1927, Hall 1927)."""
    total = np.zeros(counter.shape, np.uint64)
    for half in range(TERMS // 4):
        drawn = bits(seed, purpose, counter * (TERMS // 4) + half)
        for shift in (0, 16, 32, 48):
            total += (drawn >> np.uint64(shift)) & np.uint64(0xFFFF)
    # a uniform over 0 .. 65535 has mean 65535 / 2 and variance (65536^2 - 1) / 12
    scale = np.sqrt(TERMS * (65536.0**2 - 1) / 12)
    return (total.astype(np.float64) - TERMS * 65535 / 2) / scale


def smooth_normal(seed: int, purpose: str, pixel: Index, width: int, length: float) -> Float:
    """Mean 0, variance 1 at every pixel, alike over about `length` pixels; white when it is <= 1.

    A lattice of normals of that spacing under cubic B-splines, divided by the root of the sum of
    the squared weights. `pixel` (M,) is row * `width` + column.
    """
    if length <= 1:
        return normal(seed, purpose, pixel)
    if len(pixel) == 0:
        return np.zeros(0)
    row, column = np.divmod(pixel, width)
    top = int(row.min())
    row0, wy = _spline(np.arange(top, int(row.max()) + 1) / length)
    column0, wx = _spline(np.arange(width) / length)
    # The lattice under these rows; each of its values depends on its own place alone.
    rows = np.arange(row0[0], row0[-1] + 4)
    columns = np.arange(column0[-1] + 4)
    lattice = normal(seed, purpose, (rows[:, None] << 32) + columns[None])
    # Along the columns first, for every row of the lattice, then down each pixel's column.
    along = np.zeros((len(rows), width))
    for j in range(4):
        along += wx[j] * lattice[:, column0 + j]
    unit_x = np.sqrt(wx[0] * wx[0] + wx[1] * wx[1] + wx[2] * wx[2] + wx[3] * wx[3])
    unit_y = np.sqrt(wy[0] * wy[0] + wy[1] * wy[1] + wy[2] * wy[2] + wy[3] * wy[3])
    along /= unit_x
    first, at = (row0 - row0[0])[row - top], row - top
    total = np.zeros(len(pixel))
    for i in range(4):
        total += (wy[i] / unit_y)[at] * along[first + i, column]
    return total


def smooth_uniform(seed: int, purpose: str, pixel: Index, width: int, length: float) -> Float:
    """Uniform in (0, 1) at every pixel, alike over about `length` pixels."""
    if length <= 1:
        return uniform(seed, purpose, pixel)
    return lookup(_PHI, smooth_normal(seed, purpose, pixel, width, length), -BOUND, BOUND)


def lookup(table: Float, x: Float, low: float, high: float) -> Float:
    """Linear interpolation in a table over equal steps from `low` to `high`, clamped."""
    at = np.clip((x - low) * ((len(table) - 1) / (high - low)), 0, len(table) - 1)
    cell = np.minimum(at.astype(np.int64), len(table) - 2)
    return table[cell] + (at - cell) * (table[cell + 1] - table[cell])


def _spline(at: Float) -> tuple[Index, tuple[Float, Float, Float, Float]]:
    """First lattice point and the four cubic B-spline weights at `at` >= 0."""
    cell = np.floor(at)
    t = at - cell
    s = 1 - t
    weights = (
        s * s * s / 6,
        (4 - 6 * t * t + 3 * t * t * t) / 6,
        (4 - 6 * s * s + 3 * s * s * s) / 6,
        t * t * t / 6,
    )
    return cell.astype(np.int64), weights
