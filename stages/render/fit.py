"""A sensor's numbers from real frames whose exact depth is known.

Robust statistics throughout: a frame holds outliers, a registration is off by a little.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from stages.render.errors import SensorFitError
from stages.render.retake import OTHER_SURFACE, Capture, Silhouette, slopes
from stages.render.sensor_config import STEEPEST, SensorConfig
from stages.robot.table import fit_plane

Float = NDArray[np.float64]
SIGMA = 1.4826  # standard deviation of a normal, in medians of |x|
ANGLE_BINS = np.deg2rad(np.arange(0, 91, 5))
DEPTH_BIN = 0.1  # m
LEAST = 200  # pixels a bin needs
LAGS = (1, 2, 3, 4, 6, 8, 12)  # pixels


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Fit:
    """`sensor` is the base with the fitted `numbers`; `notes` say what they rest on."""

    sensor: SensorConfig
    numbers: dict[str, float]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sample:
    """One frame against its exact depth: `error` (M,) m along the ray's z, NaN where missing."""

    silhouette: Silhouette
    error: Float
    intrinsics: Intrinsics

    @property
    def angle(self) -> Float:
        return np.arccos(np.clip(self.silhouette.cosine, 0, 1))


def sample_of(capture: Capture, silhouette: Silhouette) -> Sample:
    """`capture` against the exact `silhouette` of its object."""
    error = capture.depth.reshape(-1)[silhouette.pixel] - silhouette.z
    with np.errstate(invalid="ignore"):
        error[~(np.abs(error) < OTHER_SURFACE)] = np.nan
    return Sample(silhouette=silhouette, error=error, intrinsics=capture.intrinsics)


def plane_sample(capture: Capture) -> Sample:
    """`capture` against the plane that fits the pixels of its mask."""
    normal, offset, share = fit_plane(capture.points())
    if share < 0.5:
        raise SensorFitError(
            f"{capture.name}: only {share:.0%} of the masked points lie on one plane; expected a "
            "frame of a flat surface, or a mask of it"
        )
    x, y = slopes(capture.intrinsics)
    pixel = np.flatnonzero(capture.mask)
    towards = normal[0] * x[pixel] + normal[1] * y[pixel] + normal[2]
    cosine = np.abs(towards) / np.sqrt(1 + x[pixel] ** 2 + y[pixel] ** 2)
    exact = Silhouette(
        pixel=pixel, z=offset / towards, cosine=cosine, area=np.full(len(pixel), np.nan)
    )
    return sample_of(capture, exact)


def fit_sensor(samples: Sequence[Sample], base: SensorConfig) -> Fit:
    """Axial noise, its correlation, dropout and holes from `samples`; the rest stays `base`'s.

    One captured distance cannot tell a constant from a growth with z^2: with a `baseline` in
    `base` the noise is disparity's, else a constant. Raises SensorFitError when there is too
    little to fit.
    """
    n = base.numbers()
    numbers: dict[str, float] = {}
    kind = "disparity_noise" if n["baseline"] else "axial_constant"
    noise, grazing, bins = _axial(samples, n["baseline"])
    numbers[kind], numbers["axial_grazing"] = noise, grazing
    if kind == "disparity_noise":
        numbers["axial_constant"] = numbers["axial_quadratic"] = 0.0
    numbers["correlation"], numbers["white_share"] = _correlation(samples)
    start, end, floor = _dropout(samples)
    numbers["grazing_start"], numbers["grazing_end"], numbers["hole_fraction"] = start, end, floor
    numbers = {k: float(f"{v:.4g}") for k, v in numbers.items()}
    kept = {k: v for k, v in n.items() if k not in numbers and k not in ("edge_radius", "shadow")}
    sensor = SensorConfig(
        preset=base.preset, edge_radius=base.edge_radius, shadow=base.shadow, **kept, **numbers
    )
    pixels = sum(len(s.error) for s in samples)
    missing = sum(int(np.isnan(s.error).sum()) for s in samples)
    notes = (
        f"{len(samples)} frames, {pixels} pixels, {missing / pixels:.1%} of them missing",
        f"axial noise from {bins} bins of distance and angle",
    )
    return Fit(sensor=sensor, numbers=numbers, notes=notes)


