"""Grains in a container with kinematic bodies: state, time steps, forces.

The method: rigid dry frictional contact as a nonlinear complementarity problem in velocities and
impulses, solved by Projected Jacobi; Baumgarte stabilisation; symplectic Euler. float32 on both
devices. On the CPU equal inputs give equal bits. On CUDA nothing depends on the order of threads
either, so runs on one device repeat; devices differ in the last bits of single operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stages.scene.granular import kernels as k
from stages.scene.granular.device import default_device, start
from stages.scene.granular.errors import DivergedError, GrainsError
from stages.scene.granular.sdf import DistanceGrid

Float = NDArray[np.float64]
GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """Four walls and a floor at z = 0, open above; `open_sides` of east, west, north, south."""

    half_x: float  # m, of the inside
    half_y: float
    open_sides: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Cylinder:
    """A round wall about z, with a floor at z = 0 unless the boundary is cyclic."""

    radius: float  # m
    floor: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """A floor at z = 0 without end, or nothing at all."""

    floor: bool = True


SIDES = {"east": k.EAST, "west": k.WEST, "north": k.NORTH, "south": k.SOUTH}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Body:
    """A rigid body that goes its own way: grains feel it, it does not feel them."""

    grid: DistanceGrid
    position: ArrayLike = (0.0, 0.0, 0.0)  # (3,) m, world
    rotation_wxyz: ArrayLike = (1.0, 0.0, 0.0, 0.0)
    velocity: ArrayLike = (0.0, 0.0, 0.0)  # (3,) m/s, of the origin, world
    spin: ArrayLike = (0.0, 0.0, 0.0)  # (3,) rad/s, world


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
    relaxation: float = 1.0  # of a sweep; up to 2 is stable
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


class Simulator:
    """`advance` steps; `positions` and `velocities` read the state; forces are of the last step."""

    def __init__(
        self,
        positions: ArrayLike,
        config: SimulatorConfig,
        *,
        container: Box | Cylinder | Ground | None = None,
        bodies: Sequence[Body] = (),
        velocities: ArrayLike | None = None,
        device: str | None = None,
    ) -> None:
        """`positions` (N, 3) m and `velocities` (N, 3) m/s, world; at rest when left out."""
        start()
        self.config = config
        self.device = default_device() if device is None else device
        self.container = Ground() if container is None else container
        self._check_container()
        x = np.ascontiguousarray(positions, np.float32)
        v = np.zeros_like(x) if velocities is None else np.ascontiguousarray(velocities, np.float32)
        if x.ndim != 2 or x.shape[1] != 3 or x.shape != v.shape or not len(x):
            raise GrainsError(
                f"grains: expected positions (N, 3) and velocities of that shape, got {x.shape} "
                f"and {v.shape}"
            )
        if not (np.isfinite(x).all() and np.isfinite(v).all()):
            raise GrainsError("grains: positions and velocities must be finite numbers")
        self.time = 0.0
        n, slots = len(x), k.SLOTS
        near = 2 * config.radius + config.margin * config.radius
        self._per_metre = 1 / near
        with wp.ScopedDevice(self.device):
            self._x, self._v = wp.array(x, dtype=wp.vec3), wp.array(v, dtype=wp.vec3)
            self._free, self._one, self._two = (wp.zeros(n, dtype=wp.vec3) for _ in range(3))
            self._spin, self._spin_one, self._spin_two = (
                wp.zeros(n, dtype=wp.vec3) for _ in range(3)
            )
            self._head = wp.empty(max(1, int(config.buckets_per_grain * n)), dtype=int)
            self._chain = wp.empty(n, dtype=int)
            self._partners = [wp.zeros((n, slots), dtype=int) for _ in range(2)]
            self._counts = [wp.zeros(n, dtype=int) for _ in range(2)]
            self._impulse = [wp.zeros((n, slots), dtype=wp.vec3) for _ in range(2)]
            self._ahead = wp.zeros((n, slots), dtype=wp.vec3)
            self._normal = wp.zeros((n, slots), dtype=wp.vec3)
            self._moving = wp.zeros((n, slots), dtype=wp.vec3)
            self._wanted = wp.zeros((n, slots), dtype=float)
            self._flags = wp.zeros(2, dtype=int)
            self._bodies = _pack(bodies, config.reach)
        self.bodies = len(bodies)
        self._now = 0
        self._material = self._make_material()
        self._walls = self._make_container()

    def __len__(self) -> int:
        return len(self._x)

    def _check_container(self) -> None:
        c = self.container
        size = (
            min(c.half_x, c.half_y) if isinstance(c, Box)
            else c.radius if isinstance(c, Cylinder)
            else float("inf")
        )  # fmt: skip
        if not size > self.config.radius:
            raise GrainsError(
                f"grains: of radius {self.config.radius} m they do not fit into a container of "
                f"half width {size} m; take smaller grains or a larger bin"
            )

    def _make_material(self) -> k.Material:
        c, m = self.config, k.Material()
        m.radius, m.mass, m.inertia = c.radius, c.mass, c.inertia
        m.arm = c.radius if c.spin else 0.0
        m.give = 1 + c.mass * m.arm**2 / c.inertia
        m.friction, m.friction_wall, m.friction_body = c.friction, c.friction_wall, c.friction_body
        m.margin, m.baumgarte, m.relaxation = c.margin * c.radius, c.baumgarte, c.relaxation
        return m

    def _make_container(self) -> k.Container:
        c, out = self.container, k.Container()
        codes: list[int] = []
        if isinstance(c, Box):
            out.half_x, out.half_y = c.half_x, c.half_y
            if unknown := sorted(set(c.open_sides) - set(SIDES)):
                raise GrainsError(f"container: unknown sides {unknown}; choose from {list(SIDES)}")
            codes = [k.FLOOR, *(code for name, code in SIDES.items() if name not in c.open_sides)]
        elif isinstance(c, Cylinder):
            out.half_x = c.radius
            codes = [k.SIDE] + ([k.FLOOR] if c.floor else [])
        elif c.floor:
            codes = [k.FLOOR]
        out.walls = sum(1 << (-code - 1) for code in codes)
        return out

    def advance(self, steps: int = 1) -> None:
        """Take time steps. Raises DivergedError; the state is then of no use."""
        with wp.ScopedDevice(self.device):
            for _ in range(steps):
                self._step()
        self.time += steps * self.config.timestep
        overflow, jumped = self._flags.numpy()
        if jumped:
            raise DivergedError(
                f"a grain moved by more than its diameter, {2 * self.config.radius * 1e3:.2f} mm, "
                f"in one time step of {self.config.timestep} s, or its velocity is no number; "
                "take a smaller timestep"
            )
        if overflow:
            raise DivergedError(
                f"a grain has more than {k.SLOTS} contacts: grains are pressed into each other; "
                "take a smaller timestep or more iterations, and start grains apart"
            )

    def _step(self) -> None:
        c, n, dt = self.config, len(self._x), self.config.timestep
        old, new = self._now, 1 - self._now
        self._now = new
        self._head.fill_(-1)
        wp.launch(k.insert, n, [self._x, self._per_metre], [self._head, self._chain])
        where = [self._x, self._per_metre, self._head, self._chain]
        world = [self._material, self._walls, self._bodies]
        rows = [self._partners[new], self._counts[new]]
        last = [self._partners[old], self._counts[old], self._impulse[old], c.warm_start]
        frames = [self._normal, self._wanted, self._moving, self._impulse[new], self._ahead]
        pull = wp.vec3(*c.gravity)
        ends = [self._free, self._one, self._spin_one]
        if c.split:
            wp.launch(k.detect, n, [*where, *world], [*rows, self._flags])
            inputs = [self._x, self._v, self._spin, pull, dt, *world, *rows, *last]
            wp.launch(k.contacts, n, inputs, [*frames, *ends])
        else:
            where = [self._x, self._v, self._spin, self._per_metre, self._head, self._chain]
            inputs = [*where, pull, dt, *world, *rows, *last]
            wp.launch(k.detect_and_contacts, n, inputs, [*frames, *ends, self._flags])
        before, after = [self._one, self._spin_one], [self._two, self._spin_two]
        given = [*rows, self._normal, self._wanted, self._moving, self._material]
        impulses = [self._impulse[new], self._ahead]
        for sweep in range(c.iterations):
            last = sweep + 1 == c.iterations
            momentum = sweep / (sweep + 3) if c.accelerate and not last else 0.0
            inputs = [*before, self._free, self._spin, *given, momentum]
            wp.launch(k.solve, n, inputs, [*impulses, *after])
            before, after = after, before
        low, high = c.cycle
        state = [self._x, self._v, self._spin, self._flags]
        wp.launch(k.move, n, [*before, dt, 2 * c.radius, low, high], state)
        if self.bodies:
            b = self._bodies
            moved = [b.position, b.rotation]
            wp.launch(k.move_bodies, self.bodies, [dt, b.velocity, b.spin], moved)

    @property
    def state(self) -> Any:
        """Positions as the array on the device, for kernels that only read."""
        return self._x

    @property
    def has_floor(self) -> bool:
        return bool(self._walls.walls & (1 << (-k.FLOOR - 1)))

    # -- reading ------------------------------------------------------------------------------

    def positions(self) -> NDArray[np.float32]:
        """(N, 3) m, world: centres."""
        return self._x.numpy().copy()

    def velocities(self) -> NDArray[np.float32]:
        """(N, 3) m/s, world."""
        return self._v.numpy().copy()

    def spins(self) -> NDArray[np.float32]:
        """(N, 3) rad/s, world; zeros for grains that do not spin."""
        return self._spin.numpy().copy()

    def energy(self) -> float:
        """Kinetic and potential, J; the potential of gravity is zero at the origin."""
        x, v, w = (
            a.astype(np.float64) for a in (self.positions(), self.velocities(), self.spins())
        )
        c = self.config
        moving = 0.5 * (c.mass * (v**2).sum() + c.inertia * (w**2).sum())
        return float(moving - c.mass * (x @ np.array(c.gravity)).sum())

    def momentum(self) -> Float:
        """(3,) kg m/s."""
        return self.config.mass * self.velocities().astype(np.float64).sum(axis=0)

    def deepest(self) -> float:
        """Largest penetration of any contact, m, as found at the start of the last step."""
        found = self._contacts()
        if not found["grain"].size:
            return 0.0
        wanted = self._wanted.numpy()[found["grain"], found["slot"]]
        depth = wanted[wanted > 0] * self.config.timestep / max(self.config.baumgarte, 1e-12)
        return float(depth.max(initial=0.0))

    def contact_count(self) -> int:
        """Contacts that carry an impulse, each counted once."""
        found = self._contacts()
        pressed = (found["impulse"] ** 2).sum(axis=1) > 0
        pair = found["partner"] >= 0
        return int((pressed & pair).sum() // 2 + (pressed & ~pair).sum())

    def grain_forces(self) -> Float:
        """(N, 3) N, of all contacts on each grain during the last step, without gravity."""
        found = self._contacts()
        out = np.zeros((len(self), 3))
        np.add.at(out, found["grain"], found["impulse"] / self.config.timestep)
        return out

    def body_wrench(self, body: int) -> Float:
        """(6,) force (N) and torque (N m) about the body's origin that grains exert on it."""
        if not 0 <= body < self.bodies:
            raise GrainsError(f"body {body}: there are {self.bodies}")
        found = self._contacts()
        mine = found["partner"] == k.FIRST_BODY - body
        force = -found["impulse"][mine] / self.config.timestep
        # where the grain touched, one radius from its centre against the normal
        grain = found["grain"][mine]
        normal = self._normal.numpy()[grain, found["slot"][mine]].astype(np.float64)
        centre = self.positions()[grain] - self.config.timestep * self.velocities()[grain]
        arm = centre - self.config.radius * normal - self._start_position(body)
        return np.concatenate([force.sum(axis=0), np.cross(arm, force).sum(axis=0)])

    def wall_force(self, *codes: int) -> Float:
        """(3,) N, of the grains on the walls `codes` of `kernels` (FLOOR, EAST ... SIDE)."""
        found = self._contacts()
        mine = np.isin(found["partner"], codes)
        return -found["impulse"][mine].sum(axis=0) / self.config.timestep

    def wall_pressure(self) -> float:
        """N, sum of the normal forces on the upright walls."""
        found = self._contacts()
        mine = np.isin(found["partner"], k.SIDES)
        normal = self._normal.numpy()[found["grain"][mine], found["slot"][mine]]
        return float((found["impulse"][mine] * normal).sum() / self.config.timestep)

    def _start_position(self, body: int) -> Float:
        """(3,) where the body was when the contacts of the last step were found."""
        velocity = self._bodies.velocity.numpy()[body].astype(np.float64)
        return self._bodies.position.numpy()[body] - self.config.timestep * velocity

    def _contacts(self) -> dict[str, NDArray[Any]]:
        """Of the last step, by grain, then slot. In float64, so that sums have one value."""
        counts = self._counts[self._now].numpy()
        grain = np.repeat(np.arange(len(counts)), counts)
        slot = np.arange(len(grain)) - np.repeat(np.cumsum(counts) - counts, counts)
        return {
            "grain": grain,
            "slot": slot,
            "partner": self._partners[self._now].numpy()[grain, slot],
            "impulse": self._impulse[self._now].numpy()[grain, slot].astype(np.float64),
        }

    # -- bodies -------------------------------------------------------------------------------

    def body_pose(self, body: int) -> Float:
        """(7,) xyz, wxyz, world."""
        q = self._bodies.rotation.numpy()[body].astype(np.float64)
        return np.concatenate([self._bodies.position.numpy()[body], q[[3, 0, 1, 2]]])

    def drive(
        self,
        body: int,
        *,
        pose: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        spin: ArrayLike | None = None,
    ) -> None:
        """Set the pose (7,) xyz wxyz, or the twist that moves it from now on; world frame."""
        if not 0 <= body < self.bodies:
            raise GrainsError(f"body {body}: there are {self.bodies}")
        b = self._bodies
        if pose is not None:
            p = np.asarray(pose, np.float64)
            _set(b.position, body, p[:3])
            _set(b.rotation, body, (p[3:] / np.linalg.norm(p[3:]))[[1, 2, 3, 0]])
        if velocity is not None:
            _set(b.velocity, body, np.asarray(velocity))
        if spin is not None:
            _set(b.spin, body, np.asarray(spin))

    def distances(self, body: int, points: ArrayLike) -> Float:
        """(N, 4) outward normal and signed distance of points (N, 3), world; 1e9 off the grid."""
        p = np.ascontiguousarray(points, np.float32).reshape(-1, 3)
        with wp.ScopedDevice(self.device):
            out = wp.zeros(len(p), dtype=wp.vec4)
            wp.launch(k.probe, len(p), [wp.array(p, dtype=wp.vec3), body, self._bodies], [out])
            return out.numpy().astype(np.float64)


