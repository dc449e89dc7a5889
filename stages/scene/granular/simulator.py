"""Grains in a container with kinematic bodies: the state and its time steps.

The method: rigid dry frictional contact as a nonlinear complementarity problem in velocities and
impulses, solved by Projected Jacobi; Baumgarte stabilisation; symplectic Euler. float32 on both
devices. On the CPU equal inputs give equal bits. On CUDA nothing depends on the order of threads
either, so runs on one device repeat; devices differ in the last bits of single operations.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stages.scene.granular import contact_kernels, sweep_kernels, world
from stages.scene.granular.bodies import Body, pack_bodies
from stages.scene.granular.container import Box, Cylinder, Ground, pack_container
from stages.scene.granular.device import checked, default_device
from stages.scene.granular.errors import DivergedError, GrainsError
from stages.scene.granular.forces import Contacts
from stages.scene.granular.method import SimulatorConfig

Float = NDArray[np.float64]


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
        self.config = config
        self.device = checked(default_device() if device is None else device)
        self.container = Ground() if container is None else container
        self._walls = pack_container(self.container, config.radius)
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
        n, slots = len(x), contact_kernels.SLOTS
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
            self._bodies = pack_bodies(bodies, config.reach)
            # where the last step found its contacts, for `contacts`
            self._met_x, self._met_bodies = wp.clone(self._x), wp.clone(self._bodies.position)
        self.bodies = len(bodies)
        self._now = 0
        self._material = self._make_material()

    def __len__(self) -> int:
        return len(self._x)

    def _make_material(self) -> world.Material:
        c, m = self.config, world.Material()
        m.radius, m.mass, m.inertia = c.radius, c.mass, c.inertia
        m.arm = c.radius if c.spin else 0.0
        m.give = 1 + c.mass * m.arm**2 / c.inertia
        m.friction, m.friction_wall, m.friction_body = c.friction, c.friction_wall, c.friction_body
        m.margin, m.baumgarte, m.relaxation = c.margin * c.radius, c.baumgarte, c.relaxation
        return m

    def advance(self, steps: int = 1) -> None:
        """Take time steps. Raises DivergedError; the state is then of no use."""
        with wp.ScopedDevice(self.device):
            for left in reversed(range(steps)):
                if not left:
                    wp.copy(self._met_x, self._x)
                    wp.copy(self._met_bodies, self._bodies.position)
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
                f"a grain has more than {contact_kernels.SLOTS} contacts: grains are pressed into "
                "each other; take a smaller timestep or more iterations, and start grains apart"
            )

    def _step(self) -> None:
        c, n, dt = self.config, len(self._x), self.config.timestep
        old, new = self._now, 1 - self._now
        self._now = new
        self._head.fill_(-1)
        wp.launch(contact_kernels.insert, n, [self._x, self._per_metre], [self._head, self._chain])
        where = [self._x, self._per_metre, self._head, self._chain]
        others = [self._material, self._walls, self._bodies]
        rows = [self._partners[new], self._counts[new]]
        last = [self._partners[old], self._counts[old], self._impulse[old], c.warm_start]
        frames = [self._normal, self._wanted, self._moving, self._impulse[new], self._ahead]
        pull = wp.vec3(*c.gravity)
        begin = [self._free, self._one, self._spin_one]
        if c.split:
            wp.launch(contact_kernels.detect, n, [*where, *others], [*rows, self._flags])
            inputs = [self._x, self._v, self._spin, pull, dt, *others, *rows, *last]
            wp.launch(contact_kernels.contacts, n, inputs, [*frames, *begin])
        else:
            where = [self._x, self._v, self._spin, self._per_metre, self._head, self._chain]
            inputs = [*where, pull, dt, *others, *rows, *last]
            wp.launch(
                contact_kernels.detect_and_contacts, n, inputs, [*frames, *begin, self._flags]
            )
        before, after = [self._one, self._spin_one], [self._two, self._spin_two]
        given = [*rows, self._normal, self._wanted, self._moving, self._material]
        impulses = [self._impulse[new], self._ahead]
        for sweep in range(c.iterations):
            ends = sweep + 1 == c.iterations  # with impulses inside the cone
            momentum = sweep / (sweep + 3) if c.accelerate and not ends else 0.0
            inputs = [*before, self._free, self._spin, *given, momentum]
            wp.launch(sweep_kernels.solve, n, inputs, [*impulses, *after])
            before, after = after, before
        low, high = c.cycle
        state = [self._x, self._v, self._spin, self._flags]
        wp.launch(sweep_kernels.move, n, [*before, dt, 2 * c.radius, low, high], state)
        if self.bodies:
            b = self._bodies
            moved = [b.position, b.rotation]
            wp.launch(sweep_kernels.move_bodies, self.bodies, [dt, b.velocity, b.spin], moved)

    @property
    def state(self) -> Any:
        """Positions as the array on the device, for kernels that only read."""
        return self._x

    @property
    def has_floor(self) -> bool:
        return bool(self._walls.walls & (1 << (-world.FLOOR - 1)))

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

    def contacts(self) -> Contacts:
        """Of the last step, on the host: who touched whom, and with which impulse."""
        counts = self._counts[self._now].numpy()
        grain = np.repeat(np.arange(len(counts)), counts)
        slot = np.arange(len(grain)) - np.repeat(np.cumsum(counts) - counts, counts)
        return Contacts(
            config=self.config,
            grain=grain,
            partner=self._partners[self._now].numpy()[grain, slot],
            impulse=self._impulse[self._now].numpy()[grain, slot].astype(np.float64),
            normal=self._normal.numpy()[grain, slot].astype(np.float64),
            wanted=self._wanted.numpy()[grain, slot].astype(np.float64),
            centres=self._met_x.numpy().astype(np.float64),
            body_positions=self._met_bodies.numpy().astype(np.float64),
        )

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
            wp.launch(world.probe, len(p), [wp.array(p, dtype=wp.vec3), body, self._bodies], [out])
            return out.numpy().astype(np.float64)


def _set(array: Any, row: int, value: NDArray[Any]) -> None:
    values = array.numpy().copy()
    values[row] = value
    array.assign(values)
