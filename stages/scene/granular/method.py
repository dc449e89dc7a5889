"""Numbers of the simulation method, with the published ones where ours differ."""

from dataclasses import dataclass

import numpy as np

from stages.scene.granular.errors import GrainsError

GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatorConfig:
    """Numbers of the method. Metres, seconds, kg/m^3."""

    radius: float = 0.005
    density: float = 2500.0  # of a grain: glass, quartz
    friction: float = 0.5  # between grains
    friction_wall: float = 0.5
    friction_body: float = 0.5
    # Grains turn and roll. False as published: contacts then push centres, which do not turn, as if
    # rolling were impossible, and slopes stand far steeper than those of spheres.
    spin: bool = True
    timestep: float = 1e-3
    iterations: int = 20  # sweeps per step
    relaxation: float = 1.0  # of a sweep; above 1 only without `accelerate`, below 2
    baumgarte: float = 0.2  # share of a penetration that one step takes back
    # Contacts that would close within this many radii are seen before they touch. 0 as published.
    margin: float = 0.25
    # Share of last step's impulses that the first sweep starts from. 0 as published.
    warm_start: float = 0.9
    accelerate: bool = True  # sweeps with Nesterov's momentum; False as published
    buckets_per_grain: float = 2.0  # size of the hash table
    split: bool = True  # detection and contacts in two kernels
    gravity: tuple[float, float, float] = GRAVITY
    # z below which a grain comes back at the other; equal: no cyclic boundary
    cycle: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name in ("radius", "density", "timestep", "buckets_per_grain"):
            if not 0 < getattr(self, name) < float("inf"):
                problems.append(f"{name}: expected > 0, got {getattr(self, name)}")
        for name in ("friction", "friction_wall", "friction_body"):
            if not 0 <= getattr(self, name) < float("inf"):
                problems.append(f"{name}: expected >= 0, got {getattr(self, name)}")
        if self.iterations < 1:
            problems.append(f"iterations: expected at least 1, got {self.iterations}")
        if not 0 < self.relaxation < 2:
            problems.append(f"relaxation: expected 0 to 2, got {self.relaxation}")
        if self.accelerate and self.relaxation > 1:
            problems.append(
                f"relaxation: {self.relaxation} is too much for accelerated sweeps; take at most "
                "1, or accelerate: False"
            )
        if not 0 <= self.baumgarte <= 1:
            problems.append(f"baumgarte: expected 0 to 1, got {self.baumgarte}")
        if not 0 <= self.margin <= 1 or not 0 <= self.warm_start <= 1:
            problems.append(
                f"margin and warm_start: expected 0 to 1, got {self.margin}, {self.warm_start}"
            )
        if not self.cycle[0] <= self.cycle[1]:
            problems.append(f"cycle: expected low <= high, got {self.cycle}")
        if not np.isfinite(self.gravity).all():
            problems.append(f"gravity: expected numbers, got {self.gravity}")
        if problems:
            raise GrainsError("grains: " + "; ".join(problems))

    @property
    def mass(self) -> float:
        """Of one grain, kg."""
        return self.density * 4 / 3 * np.pi * self.radius**3

    @property
    def reach(self) -> float:
        """m from a grain's centre within which it sees walls and bodies."""
        return self.radius * (1 + self.margin)

    @property
    def inertia(self) -> float:
        """Of one grain, a solid sphere, about its centre, kg m^2."""
        return 0.4 * self.mass * self.radius**2
