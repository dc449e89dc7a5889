"""Exact rays -> what a depth camera reports: noise, steps, holes, edges, shadows.

Every random number is a function of the seed and of the pixel, and what a pixel needs of its
neighbours is cast with it, so that any subset of pixels gets the bits of the whole image. All
arithmetic is element by element. Sources of the models: `sensor_presets.py`.

In this order: rays shifted sideways; flying pixels at depth edges; axial noise; rounding of
disparity and depth; then losses: shadow of the second imager, grazing angles, edges, blobs, range.
A flying pixel carries the segment of the foreground, like the sensor's own masks do.
"""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Camera, Intrinsics
from stages.crop import slopes_at
from stages.render.backends.protocol import Hits, RayBackend, RenderBackend
from stages.render.cull import grown
from stages.render.errors import RenderConfigError
from stages.render.fields import lookup, smooth_normal, smooth_uniform, uniform
from stages.render.sensor_config import JITTER_BOUND, STEEPEST, SensorConfig

Float = NDArray[np.float64]
Index = NDArray[np.int64]
_COSINES = 8192
_ANGLE = np.array([math.acos(i / _COSINES) for i in range(_COSINES + 1)])


def observe(
    backend: RenderBackend,
    prepared: Any,
    camera: Camera,
    pixels: Index | None,
    sensor: SensorConfig,
    seed: int,
) -> Hits:
    """What the sensor reports at `pixels` (ascending, or None for all); lost pixels have z NaN.

    Bit-equal for any choice of pixels around a pixel. Without noise, `backend.render` itself.
    Raises RenderConfigError when the backend cannot cast the rays that noise needs.
    """
    if not sensor.enabled:
        return backend.render(prepared, camera, pixels)
    if not isinstance(backend, RayBackend):
        raise RenderConfigError(
            f"sensor: {type(backend).__name__} casts no single rays, so it has no sensor models; "
            'use backend: embree, or switch the sensor off (sensor: {preset: ""})'
        )
    K = camera.intrinsics
    wanted = np.arange(K.width * K.height) if pixels is None else pixels
    cast = wanted if pixels is None else _with_neighbours(wanted, K, sensor.neighbours)
    slopes = _shifted_slopes(backend, prepared, camera, cast, sensor, seed)
    hits = backend.cast(prepared, camera, cast, slopes)
    assert hits.cosine is not None
    at = slice(None) if len(cast) == len(wanted) else np.searchsorted(cast, wanted)
    exact, segment = hits.z[at].astype(np.float64), hits.segment[at]
    angle = lookup(_ANGLE, np.where(np.isnan(exact), 1.0, hits.cosine[at]), 0.0, 1.0)

    keep = np.isfinite(exact)
    if sensor.shadow:
        keep &= _seen_twice(backend, prepared, camera, wanted, hits.z[at], slopes[at], sensor)
    keep &= ~_grazes(angle, wanted, K.width, sensor, seed)
    z = exact
    if sensor.neighbours:
        near, far, front = edges(hits, wanted, K, sensor.edge_radius)
        edge = far - near > sensor.numbers()["edge_jump"]
        z, segment, lost = _at_edges(z, segment, (near, far, front), edge, wanted, sensor, seed)
        keep &= ~lost
    z = z + axial_sigma(z, angle, K.fx, sensor) * _axial_noise(wanted, K.width, sensor, seed)
    z = rounded(z, K.fx, sensor)
    keep &= ~_in_hole(wanted, K.width, sensor, seed)
    with np.errstate(invalid="ignore"):
        keep &= (z > sensor.min_range) & (z < sensor.max_range)
    return Hits(
        pixel=wanted,
        z=np.where(keep, z, np.nan).astype(np.float32),
        segment=np.where(keep, segment, 0).astype(np.uint16),
        normal=None if hits.normal is None else hits.normal[at],
        # a flying pixel has the segment of one surface and the face of another
        face=None
        if hits.face is None
        else np.where(segment == hits.segment[at], hits.face[at], -1),
        barycentric=None
        if hits.barycentric is None
        else (hits.barycentric[0][at], hits.barycentric[1][at]),
    )