def _set(array: Any, row: int, value: NDArray[Any]) -> None:
    values = array.numpy().copy()
    values[row] = value
    array.assign(values)


def _pack(bodies: Sequence[Body], reach: float) -> k.Bodies:
    """Arrays of all bodies; a grid that several share is stored once."""
    grids: list[DistanceGrid] = []
    which: list[int] = []
    for body in bodies:
        found = next((i for i, g in enumerate(grids) if g is body.grid), None)
        if found is None:
            found = len(grids)
            grids.append(body.grid)
        which.append(found)
        if body.grid.margin < reach:
            raise GrainsError(
                f"body: its grid reaches {body.grid.margin} m beyond the mesh, grains need "
                f"{reach} m; build it with a larger margin"
            )
    out = k.Bodies()
    out.count = len(bodies)

    def rows(values: list[Any], dtype: Any, width: int) -> Any:
        shape = (-1, width) if width > 1 else (-1,)
        kind = np.int32 if dtype in (int, wp.vec3i) else np.float32
        return wp.array(np.array(values, kind).reshape(shape), dtype=dtype)

    rotations = [np.asarray(b.rotation_wxyz, float) for b in bodies]
    out.position = rows([b.position for b in bodies], wp.vec3, 3)
    out.rotation = rows([(q / np.linalg.norm(q))[[1, 2, 3, 0]] for q in rotations], wp.quat, 4)
    out.velocity = rows([b.velocity for b in bodies], wp.vec3, 3)
    out.spin = rows([b.spin for b in bodies], wp.vec3, 3)
    out.grid = rows(which, int, 1)
    out.reach = rows([_reach(g) for g in grids], float, 1)
    out.start = rows(list(np.cumsum([0, *(g.values.size for g in grids)])[:-1]), int, 1)
    out.dims = rows([g.values.shape for g in grids], wp.vec3i, 3)
    out.low = rows([g.low for g in grids], wp.vec3, 3)
    out.spacing = rows([g.spacing for g in grids], float, 1)
    flat = [g.values.reshape(-1) for g in grids]
    out.values = wp.array(np.concatenate(flat) if flat else np.zeros(1, np.float32), dtype=float)
    return out


def _reach(grid: DistanceGrid) -> float:
    """m from the body's origin to the farthest corner of its grid."""
    high = grid.low + grid.spacing * (np.array(grid.values.shape) - 1)
    return float(np.linalg.norm(np.maximum(np.abs(grid.low), np.abs(high))))
