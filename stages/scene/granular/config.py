"""Numbers of a granular scene."""

from dataclasses import dataclass
from typing import Literal

from stages.scene.errors import SceneConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class GrainsConfig:
    """A bin on the table, objects in it, and grains poured over them. Metres, seconds, kg/m^3.

    The inside of the bin stands on the table top around the origin.
    """

    radius: float = 0.007  # of the grains, all alike
    density: float = 2500.0  # of a grain: glass, quartz
    friction: float = 0.5  # between grains
    friction_wall: float = 0.5
    friction_object: float = 0.5
    bin_size: tuple[float, float, float] = (0.28, 0.28, 0.14)  # inside: x, y, height
    fill_min: float = 0.05  # depth of the bed, drawn for each scene
    fill_max: float = 0.12
    # Height of an object's lowest point above the floor of the bin, drawn for each object.
    lift_min: float = 0.0
    lift_max: float = 0.02
    max_grains: int = 50_000
    timestep: float = 1e-3
    iterations: int = 12  # sweeps of the solver per step
    # At rest below this speed, root mean square over the grains, for `rest_window`.
    rest_speed: float = 0.005
    rest_window: float = 0.1
    max_time: float = 4.0  # simulated
    max_penetration: float = 0.1  # at rest, of a grain's radius
    knot_spacing: float = 0.003  # of the objects' distance grids
    # Bits differ between devices, so the choice is part of the key.
    device: Literal["cpu", "cuda"] = "cpu"

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name in ("radius", "density", "timestep", "rest_speed", "rest_window", "knot_spacing"):
            if not 0 < getattr(self, name) < float("inf"):
                problems.append(f"{name}: expected > 0, got {getattr(self, name)}")
        for name in ("friction", "friction_wall", "friction_object"):
            if not 0 <= getattr(self, name) < float("inf"):
                problems.append(f"{name}: expected >= 0, got {getattr(self, name)}")
        x, y, height = self.bin_size
        if not min(x, y) > 2 * 1.3 * self.radius:
            problems.append(
                f"radius: grains of {2 * self.radius} m do not fit into a bin of {x} x {y} m; take "
                "smaller grains or a larger bin"
            )
        if not 2 * self.radius < self.fill_min <= self.fill_max <= height:
            problems.append(
                f"expected 2 radius < fill_min <= fill_max <= the bin's height, got "
                f"{2 * self.radius}, {self.fill_min}, {self.fill_max}, {height} m"
            )
        if not 0 <= self.lift_min <= self.lift_max:
            problems.append(
                f"expected 0 <= lift_min <= lift_max, got {self.lift_min}, {self.lift_max}"
            )
        if self.iterations < 1 or self.max_grains < 1:
            problems.append("iterations and max_grains: expected at least 1")
        if not self.max_time > self.rest_window:
            problems.append("expected max_time > rest_window")
        if not 0 < self.max_penetration <= 1:
            problems.append(f"max_penetration: expected 0 to 1, got {self.max_penetration}")
        if problems:
            raise SceneConfigError("grains: " + "; ".join(problems))