def eyes(camera: Camera, sensor: SensorConfig) -> list[Camera]:
    """The cameras that `observe` looks through: the camera, and its second imager."""
    if not (sensor.enabled and sensor.shadow):
        return [camera]
    return [camera, camera.moved(second_eye(sensor))]


def second_eye(sensor: SensorConfig) -> tuple[float, float, float]:
    """(3,) m, of the second imager in the frame of the first."""
    return (sensor.numbers()["baseline"], 0.0, 0.0)


def _with_neighbours(pixels: Index, K: Intrinsics, radius: int) -> Index:
    """`pixels` and all within `radius` rows and columns of them, ascending."""
    if radius == 0:
        return pixels
    mask = np.zeros(K.height * K.width, bool)
    mask[pixels] = True
    return np.flatnonzero(grown(mask.reshape(K.height, K.width), radius))


def axial_sigma(z: Float, angle: Float, fx: float, sensor: SensorConfig) -> Float:
    """Standard deviation (m) of depth at `z` (m) and `angle` of incidence (rad), `fx` in pixels."""
    n = sensor.numbers()
    away = z - n["axial_nearest"]
    sigma = n["axial_constant"] + n["axial_quadratic"] * away * away
    if n["axial_grazing"]:
        a = _steepness(angle)
        sigma = sigma + n["axial_grazing"] * a * a / np.sqrt(z)
    if n["disparity_noise"]:
        sigma = sigma + z * z * (n["disparity_noise"] / (fx * n["baseline"]))
    return sigma


def rounded(z: Float, fx: float, sensor: SensorConfig) -> Float:
    """`z` (m) with its disparity (pixels, at focal length `fx`) and then itself in whole steps."""
    n = sensor.numbers()
    if n["disparity_step"]:
        steps = np.rint(fx * n["baseline"] / n["disparity_step"] / z)
        z = np.where(steps > 0, fx * n["baseline"] / n["disparity_step"] / np.maximum(steps, 1), 0)
    if n["depth_step"]:
        z = np.rint(z / n["depth_step"]) * n["depth_step"]
    return z


def edges(
    hits: Hits, wanted: Index, K: Intrinsics, radius: int
) -> tuple[Float, Float, NDArray[np.uint16]]:
    """Nearest and farthest depth (M,) m within `radius` pixels, and the nearest's segment.

    Infinite where nothing was hit. Pixels outside the image do not count.
    """
    wide = K.width + 2 * radius
    depth = np.full((K.height + 2 * radius) * wide, np.nan, np.float32)
    ids = np.zeros(len(depth), np.uint16)
    row, column = np.divmod(hits.pixel, K.width)
    place = (row + radius) * wide + column + radius
    depth[place] = np.where(np.isnan(hits.z), np.float32(np.inf), hits.z)
    ids[place] = hits.segment
    row, column = np.divmod(wanted, K.width)
    middle = (row + radius) * wide + column + radius
    near, far, front = depth[middle], depth[middle], ids[middle]
    for dr in range(-radius, radius + 1):
        for dc in range(-radius, radius + 1):
            there = middle + dr * wide + dc
            z = depth[there]
            nearer = z < near
            front = np.where(nearer, ids[there], front)
            near = np.where(nearer, z, near)
            far = np.where(z > far, z, far)
    nowhere = np.isinf(near)
    near, far = near.astype(np.float64), far.astype(np.float64)
    far[nowhere] = near[nowhere] = 0.0  # nothing anywhere near: no edge
    return near, far, front


def _shifted_slopes(
    backend: RayBackend,
    prepared: Any,
    camera: Camera,
    cast: Index,
    sensor: SensorConfig,
    seed: int,
) -> NDArray[np.float32]:
    """(M, 2) x/z and y/z of the rays, shifted by the lateral noise."""
    K, n = camera.intrinsics, sensor.numbers()
    slopes = np.stack(slopes_at(cast, K), axis=1)
    if not (n["lateral"] or n["lateral_grazing"]):
        return slopes
    sigma: Float | float = n["lateral"]
    if n["lateral_grazing"]:
        cosine = backend.cast(prepared, camera, cast, slopes).cosine
        assert cosine is not None
        angle = lookup(_ANGLE, np.where(np.isnan(cosine), 1.0, cosine), 0.0, 1.0)
        sigma = sigma + n["lateral_grazing"] * _steepness(angle)
    for axis, (name, focal) in enumerate((("shift x", K.fx), ("shift y", K.fy))):
        drawn = smooth_normal(seed, name, cast, K.width, n["correlation"])
        shift = sigma * np.clip(drawn, -JITTER_BOUND, JITTER_BOUND)
        slopes[:, axis] += (shift / focal).astype(np.float32)
    return slopes


