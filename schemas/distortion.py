"""Lens distortion on normalised image coordinates x/z, y/z: OpenCV's models.

Brown-Conrady as in OpenCV's `projectPoints` (Brown 1966), Kannala-Brandt as in its `fisheye`
module (Kannala and Brandt 2006). Coefficients have no unit and do not change with the image size.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.errors import SchemaError

Float = NDArray[np.float64]
Model = Literal["none", "brown_conrady", "kannala_brandt"]
MODELS: tuple[Model, ...] = get_args(Model)
COEFFICIENTS: dict[str, tuple[str, ...]] = {
    "none": (),
    "brown_conrady": ("k1", "k2", "p1", "p2", "k3"),
    "kannala_brandt": ("k1", "k2", "k3", "k4"),
}
"""By model, in OpenCV's order."""

MAX_SLOPE = 100.0  # 89.4 degrees off the axis; a z-depth means nothing at 90
RESIDUAL = 1e-10  # of the distorted coordinates; a solution that misses them by more is none
_GRID = 4097
_STEPS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Distortion:
    """A lens. Coefficients that the model does not have must be 0."""

    model: Model = "none"
    k1: float = 0.0
    k2: float = 0.0
    k3: float = 0.0
    k4: float = 0.0
    p1: float = 0.0
    p2: float = 0.0

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            listed = ", ".join(MODELS)
            raise SchemaError(f"distortion: unknown {self.model!r}; choose from {listed}")
        own = COEFFICIENTS[self.model]
        numbers = {name: value for name, value in asdict(self).items() if name != "model"}
        if not np.isfinite(list(numbers.values())).all():
            raise SchemaError(f"distortion: holds NaN or infinity: {numbers}")
        if foreign := sorted(name for name, v in numbers.items() if v and name not in own):
            raise SchemaError(
                f"distortion: {foreign} set, but {self.model} has {', '.join(own) or 'none'}"
            )

    def __bool__(self) -> bool:
        return self.model != "none"

    @classmethod
    def from_dict(cls, values: Any) -> "Distortion":
        """From {"model": ..., "k1": ...}; coefficients left out are 0."""
        known = ["model", *sorted({n for names in COEFFICIENTS.values() for n in names})]
        if not isinstance(values, dict) or not set(values) <= set(known) or "model" not in values:
            raise SchemaError(f"distortion: expected model and keys of {known}, got {values!r}")
        try:
            numbers = {str(k): float(v) for k, v in values.items() if k != "model"}
        except (TypeError, ValueError, OverflowError) as error:
            raise SchemaError(f"distortion: not numbers: {error}") from error
        return cls(model=values["model"], **numbers)

    @classmethod
    def from_array(cls, numbers: ArrayLike) -> "Distortion":
        """From `to_array`'s (6,), or (0,) for none."""
        values = np.asarray(numbers, np.float64).tolist()
        if not values:
            return cls()
        if len(values) != 6 or values[0] not in range(len(MODELS)):
            raise SchemaError(f"distortion: expected (6,) with a model 0 to 2, got {values}")
        model = MODELS[int(values[0])]
        return cls(model=model, **dict(zip(COEFFICIENTS[model], values[1:], strict=False)))

    def to_array(self) -> Float:
        """(6,) float64: place in MODELS, coefficients in OpenCV's order, zeros. (0,) for none."""
        if not self:
            return np.zeros(0)
        out = np.zeros(6)
        out[0] = MODELS.index(self.model)
        own = [getattr(self, name) for name in COEFFICIENTS[self.model]]
        out[1 : 1 + len(own)] = own
        return out

    def distort(self, x: ArrayLike, y: ArrayLike) -> tuple[Float, Float]:
        """Ideal x/z, y/z of one shape -> where the lens puts them."""
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        if self.model == "kannala_brandt":
            r = np.hypot(x, y)
            scale = _profile(np.arctan(r), self._radial) / np.where(r > 0, r, 1.0)
            scale = np.where(r > 0, scale, 1.0)
            return x * scale, y * scale
        if self.model == "brown_conrady":
            s = x * x + y * y
            radial = 1 + s * (self.k1 + s * (self.k2 + s * self.k3))
            return (
                x * radial + 2 * self.p1 * x * y + self.p2 * (s + 2 * x * x),
                y * radial + self.p1 * (s + 2 * y * y) + 2 * self.p2 * x * y,
            )
        return x, y

    def undistort(self, x: ArrayLike, y: ArrayLike) -> tuple[Float, Float]:
        """Distorted coordinates -> ideal x/z, y/z; NaN where no ray comes out of the lens.

        The solution that joins on to the image centre: polynomials fold back beyond the lens's
        field of view, and what lies there is no solution. `distort` gives the input back to
        RESIDUAL.
        """
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        if not self:
            return x, y
        fisheye = self.model == "kannala_brandt"
        limit = _turning_point(self._radial, np.arctan(MAX_SLOPE) if fisheye else MAX_SLOPE)
        r = np.hypot(x, y)
        t = _inverse_profile(r, self._radial, limit)
        with np.errstate(invalid="ignore"):
            scale = np.where(r > 0, (np.tan(t) if fisheye else t) / np.where(r > 0, r, 1.0), 1.0)
            u, v = x * scale, y * scale
            if self.p1 or self.p2:
                u, v = self._newton(x, y, u, v)
                sound = (np.hypot(u, v) <= limit) & (self._determinant(u, v) > 0)
                u, v = np.where(sound, u, np.nan), np.where(sound, v, np.nan)
            back_x, back_y = self.distort(u, v)
            sound = np.hypot(back_x - x, back_y - y) <= RESIDUAL
        return np.where(sound, u, np.nan), np.where(sound, v, np.nan)

    @property
    def _radial(self) -> tuple[float, ...]:
        return self.k1, self.k2, self.k3, self.k4

    def _jacobian(self, u: Float, v: Float) -> tuple[Float, Float, Float]:
        """d x/d u, d x/d v = d y/d u, d y/d v of the Brown-Conrady model."""
        s = u * u + v * v
        radial = 1 + s * (self.k1 + s * (self.k2 + s * self.k3))
        slope = 2 * (self.k1 + s * (2 * self.k2 + s * 3 * self.k3))
        return (
            radial + u * u * slope + 2 * self.p1 * v + 6 * self.p2 * u,
            u * v * slope + 2 * self.p1 * u + 2 * self.p2 * v,
            radial + v * v * slope + 6 * self.p1 * v + 2 * self.p2 * u,
        )

    def _determinant(self, u: Float, v: Float) -> Float:
        a, b, d = self._jacobian(u, v)
        return a * d - b * b

    def _newton(self, x: Float, y: Float, u: Float, v: Float) -> tuple[Float, Float]:
        for _ in range(_STEPS):
            at_x, at_y = self.distort(u, v)
            a, b, d = self._jacobian(u, v)
            det = a * d - b * b
            det = np.where(np.abs(det) > 1e-12, det, np.nan)
            ex, ey = at_x - x, at_y - y
            u, v = u - (d * ex - b * ey) / det, v - (a * ey - b * ex) / det
        return u, v