def _axial(samples: Sequence[Sample], baseline: float) -> tuple[float, float, int]:
    """Level of the noise, its growth with the angle, and the number of bins."""
    from scipy.optimize import nnls

    rows: list[tuple[float, float, float, float]] = []
    for s in samples:
        angle, z, known = s.angle, s.silhouette.z, np.isfinite(s.error)
        cell = np.digitize(angle, ANGLE_BINS) + 100 * np.floor(z / DEPTH_BIN).astype(int)
        for c in np.unique(cell[known]):
            here = known & (cell == c)
            if here.sum() < LEAST or np.median(angle[here]) > STEEPEST:
                continue
            a, at = float(np.median(angle[here])), float(np.median(z[here]))
            level = at**2 / (s.intrinsics.fx * baseline) if baseline else 1.0
            steep = (a / (np.pi / 2 - a)) ** 2 / np.sqrt(at)
            sigma = SIGMA * float(np.median(np.abs(s.error[here])))
            rows.append((level, steep, sigma, float(here.sum())))
    if len(rows) < 2:
        raise SensorFitError(
            f"axial noise: {len(rows)} bins of distance and angle hold {LEAST} pixels or more, "
            "expected at least 2; give more or larger frames"
        )
    table = np.array(rows)
    # relative errors: a bin's sigma is known to a share of itself
    weight = np.sqrt(table[:, 3]) / table[:, 2]
    (level, steep), _ = nnls(table[:, :2] * weight[:, None], table[:, 2] * weight)
    return float(level), float(steep), len(rows)


def _correlation(samples: Sequence[Sample]) -> tuple[float, float]:
    """Length (pixels) and white share whose correlation over LAGS comes nearest."""
    products: dict[int, list[Float]] = {lag: [] for lag in (0, *LAGS)}
    for s in samples:
        K = s.intrinsics
        image = np.full(K.width * K.height, np.nan)
        facing = s.angle < np.deg2rad(60)
        spread = SIGMA * np.nanmedian(np.abs(s.error[facing])) if facing.any() else np.nan
        small = np.where(np.abs(s.error) < 4 * spread, s.error / spread, np.nan)
        image[s.silhouette.pixel[facing]] = small[facing]
        image = image.reshape(K.height, K.width)
        for lag, found in products.items():
            pair = image[:, lag:] * image[:, : K.width - lag]
            found.append(pair[np.isfinite(pair)])
    means = {lag: np.concatenate(p) for lag, p in products.items()}
    if any(len(p) < LEAST for p in means.values()):
        raise SensorFitError("correlation: too few pixels seen at less than 60 degrees")
    measured = np.array([means[lag].mean() for lag in LAGS]) / means[0].mean()
    best = (np.inf, 0.0, 0.0)
    for length in np.arange(2.0, 24.5, 0.5):
        smooth = np.array([_spline_correlation(lag / length) for lag in LAGS])
        white = float(np.clip(1 - (measured @ smooth) / (smooth @ smooth), 0, 1))
        error = float(((measured - (1 - white) * smooth) ** 2).sum())
        if error < best[0]:
            best = (error, float(length), white)
    return best[1], best[2]


def _spline_correlation(lag: float) -> float:
    """Of two pixels `lag` lattice steps apart, averaged over where they lie on the lattice."""
    at = np.linspace(0, 1, 32, endpoint=False)
    lattice = np.arange(-3, 4 + int(np.ceil(lag)) + 3)

    def weights(x: Float) -> Float:
        d = np.abs(x[:, None] - lattice[None])
        near, far = 2 / 3 - d**2 + d**3 / 2, (2 - d) ** 3 / 6
        w = np.where(d < 1, near, np.where(d < 2, far, 0.0))
        return w / np.sqrt((w**2).sum(axis=1, keepdims=True))

    return float((weights(at) * weights(at + lag)).sum(axis=1).mean())


def _dropout(samples: Sequence[Sample]) -> tuple[float, float, float]:
    """grazing_start, grazing_end (degrees) and the share missing where the surface faces us."""
    angle = np.rad2deg(np.concatenate([s.angle for s in samples]))
    lost = np.isnan(np.concatenate([s.error for s in samples])).astype(np.float64)
    cell = (angle // 2.5).astype(int)
    filled = [c for c in np.unique(cell) if (cell == c).sum() >= LEAST // 4]
    middle = np.array([angle[cell == c].mean() for c in filled])
    share = np.array([lost[cell == c].mean() for c in filled])
    count = np.array([(cell == c).sum() for c in filled], np.float64)
    # The least-missing half of the bins: what is missing there has other reasons than the angle.
    floor = float(
        np.average(share[share <= np.median(share)], weights=count[share <= np.median(share)])
    )
    best = (np.inf, 90.0, 90.0)
    for start in np.arange(40.0, 90.0, 2.5):
        for end in np.arange(start + 5.0, 90.5, 2.5):
            grazes = np.clip((middle - start) / (end - start), 0, 1) ** 2
            error = float((count * (share - floor - (1 - floor) * grazes) ** 2).sum())
            if error < best[0]:
                best = (error, float(start), float(end))
    return best[1], best[2], min(floor, 1.0)