def _steepness(angle: Float) -> Float:
    a = np.minimum(angle, STEEPEST)
    return a / (math.pi / 2 - a)


def _axial_noise(wanted: Index, width: int, sensor: SensorConfig, seed: int) -> Float:
    """(M,) mean 0, variance 1: a smooth and a white part."""
    n = sensor.numbers()
    smooth = smooth_normal(seed, "axial", wanted, width, n["correlation"])
    if n["white_share"] == 0 or n["correlation"] <= 1:
        return smooth
    white = smooth_normal(seed, "white", wanted, width, 0)
    return math.sqrt(1 - n["white_share"]) * smooth + math.sqrt(n["white_share"]) * white


def _seen_twice(
    backend: RayBackend,
    prepared: Any,
    camera: Camera,
    wanted: Index,
    z: NDArray[np.float32],
    slopes: NDArray[np.float32],
    sensor: SensorConfig,
) -> NDArray[np.bool_]:
    """(M,) whether the second imager sees the point too, and within its image."""
    n, K = sensor.numbers(), camera.intrinsics
    hit = np.isfinite(z)
    points = np.stack([slopes[hit, 0] * z[hit], slopes[hit, 1] * z[hit], z[hit]], axis=1)
    seen = backend.visible(prepared, camera, second_eye(sensor), points)
    column = (wanted[hit] % K.width) + 0.5 - K.fx * n["baseline"] / z[hit].astype(np.float64)
    out = np.zeros(len(wanted), bool)
    out[hit] = seen & (column >= 0)  # Intel's invalid depth band
    return out


def _grazes(
    angle: Float, wanted: Index, width: int, sensor: SensorConfig, seed: int
) -> NDArray[np.bool_]:
    """(M,) lost at a grazing angle; blobs rather than salt, as the noise is correlated."""
    n = sensor.numbers()
    if n["grazing_start"] >= 90:
        return np.zeros(len(wanted), bool)
    start, end = math.radians(n["grazing_start"]), math.radians(n["grazing_end"])
    share = np.clip((angle - start) / max(end - start, 1e-9), 0.0, 1.0)
    drawn = smooth_uniform(seed, "grazing", wanted, width, n["hole_size"])
    return drawn < share * share


def _at_edges(
    z: Float,
    segment: NDArray[np.uint16],
    around: tuple[Float, Float, NDArray[np.uint16]],
    edge: NDArray[np.bool_],
    wanted: Index,
    sensor: SensorConfig,
    seed: int,
) -> tuple[Float, NDArray[np.uint16], NDArray[np.bool_]]:
    """Depth, segment and loss at the edges: one number decides, so that the shares are exact."""
    near, far, front = around
    n = sensor.numbers()
    drawn = uniform(seed, "edge", wanted)
    lost = edge & (drawn < n["edge_dropout"])
    flies = edge & (drawn >= 1 - n["flying"]) & np.isfinite(far) & np.isfinite(z)
    between = near + uniform(seed, "flying", wanted) * np.where(flies, far - near, 0.0)
    return np.where(flies, between, z), np.where(flies, front, segment), lost


def _in_hole(wanted: Index, width: int, sensor: SensorConfig, seed: int) -> NDArray[np.bool_]:
    """(M,) in a missing blob: where a smooth field is below the quantile of `hole_fraction`."""
    n = sensor.numbers()
    if n["hole_fraction"] <= 0:
        return np.zeros(len(wanted), bool)
    if n["hole_fraction"] >= 1:
        return np.ones(len(wanted), bool)
    level = NormalDist().inv_cdf(n["hole_fraction"])
    return smooth_normal(seed, "hole", wanted, width, n["hole_size"]) < level
