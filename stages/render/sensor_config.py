"""What a depth sensor does to exact depth, as numbers."""

import math
from dataclasses import dataclass, fields
from typing import Literal

from stages.render.errors import RenderConfigError
from stages.render.sensor_presets import SENSORS

JITTER_BOUND = 3.0  # standard deviations at which a ray's sideways shift is cut off
STEEPEST = math.radians(80.0)  # angle beyond which noise grows no more: the models diverge at 90
_OFF = {"grazing_start": 90.0, "grazing_end": 90.0, "max_range": 100.0, "edge_jump": 0.01}


@dataclass(frozen=True, kw_only=True, slots=True)
class SensorConfig:
    """Noise of a depth camera; off unless a number or a preset is given.

    `preset` fills what is not given (`stages/render/sensor_presets.py`, with sources); without one
    a number that is not given is switched off. After construction no field is None. With z the
    depth (m), a the angle between ray and normal (rad, at most 80 degrees) and f = fx (pixels), the
    standard deviation of depth is

        axial_constant + axial_quadratic (z - axial_nearest)^2
        + axial_grazing (a / (pi/2 - a))^2 / sqrt(z) + z^2 disparity_noise / (f baseline)

    (Nguyen 2012 and, for the last term, Intel's tuning guide.) Normals are bounded.
    """

    preset: Literal["", "d415", "d435", "azure_kinect", "structured_light"] = ""
    axial_constant: float | None = None  # m
    axial_quadratic: float | None = None  # 1/m
    axial_nearest: float | None = None  # m
    axial_grazing: float | None = None  # m^1.5
    disparity_noise: float | None = None  # pixels, root mean square
    correlation: float | None = None  # pixels over which noise is alike; 0 or 1 is white
    white_share: float | None = None  # of the axial variance, white beside the correlated rest
    lateral: float | None = None  # pixels, standard deviation of a ray's shift along each axis
    lateral_grazing: float | None = None  # pixels, times a / (pi/2 - a), is added (Nguyen 2012)
    baseline: float | None = None  # m from the imager to the second one or the projector, along +x
    disparity_step: float | None = None  # pixels; disparity f baseline / z is rounded to it
    depth_step: float | None = None  # m; depth is rounded to it
    grazing_start: float | None = None  # degrees; beyond, ((a - start) / (end - start))^2 is lost
    grazing_end: float | None = None
    edge_radius: int = 1  # pixels; an edge is a jump between a pixel and one so near
    edge_jump: float | None = None  # m, 0.01 unless given
    edge_dropout: float | None = None  # share of edge pixels lost
    flying: float | None = None  # share of edge pixels between foreground and background
    hole_fraction: float | None = None  # share of the image lost in blobs
    hole_size: float | None = None  # pixels, of a blob
    shadow: bool | None = None  # what the second imager does not see is lost
    min_range: float | None = None  # m; nearer depths are lost
    max_range: float | None = None  # m, 100 unless given; farther depths are lost

    def __post_init__(self) -> None:
        if self.preset and self.preset not in SENSORS:
            raise RenderConfigError(
                f"sensor.preset: unknown {self.preset!r}; choose from {', '.join(SENSORS)}"
            )
        given = SENSORS.get(self.preset, {})
        for field in fields(self):
            if getattr(self, field.name) is None:
                off = False if field.name == "shadow" else _OFF.get(field.name, 0.0)
                object.__setattr__(self, field.name, given.get(field.name, off))
        problems = [
            f"{name}: expected a number >= 0, got {value}"
            for name, value in self.numbers().items()
            if math.isnan(value) or value < 0
        ]
        problems += [
            f"{name}: expected a share of 0 to 1, got {self.numbers()[name]}"
            for name in ("white_share", "edge_dropout", "flying", "hole_fraction")
            if self.numbers()[name] > 1
        ]
        n = self.numbers()
        if n["edge_radius"] < 1:
            problems.append(f"edge_radius: expected at least 1 pixel, got {self.edge_radius}")
        if not n["grazing_start"] <= n["grazing_end"] <= 90:
            problems.append("expected grazing_start <= grazing_end <= 90 degrees")
        if not n["min_range"] < n["max_range"]:
            problems.append("expected min_range < max_range")
        if n["edge_dropout"] + n["flying"] > 1:
            problems.append("edge_dropout and flying: expected a sum of at most 1")
        wants = [k for k in ("disparity_noise", "disparity_step", "shadow") if getattr(self, k)]
        if wants and not n["baseline"]:
            problems.append(f"{', '.join(wants)}: expected a baseline > 0 m with it")
        if problems:
            raise RenderConfigError("sensor: " + "; ".join(problems))

    def numbers(self) -> dict[str, float]:
        """Every number by name, none of them None."""
        return {f.name: float(getattr(self, f.name)) for f in fields(self) if f.name != "preset"}

    @property
    def enabled(self) -> bool:
        """Whether depth is changed at all."""
        return self != SensorConfig(
            preset=self.preset,
            **{f.name: _neutral(f.name, getattr(self, f.name)) for f in fields(self)[1:]},
        )

    @property
    def neighbours(self) -> int:
        """Pixels beside a pixel that its value depends on."""
        return self.edge_radius if self.edge_dropout or self.flying else 0

    @property
    def lateral_bound(self) -> float:
        """Largest shift of a ray along one axis, pixels."""
        n = self.numbers()
        steepest = STEEPEST / (math.pi / 2 - STEEPEST)
        return JITTER_BOUND * (n["lateral"] + n["lateral_grazing"] * steepest)

    @property
    def reach(self) -> int:
        """Pixels beside an object that may still get its segment: shifted rays, flying pixels."""
        return math.ceil(self.lateral_bound) + self.neighbours


_IDLE = ("axial_nearest", "correlation", "white_share", "baseline", "edge_radius", "hole_size")


def _neutral(name: str, value: float) -> float:
    """`value` for fields that change nothing by themselves, else the one that is off."""
    if name in _IDLE or name == "edge_jump":
        return value
    return False if name == "shadow" else _OFF.get(name, 0.0)
