"""Numbers of the physics and of both protocols, each with its unit and where it comes from.

DGB marks a number as published with DexGraspBench's evaluation (Chen et al., BODex, 2024); the
others are this project's, chosen for speed and recorded in the protocol hash.
"""

from dataclasses import dataclass, field
from typing import Literal

from schemas.camera import Intrinsics
from stages.crop import CropSpec
from stages.envs.real.config import RealEnvConfig

MAX_WORKERS = 48


@dataclass(frozen=True, kw_only=True, slots=True)
class PhysicsConfig:
    """The simulation that every protocol shares."""

    timestep: float = 0.004  # s (DGB); integrator implicitfast, elliptic cone
    impratio: float = 10.0  # 1 (DGB): stiffer friction than normal, against creep
    noslip_iterations: int = 2  # (DGB)
    condim: int = 4  # sliding + torsional friction (DGB)
    friction: tuple[float, ...] = (0.6, 0.02, 0.0001)  # 1, m, m: sliding, torsional (DGB), rolling
    object_mass: float | None = 0.1  # kg (DGB); None keeps the asset's own mass
    disable_multiccd: bool = False  # True: one contact a geom pair, as MuJoCo 3.3. It halves the
    # contacts, but a flat pad on a flat face then has one contact point that jumps about: a box of
    # 0.1 kg held with 10 N creeps 23 mm/s under 1 N, against 0.007 mm with this False (measured)
    disable_islands: bool = True  # one object and one hand are a single island: a fifth faster
    max_speed: float = 100.0  # m/s or rad/s of any joint; beyond it the state has diverged