def _profile(t: Float, k: tuple[float, ...]) -> Float:
    """t (1 + k1 t^2 + k2 t^4 + k3 t^6 + k4 t^8)."""
    s = t * t
    return t * (1 + s * (k[0] + s * (k[1] + s * (k[2] + s * k[3]))))


def _profile_slope(t: Float, k: tuple[float, ...]) -> Float:
    s = t * t
    return 1 + s * (3 * k[0] + s * (5 * k[1] + s * (7 * k[2] + s * 9 * k[3])))


def _turning_point(k: tuple[float, ...], largest: float) -> float:
    """Where the profile first stops rising, at most `largest`."""
    # In 1 / t^2, since the leading coefficient is then 1 and none can be too small to divide by.
    roots = np.roots([1.0, 3 * k[0], 5 * k[1], 7 * k[2], 9 * k[3]])
    real = roots[np.abs(roots.imag) <= 1e-9 * np.abs(roots)].real
    steepest = float(real.max(initial=0.0))
    return largest if steepest <= largest**-2 else steepest**-0.5


def _inverse_profile(r: Float, k: tuple[float, ...], limit: float) -> Float:
    """t of profile(t) = r within 0..limit, where it rises; NaN for larger r."""
    t = np.tan(np.linspace(0.0, np.arctan(limit), _GRID))
    rising = _profile(t, k)
    upper = np.clip(np.searchsorted(rising, r), 1, _GRID - 1)
    low, high = t[upper - 1], t[upper]
    out = np.where(r <= rising[-1], np.interp(r, rising, t), np.nan)
    for _ in range(_STEPS):
        slope = _profile_slope(out, k)
        out = np.clip(out - (_profile(out, k) - r) / np.where(slope > 0, slope, np.inf), low, high)
    return out
