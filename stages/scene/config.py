"""How many scenes of which kind, and when a scene counts as settled."""

from dataclasses import dataclass, field

from stages.contract import OPTIONAL, PLAN_ONLY
from stages.scene.errors import SceneConfigError
from stages.scene.granular.config import GrainsConfig

KINDS: tuple[str, ...] = ("floating", "tabletop", "clutter", "granular")


@dataclass(frozen=True, kw_only=True, slots=True)
class SceneConfig:
    """Counts per kind, the table, and the settling. Metres, seconds, radians.

    A scene's objects come from one split. A split with fewer than `clutter_min` objects gets no
    clutter scene, one with fewer than `granular_min` no granular scene.
    """

    floating: int = field(default=2, metadata=PLAN_ONLY)
    tabletop: int = field(default=2, metadata=PLAN_ONLY)
    clutter: int = field(default=2, metadata=PLAN_ONLY)
    clutter_min: int = field(default=3, metadata=PLAN_ONLY)  # objects
    clutter_max: int = field(default=6, metadata=PLAN_ONLY)
    granular: int = field(default=0, metadata=PLAN_ONLY)
    granular_min: int = field(default=1, metadata=PLAN_ONLY)  # objects
    granular_max: int = field(default=3, metadata=PLAN_ONLY)
    composition_seed: int = field(default=0, metadata=PLAN_ONLY)  # which objects meet in a scene
    table_size: tuple[float, float] = (1.2, 1.2)
    workspace_radius: float = 0.18  # objects start inside this circle around the origin
    floating_height: float = 0.3  # of the centre of mass above the origin
    clearance: float = 0.005  # between bounding boxes, and above the table, at the start
    # A book-like object on a table has about this friction; rolling keeps balls from rolling on.
    friction: tuple[float, float, float] = (0.8, 0.02, 0.002)  # 1, m, m
    timestep: float = 0.004
    max_time: float = 6.0  # simulated, per attempt
    # Below these for `rest_window`, a scene is at rest: 5 mm/s would still take 0.2 s per mm.
    rest_speed: float = 0.005  # m/s
    rest_spin: float = 0.1  # rad/s
    rest_window: float = 0.2
    max_penetration: float = 0.004  # between bodies, at rest
    attempts: int = 5  # fresh starts before the scene is a coded failure
    grains: GrainsConfig = field(default_factory=GrainsConfig, metadata=OPTIONAL)  # of `granular`

    def __post_init__(self) -> None:
        problems: list[str] = []
        if min(getattr(self, kind) for kind in KINDS) < 0:
            problems.append(f"{', '.join(KINDS)} must not be negative")
        if not 2 <= self.clutter_min <= self.clutter_max:
            problems.append(
                f"expected 2 <= clutter_min <= clutter_max, got {self.clutter_min} and "
                f"{self.clutter_max}"
            )
        if not 1 <= self.granular_min <= self.granular_max:
            problems.append(
                f"expected 1 <= granular_min <= granular_max, got {self.granular_min} and "
                f"{self.granular_max}"
            )
        if self.granular and min(self.table_size) <= max(self.grains.bin_size[:2]):
            problems.append(
                f"table_size {self.table_size} m does not carry a bin of {self.grains.bin_size} m"
            )
        if min(self.table_size) <= 2 * self.workspace_radius:
            problems.append(
                f"table_size {self.table_size} m leaves no rim around a workspace of radius "
                f"{self.workspace_radius} m"
            )
        if not (0 < self.timestep <= 0.01 and self.max_time > self.rest_window > 0):
            problems.append("expected 0 < timestep <= 0.01 s and max_time > rest_window > 0")
        if self.attempts < 1:
            problems.append(f"attempts: expected at least 1, got {self.attempts}")
        if problems:
            raise SceneConfigError("scene: " + "; ".join(problems))