@dataclass(frozen=True, kw_only=True, slots=True)
class ClosingConfig:
    """Pregrasp -> grasp -> squeeze, simulated once a grasp."""

    approach_time: float = 0.2  # s, pregrasp -> grasp
    squeeze_time: float = 0.2  # s, grasp -> squeeze
    settle_time: float = 0.2  # s at the squeeze targets
    target_every: int = 5  # steps between new targets on the way: smooth, few calls into Python
    max_pene: float = 0.01  # m, initial hand-object penetration that fails at once (DGB)


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsConfig:
    """Contact and quality metrics at the grasp pose, before anything moves."""

    contact_margin: float = 0.01  # m, distances of the fingers are looked for up to here (DGB)
    contact_threshold: float = 0.002  # m, a nearer body counts as in contact (DGB)
    analytic: bool = True  # the five metrics of stages.envs.grasp_quality; up to 20 ms a grasp
    analytic_threshold: float = 0.005  # m, nearer contacts count for them (DGB)
    tips_only: bool = True  # contacts of the fingertips alone count for them (DGB)
    friction_share: float = 0.5  # 1, of the friction coefficients, so that a grasp has some room
    # to give (DGB)


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldConfig:
    """Holding against one force after another; what both kinds of fc share."""

    fc_force_scale: float = 10.0  # N per kg of the object (DGB)
    hold_time: float = 2.0  # s a direction (DGB)
    trans_thre: float = 0.05  # m (DGB)
    angle_thre: float = 0.2617993877991494  # rad, 15 degrees (DGB)
    count_closing: bool = False  # whether motion is counted from before the hand closes (as DGB
    # does) instead of from after the squeeze. A jaw that centres an object moves it without harm
    check_every: int = 20  # steps between checks of both thresholds (0.08 s)
    settled_every: int = 10  # steps between looks at the speed; divides check_every
    settled_move: float = 0.001  # m; a hold is decided early once what the object would still move
    settled_turn: float = 0.008726646259971648  # rad (0.5 degrees); and turn, at its present speed
    # in the time left, is below both. 0 runs every hold to its end. On the 984 holds of
    # DexGraspBench's 200 reference grasps it changes none; 2 mm and 0.7 degrees change one
    every_direction: bool = True  # False ends at the first direction that fails

    def __post_init__(self) -> None:
        if self.settled_every < 1 or self.check_every % self.settled_every:
            raise ValueError(
                f"settled_every: expected a divisor of check_every = {self.check_every}, "
                f"got {self.settled_every}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class FcConfig(HoldConfig):
    """Force closure in free space: hold against six axis-aligned forces, gravity off."""

    closing: ClosingConfig = field(default_factory=ClosingConfig)


@dataclass(frozen=True, kw_only=True, slots=True)
class TabletopConfig:
    """Grip on the table, weight as a wrench, lift, then slip, rotation and live contact."""

    closing: ClosingConfig = field(default_factory=ClosingConfig)
    gravity: float = 9.81  # m/s^2; weight = mass * gravity, applied at the centre of mass
    weight_time: float = 0.1  # s under the weight before the lift
    lift_height: float = 0.2  # m
    lift_time: float = 0.8  # s, minimum-jerk profile
    hold_time: float = 0.3  # s at the top
    lift_slip_thre: float = 0.03  # m, motion of the object in the hand's frame
    angle_thre: float = 0.2617993877991494  # rad, 15 degrees, relative to the hand
    check_every: int = 25  # steps between checks (0.1 s)
    table_size: tuple[float, ...] = (2.0, 2.0)  # m


@dataclass(frozen=True, kw_only=True, slots=True)
class DexGraspBenchConfig(HoldConfig):
    """The published evaluation of DexGraspBench under fc, to compare with what others report.

    All numbers are DGB but those of the early decision. Labels are those of its own evaluator
    where the hand keeps its `native_dynamics`, and mass and friction are the defaults of
    PhysicsConfig.
    """

    closing: ClosingConfig = field(
        default_factory=lambda: ClosingConfig(
            approach_time=0.4, squeeze_time=0.4, settle_time=0.0, target_every=10
        )
    )  # two ramps of ten targets, ten steps each
    disable_multiccd: bool = True  # one contact a geom pair, as the MuJoCo of its time (3.3) had
    count_closing: bool = True
    check_every: int = 50  # steps; ten blocks a direction
    settled_move: float = 0.003  # m; on the 930 holds of the reference it changes none, 5 mm and
    settled_turn: float = 0.017453292519943295  # rad (1 degree); 1.5 degrees change one
    every_direction: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfidenceConfig:
    """How sure a label is: the share of repeats under small errors that succeed."""

    repeats: int = 0  # 0 stores no confidence
    friction: float = 0.2  # 1; every coefficient times a factor from 1 - this to 1 + this
    mass: float = 0.2  # 1; the object's mass and inertia, likewise
    translation: float = 0.002  # m, radius of the ball of the hand's position errors
    rotation: float = 0.03490658503988659  # rad, 2 degrees, largest turn about a random axis
    # through the object's centre of mass

    def __post_init__(self) -> None:
        if self.repeats < 0:
            raise ValueError(f"confidence.repeats: expected >= 0, got {self.repeats}")
        for name in ("friction", "mass"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"confidence.{name}: expected 0 to 1, got {getattr(self, name)}")


MJ_PROTOCOLS = ("fc", "tabletop", "dexgraspbench")
MS_PROTOCOLS = ("rollout",)
PROTOCOLS = (*MJ_PROTOCOLS, *MS_PROTOCOLS)


@dataclass(frozen=True, kw_only=True, slots=True)
class MjEnvConfig:
    """Everything MjEnv needs besides the grasps and the objects."""

    hand: str  # a name in configs/hands, or the path of a hand file
    physics: PhysicsConfig = field(default_factory=PhysicsConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    fc: FcConfig = field(default_factory=FcConfig)
    tabletop: TabletopConfig = field(default_factory=TabletopConfig)
    dexgraspbench: DexGraspBenchConfig = field(default_factory=DexGraspBenchConfig)
    confidence: ConfidenceConfig = field(default_factory=ConfidenceConfig)
    workers: int = 1  # spawned processes, up to 48; 0 evaluates in the calling process
    timeout_s: float = 60.0  # wall-clock limit of one grasp

    def __post_init__(self) -> None:
        if not 0 <= self.workers <= MAX_WORKERS:
            raise ValueError(f"workers: expected 0 to {MAX_WORKERS}, got {self.workers}")
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s: expected seconds > 0, got {self.timeout_s}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutConfig:
    """A grasp carried out in ManiSkill: close, lift from the table, hold. PhysX, not MuJoCo."""

    floating_object: bool = False  # no table, no gravity, no lift: success is the grasp alone
    static_base: bool = False  # a floating hand's root is pinned at the grasp instead of driven
    object_mass: float | None = 0.1  # kg, as under the other protocols; None keeps the asset's own
    friction: float = 0.6  # 1, of objects, table and hand alike; ManiSkill's own robots keep theirs
    approach_time: float = 0.2  # s, pregrasp -> grasp
    squeeze_time: float = 0.2  # s, grasp -> squeeze
    settle_time: float = 0.2  # s at the squeeze targets
    lift_height: float = 0.2  # m, minimum jerk
    lift_time: float = 0.8  # s
    hold_time: float = 0.3  # s at the top
    target_lift_dist: float = 0.1  # m that the object must have risen
    table_size: tuple[float, ...] = (2.0, 2.0)  # m
    sim_freq: int = 200  # Hz, PhysX steps
    control_freq: int = 50  # Hz, new targets

    def __post_init__(self) -> None:
        if self.control_freq < 1 or self.sim_freq % self.control_freq:
            raise ValueError(
                f"rollout.sim_freq: expected a multiple of control_freq = {self.control_freq}, "
                f"got {self.sim_freq}"
            )
        if self.static_base and not self.floating_object:
            raise ValueError(
                "rollout.static_base: a pinned hand cannot lift; set floating_object too"
            )
        if not 0 < self.target_lift_dist < self.lift_height and not self.floating_object:
            raise ValueError(
                f"rollout.target_lift_dist: expected between 0 and lift_height = "
                f"{self.lift_height} m, got {self.target_lift_dist}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class MsEnvConfig:
    """Everything MsEnv needs besides scenes and grasps."""

    agent: str  # a uid of stages.envs.maniskill.agent_table, or "none": scenes without a hand
    num_envs: int = 1  # sub-scenes; more than one needs CUDA; 0: 1 on the CPU, 64 on CUDA
    device: Literal["auto", "cpu", "cuda"] = "auto"  # of physics and rendering
    control_mode: str | None = None  # None: joint positions, which step_qpos drives
    object_jitter: float = 0.0  # m, objects move by up to this along x and y at a reset
    camera: Intrinsics | None = None  # of get_rgb and get_pointcloud; None renders nothing
    crop: CropSpec = field(default_factory=CropSpec)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)

    def __post_init__(self) -> None:
        if self.num_envs < 0:
            raise ValueError(f"num_envs: expected 0 or more, got {self.num_envs}")
        if self.num_envs > 1 and self.device == "cpu":
            raise ValueError(
                f"num_envs: PhysX simulates one scene on the CPU, got {self.num_envs}; use CUDA, "
                "or as many processes"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class RendererConfig:
    """ManiSkill as a renderer: pictures of scenes, no physics."""

    camera: Intrinsics
    num_envs: int = 0  # pictures taken at once; 0: one on the CPU, 64 on CUDA
    device: Literal["auto", "cpu", "cuda"] = "auto"
    agent: str = "none"  # a hand in the pictures
    normals: bool = False  # of the faces, by a second picture


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvConfig:
    """Which environment to build: MuJoCo when `mj_env_config` is set, else ManiSkill.

    `real_env_config` goes before both: a robot and a camera.
    """

    mj_env_config: MjEnvConfig | None = None
    real_env_config: RealEnvConfig | None = None
    ms_env_config: MsEnvConfig | None = None
