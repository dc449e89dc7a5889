"""Where the hand goes, from geometry alone: poses of the grasp frame, object frame.

The grasp frame (HandSpec.T_root_grasp): origin between the fingertips, +z approach, +y closing.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from stages.grasp.config import GraspConfig

Float = NDArray[np.float64]
MAX_UPWARD = np.deg2rad(100.0)
# (origin (3,), direction (3,)) -> distance and outward normal of the first hit, or None
FirstHit = Callable[[Float, Float], tuple[float, Float] | None]


def antipodal_proposals(
    point: Float,
    normal: Float,
    first_hit: FirstHit,
    opening: float,
    down: Float,
    config: GraspConfig,
    rng: np.random.Generator,
) -> Iterator[Float]:
    """Grasp frames (4, 4) of a jaw whose closing line meets the surface at `point`.

    The opposite contact is where a jaw that comes from outside, `opening` away, first meets the
    object. Both outward normals lie within the friction cone of the line (Nguyen 1988), so two
    hard fingers with that friction hold the object in force closure.
    """
    half_angle = np.arctan(config.friction)
    while True:
        direction = _in_cone(-normal, half_angle, rng)
        hit = first_hit(point + opening * direction, -direction)
        if hit is None:
            yield np.full((4, 4), np.nan)
            continue
        travel, opposite_normal = hit
        width = opening - travel
        if width < 1e-4 or opposite_normal @ direction < np.cos(half_angle):
            yield np.full((4, 4), np.nan)
            continue
        # Approach directions within 100 degrees of straight down; the others meet the table.
        angle = rng.uniform(-MAX_UPWARD, MAX_UPWARD)
        side, other = _perpendicular(direction, down)
        approach = np.cos(angle) * side + np.sin(angle) * other
        yield _frame(approach, direction, point + 0.5 * width * direction)


def approach_proposals(
    point: Float, normal: Float, down: Float, config: GraspConfig, rng: np.random.Generator
) -> Iterator[Float]:
    """Grasp frames (4, 4) that come along the tilted inward normal, turned at random about it.

    The normal is leant towards `down` (unit, the way to the table) by a random amount, since a
    hand that comes from the side or from below of a low object meets the table.
    """
    while True:
        lean = rng.uniform(0.0, config.approach_lean)
        tilted = (1 - lean) * -normal + lean * down + rng.normal(0.0, config.approach_tilt, 3)
        approach = tilted / np.linalg.norm(tilted)
        angle = rng.uniform(0, 2 * np.pi)
        side, other = _perpendicular(approach)
        closing = np.cos(angle) * side + np.sin(angle) * other
        depth = rng.uniform(config.depth_min, config.depth_max)
        yield _frame(approach, closing, point + depth * approach)


def _in_cone(axis: Float, half_angle: float, rng: np.random.Generator) -> Float:
    """A direction uniform over the cap of `half_angle` around `axis`."""
    cosine = rng.uniform(np.cos(half_angle), 1.0)
    sine, angle = np.sqrt(1 - cosine**2), rng.uniform(0, 2 * np.pi)
    side, other = _perpendicular(axis)
    return cosine * axis + sine * (np.cos(angle) * side + np.sin(angle) * other)


def _perpendicular(axis: Float, towards: Float | None = None) -> tuple[Float, Float]:
    """Two unit vectors that make a frame with `axis`; the first as near `towards` as can be."""
    if towards is None or abs(float(axis @ towards)) > 0.999:
        towards = np.eye(3)[int(np.argmin(np.abs(axis)))]
    side = towards - (towards @ axis) * axis
    side /= np.linalg.norm(side)
    return side, np.cross(axis, side)


def _frame(approach: Float, closing: Float, origin: Float) -> Float:
    T = np.eye(4)
    T[:3, :3] = np.stack([np.cross(closing, approach), closing, approach], axis=1)
    T[:3, 3] = origin
    return T
