"""How candidates are sampled."""

from dataclasses import dataclass, field

from stages.contract import CONFIG_PATH, PLAN_ONLY
from stages.grasp.errors import GraspConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class GraspConfig:
    """Hands, counts and the samplers' numbers. Metres, radians.

    Candidates are made in chunks of `chunk`, each with its own seed, so that asking for more
    leaves the earlier ones as they are; `grasps_per_object` is rounded up to whole chunks.
    """

    hands: tuple[str, ...] = field(
        default=("allegro_right", "panda_gripper"), metadata=PLAN_ONLY | CONFIG_PATH
    )  # names of configs/hands/*.yaml or paths of hand files
    grasps_per_object: int = field(default=16, metadata=PLAN_ONLY)  # per hand
    chunk: int = 8  # candidates per item
    tries_per_anchor: int = 6  # proposals at one surface point before the next is taken
    anchors: int = 512  # surface points, in farthest-first order, that candidates start from
    tries_per_grasp: int = 80  # before the sampler gives up on one candidate
    # Both contact normals lie within atan(friction) of the closing line (Nguyen 1988); the
    # physics uses 0.6, a smaller value here leaves a margin for rounded edges.
    friction: float = 0.4
    approach_tilt: float = 0.35  # rad, standard deviation about the inward normal, dexterous
    approach_lean: float = 0.9  # 1; largest share of "straight down" in the approach, dexterous
    depth_min: float = 0.0  # grasp centre below the surface along the approach, dexterous
    depth_max: float = 0.05
    retract_step: float = 0.005  # backwards until the open hand is free of the object
    retract_max: float = 0.10
    closing_steps: int = 120  # from pregrasp to closed
    opposition: float = -0.3  # some two contact normals must have at most this cosine
    table_clearance: float = 0.003  # of the hand above the table at pregrasp and grasp
    max_penetration: float = 0.003  # hand into object at the grasp
    dedup_distance: float = 0.005  # two candidates nearer than both of these are one
    dedup_angle: float = 0.17

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not self.hands:
            problems.append("hands: name at least one, e.g. panda_gripper")
        for name in ("grasps_per_object", "chunk", "tries_per_grasp", "closing_steps", "anchors"):
            if getattr(self, name) < 1:
                problems.append(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not self.friction > 0:
            problems.append(f"friction: expected > 0, got {self.friction}")
        if not self.depth_min <= self.depth_max:
            problems.append("expected depth_min <= depth_max")
        if problems:
            raise GraspConfigError("grasp: " + "; ".join(problems))
