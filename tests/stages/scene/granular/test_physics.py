"""Grains against what is known in closed form, by conservation laws, and from experiments."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import trimesh

from stages.scene.granular import world
from stages.scene.granular.bodies import Body
from stages.scene.granular.container import Box, Cylinder, Ground
from stages.scene.granular.method import SimulatorConfig
from stages.scene.granular.sdf import DistanceGrid, distance_grid
from stages.scene.granular.simulator import Simulator
from stages.scene.granular.start import layers

R = 0.005
G = 9.81
AS_PUBLISHED = {"spin": False, "accelerate": False, "margin": 0.0, "warm_start": 0.0}


def simulator(positions: Any, config: SimulatorConfig, **rest: Any) -> Simulator:
    return Simulator(positions, config, device="cpu", **rest)


def tilted(angle: float) -> tuple[float, float, float]:
    """Gravity of a floor that rises by `angle` (rad) towards -x: a slope down to +x."""
    return (G * np.sin(angle), 0.0, -G * np.cos(angle))


def mesh_grid(mesh: trimesh.Trimesh, spacing: float) -> DistanceGrid:
    return distance_grid(mesh.vertices, mesh.faces, spacing=spacing, margin=0.01)


# -- single grains --------------------------------------------------------------------------------


def test_free_fall_is_symplectic_euler_exactly() -> None:
    """x_n = -g dt^2 n (n + 1) / 2: the parabola, plus g t dt / 2, an error of first order."""
    for dt in (1e-3, 5e-4):
        one = simulator([[0, 0, 1.0]], SimulatorConfig(radius=R, timestep=dt))
        steps = round(0.2 / dt)
        one.advance(steps)
        drop = 1.0 - one.positions()[0, 2]
        assert drop == pytest.approx(G * dt**2 * steps * (steps + 1) / 2, rel=1e-5)
        assert drop - G * 0.2**2 / 2 == pytest.approx(G * 0.2 * dt / 2, rel=5e-3)
        assert one.velocities()[0, 2] == pytest.approx(-G * 0.2, rel=1e-5)


@pytest.mark.parametrize("extra", [{}, AS_PUBLISHED])
def test_a_grain_that_does_not_spin_sticks_below_its_friction_angle_and_slides_above(
    extra: dict[str, Any],
) -> None:
    angle, seconds = np.radians(25.0), 0.3
    for mu in (0.6, 0.3):  # tan 25 degrees = 0.466
        config = SimulatorConfig(radius=R, friction_wall=mu, gravity=tilted(angle))
        config = replace(config, **({"spin": False} | extra))
        one = simulator([[0, 0, R]], config)
        one.advance(round(seconds / config.timestep))
        speed = max(np.sin(angle) - mu * np.cos(angle), 0.0) * G * seconds
        assert one.velocities()[0, 0] == pytest.approx(speed, rel=2e-3, abs=1e-6)
        moved = 0.5 * speed * seconds
        assert one.positions()[0, 0] == pytest.approx(moved, rel=5e-3, abs=1e-6)
        assert one.positions()[0, 2] == pytest.approx(R, abs=1e-6)


def test_a_sphere_rolls_down_a_slope_by_five_sevenths_and_slips_when_friction_is_short() -> None:
    """Rolling needs mu >= 2/7 tan(angle) = 0.165 at 30 degrees."""
    angle, seconds = np.radians(30.0), 0.3
    for mu, acceleration in (
        (0.5, 5 / 7 * G * np.sin(angle)),
        (0.1, G * (np.sin(angle) - 0.1 * np.cos(angle))),
    ):
        config = SimulatorConfig(radius=R, friction_wall=mu, gravity=tilted(angle))
        ball = simulator([[0, 0, R]], config)
        ball.advance(round(seconds / config.timestep))
        assert ball.velocities()[0, 0] == pytest.approx(acceleration * seconds, rel=2e-3)
        turning = min(acceleration, 2.5 * mu * G * np.cos(angle)) * seconds / R
        assert ball.spins()[0, 1] == pytest.approx(turning, rel=5e-3)


def test_a_slope_that_is_a_mesh_acts_like_a_wall() -> None:
    angle, mu, seconds = np.radians(25.0), 0.3, 0.2
    plate = trimesh.creation.box([0.3, 0.1, 0.02])
    body = Body(
        grid=mesh_grid(plate, 0.005),
        position=-0.01 * np.array([np.sin(angle), 0, np.cos(angle)]),
        rotation_wxyz=[np.cos(angle / 2), 0, np.sin(angle / 2), 0],  # down towards +x
    )
    config = SimulatorConfig(radius=R, friction_body=mu, spin=False)
    normal = np.array([np.sin(angle), 0, np.cos(angle)])
    one = simulator([R * normal], config, container=Ground(floor=False), bodies=[body])
    one.advance(round(seconds / config.timestep))
    along = np.array([np.cos(angle), 0, -np.sin(angle)])
    speed = (np.sin(angle) - mu * np.cos(angle)) * G * seconds
    assert one.velocities()[0] @ along == pytest.approx(speed, rel=5e-3)
    assert one.positions()[0] @ normal == pytest.approx(R, abs=2e-6)


@pytest.mark.parametrize("spin", [True, False])
def test_a_grain_on_a_turning_cylinder_is_taken_along_at_the_speed_of_its_surface(
    spin: bool,
) -> None:
    """It slides for omega R / (7/2 mu g) = 8.7 ms, then rolls: its lowest point has omega R, and
    its centre 2/7 of that, as of a ball put on a belt. Without spin its centre sticks to the
    cylinder as a part of it: omega (R + r)."""
    radius, omega, mu = 0.03, 8.0, 0.8
    mesh = trimesh.creation.cylinder(radius, 0.06, sections=128)
    half = np.sqrt(0.5)
    body = Body(
        grid=mesh_grid(mesh, 0.002),
        position=[0.0, 0.0, 0.0],
        rotation_wxyz=[half, half, 0.0, 0.0],  # axis along y
        spin=[0.0, omega, 0.0],
    )
    config = SimulatorConfig(radius=R, friction_body=mu, timestep=1e-4, spin=spin)
    start = [[0.0, 0.0, radius + R]]
    one = simulator(start, config, container=Ground(floor=False), bodies=[body])
    one.advance(120 if spin else 450)
    x, v, w = (a[0].astype(float) for a in (one.positions(), one.velocities(), one.spins()))
    n = np.array([x[0], 0.0, x[2]]) / np.hypot(x[0], x[2])
    along = np.array([n[2], 0.0, -n[0]])
    touching = (v + np.cross(w, -R * n)) @ along
    if spin:
        assert touching == pytest.approx(omega * radius, rel=0.01)
        assert v @ along == pytest.approx(2 / 7 * omega * radius, rel=0.1)
    else:
        assert v @ along == pytest.approx(omega * (radius + R), rel=0.01)


def test_halving_the_time_step_halves_the_error_of_a_fall_onto_a_slope() -> None:
    """Inelastic impact takes mu (1 + 0) of the normal velocity from the tangential; then it slides.

    Exact, from the time of impact; with tan(angle) > mu, no spin.
    """
    angle, mu, height, seconds = np.radians(35.0), 0.2, 0.02, 0.25
    g_n, g_t = G * np.cos(angle), G * np.sin(angle)
    hit = np.sqrt(2 * height / g_n)
    after = g_t * hit - mu * g_n * hit
    left = seconds - hit
    exact = 0.5 * g_t * hit**2 + after * left + 0.5 * (g_t - mu * g_n) * left**2
    errors: list[float] = []
    for dt in (2e-3, 1e-3, 5e-4, 2.5e-4):
        config = SimulatorConfig(
            radius=R, friction_wall=mu, gravity=tilted(angle), timestep=dt, spin=False
        )
        one = simulator([[0, 0, R + height]], config)
        one.advance(round(seconds / dt))
        errors.append(abs(float(one.positions()[0, 0]) - exact))
    assert errors[-1] < 1e-3 * exact
    # first order, with the time of impact rounded up to a step
    assert errors[0] / errors[-1] > 4


# -- few grains -----------------------------------------------------------------------------------


def test_two_grains_share_momentum_as_mechanics_says() -> None:
    """Frictionless and inelastic: the normal velocity is shared, the tangential is kept."""
    config = SimulatorConfig(radius=R, friction=0.0, gravity=(0, 0, 0), margin=0.0)
    # a line of centres at 30 degrees to the motion: 2 R cos 30 ahead, 2 R sin 30 aside
    n = np.array([np.cos(np.pi / 6), np.sin(np.pi / 6), 0.0])
    two = simulator(
        [np.zeros(3), 2.0 * R * n + [1e-5, 0, 0]], config, velocities=[[1.0, 0, 0], [0, 0, 0]],
        container=Ground(floor=False),
    )  # fmt: skip
    before = two.momentum()
    two.advance(5)
    assert two.momentum() == pytest.approx(before, abs=1e-7 * np.linalg.norm(before))
    v = two.velocities().astype(float)
    share = (np.array([1.0, 0, 0]) @ n) / 2
    # the step rounds the moment of contact; Baumgarte parts them by alpha * depth / dt
    relative = (v[1] - v[0]) @ n
    assert 0 <= relative < 0.2
    assert (v.sum(axis=0) @ n) / 2 == pytest.approx(share, abs=1e-6)
    across = np.array([n[1], -n[0], 0])
    assert v[0] @ across == pytest.approx(across[0], abs=0.15)  # the normal has turned meanwhile


def test_a_cloud_of_collisions_keeps_momentum_and_angular_momentum_and_loses_energy() -> None:
    rng = np.random.default_rng(3)
    start = layers(300, 0.05, 0.05, 0.0, R, rng)
    start -= start.mean(axis=0)
    velocities = -8.0 * start + rng.normal(0, 0.1, start.shape)  # they fly together
    config = SimulatorConfig(radius=R, gravity=(0, 0, 0))
    cloud = simulator(start, config, velocities=velocities, container=Ground(floor=False))
    scale = float(config.mass * np.abs(cloud.velocities()).sum())

    def angular() -> np.ndarray:
        x, v = cloud.positions().astype(float), cloud.velocities().astype(float)
        orbital = config.mass * np.cross(x, v).sum(axis=0)
        return orbital + config.inertia * cloud.spins().astype(float).sum(axis=0)

    momentum, turning = cloud.momentum(), angular()
    first = energy = cloud.energy()
    for _ in range(10):
        cloud.advance(10)
        assert cloud.momentum() == pytest.approx(momentum, abs=1e-6 * scale)
        # impulses act at centres one diameter apart: penetration is the lever of the error
        assert angular() == pytest.approx(turning, abs=1e-3 * scale * 0.05)
        assert cloud.energy() <= energy * (1 + 1e-6)
        energy = cloud.energy()
    assert energy < 0.5 * first


def test_forces_at_rest_are_weights() -> None:
    config = SimulatorConfig(radius=R)
    plate = Body(
        grid=mesh_grid(trimesh.creation.box([0.1, 0.1, 0.02]), 0.005), position=[0.0, 0.0, 0.1]
    )
    start = [[0.03, 0.01, 0.11 + R], [0.2, 0, R], [0.2, 0, 3 * R]]
    grains = simulator(start, config, bodies=[plate])
    grains.advance(50)
    weight = config.mass * G
    wrench = grains.contacts().on_body(0)
    assert wrench[:3] == pytest.approx([0, 0, -weight], abs=1e-3 * weight)
    # r x F at (0.03, 0.01, 0.01) from the plate's origin
    assert wrench[3:] == pytest.approx(weight * np.array([-0.01, 0.03, 0]), abs=2e-5 * weight)
    assert grains.contacts().on_walls(world.FLOOR)[2] == pytest.approx(-2 * weight, rel=1e-3)
    assert grains.contacts().on_grains()[:, 2] == pytest.approx(weight, rel=1e-2)
    assert grains.contacts().count() == 3
    # a tool that is set elsewhere leaves its grain to fall
    grains.drive(0, pose=[0.1, 0.0, 0.5, 2.0, 0, 0, 0])
    assert grains.body_pose(0) == pytest.approx([0.1, 0, 0.5, 1, 0, 0, 0], abs=1e-7)
    assert np.array_equal(grains.contacts().on_body(0), wrench)  # still those of the last step
    grains.advance(20)
    assert grains.contacts().on_body(0) == pytest.approx(np.zeros(6))
    assert grains.velocities()[0, 2] == pytest.approx(-20e-3 * G, rel=1e-2)


def test_the_cyclic_boundary_returns_grains_with_their_velocity() -> None:
    config = SimulatorConfig(radius=R, cycle=(0.0, 0.3))
    one = simulator([[0.01, 0, 0.1]], config, container=Cylinder(radius=0.05, floor=False))
    one.advance(300)
    speed = G * 0.3
    fallen = G * 1e-6 * 300 * 301 / 2
    assert one.velocities()[0, 2] == pytest.approx(-speed, rel=1e-5)
    assert one.positions()[0, 2] == pytest.approx((0.1 - fallen) % 0.3, abs=1e-5)
    before, wrapped = one.positions(), False
    for _ in range(150):
        one.advance()
        assert np.array_equal(one.contacts().centres, before)
        wrapped |= bool(one.positions()[0, 2] > before[0, 2])
        before = one.positions()
    assert wrapped


# -- many grains ----------------------------------------------------------------------------------


@pytest.mark.parametrize("spin", [True, False])
def test_a_pour_never_gains_energy_hardly_penetrates_and_comes_to_rest(spin: bool) -> None:
    rng = np.random.default_rng(0)
    half = 7.4 * R
    config = SimulatorConfig(radius=R, spin=spin)
    start = layers(350, half, half, 0.0, R, rng)
    box = Box(half_x=half, half_y=half)
    pile = simulator(start, config, container=box)
    first = last = pile.energy()
    deepest = 0.0
    for _ in range(120):
        pile.advance(5)
        energy = pile.energy()
        # what Baumgarte puts in while a blow is being taken, as a share of all that falls
        assert energy <= last + 1e-3 * first
        last, deepest = energy, max(deepest, pile.contacts().deepest())
    assert last < 0.6 * first
    assert deepest < 0.2 * R  # at blows of 1 m/s, 1 mm a step
    assert pile.contacts().deepest() < 0.01 * R
    assert np.sqrt((pile.velocities() ** 2).sum(axis=1).mean()) < 0.002
    x = pile.positions()
    assert np.abs(x[:, :2]).max() <= half - 0.99 * R
    assert x[:, 2].min() >= 0.99 * R
    weight = len(start) * config.mass * G
    assert pile.contacts().on_walls(world.FLOOR, *world.SIDES)[2] == pytest.approx(
        -weight, rel=0.02
    )


def test_the_angle_of_repose_grows_with_friction_within_published_bounds() -> None:
    """A bed in a box tilted by 30 degrees flows until its slope stands.

    Without friction sphere packings have an internal friction angle of 5.76 +- 0.22 degrees
    (Peyneau and Roux 2008). With it, Caquot's tan(angle) = pi/2 mu (1934), for grains that do not
    roll, lies above what spheres reach; smooth glass beads rest at 20 to 26 degrees.
    """
    angles = [repose(mu, np.random.default_rng(0)) for mu in (0.0, 0.1, 0.5)]
    assert 3.0 < angles[0] < 9.0
    assert angles[0] + 2 < angles[1] < 5.76 + np.degrees(np.arctan(np.pi / 2 * 0.1))
    assert 13.0 < angles[2] < 26.0
    assert angles[1] + 2 < angles[2]


def repose(mu: float, rng: np.random.Generator) -> float:
    """Degrees between the surface and the horizontal, in a box with frictionless walls."""
    half_x, half_y, tilt = 0.105, 0.02, np.radians(30.0)
    box = Box(half_x=half_x, half_y=half_y)
    config = SimulatorConfig(radius=R, friction=mu, friction_wall=0.0)
    bed = simulator(layers(560, half_x, half_y, 0.0, R, rng), config, container=box)
    bed.advance(250)
    flow = simulator(
        bed.positions(), replace(config, gravity=tilted(tilt)), container=box,
        velocities=bed.velocities(),
    )  # fmt: skip
    flow.advance(900)
    x = flow.positions().astype(float)
    column = np.floor((x[:, 0] + half_x) / (2 * R)).astype(int)
    tops = {c: np.sort(x[column == c, 2])[-3:].mean() for c in range(column.max() + 1)
            if (column == c).sum() > 8}  # fmt: skip
    inner = sorted(tops)[3:-3]
    rise = np.polyfit([(c + 0.5) * 2 * R for c in inner], [tops[c] for c in inner], 1)[0]
    return float(np.degrees(tilt - np.arctan(rise)))


def test_a_frictionless_bin_is_hydrostatic_and_a_rough_one_follows_janssen() -> None:
    """Floor load of a tall round bin whose floor gives way slowly, so that friction is all used.

    Without friction the floor carries all. With it, Janssen (1895): the load saturates at
    W (1 - exp(-H / l)) l / H with l = D / 4 mu K, K between 1 and Rankine's active
    (1 - sin) / (1 + sin), 0.17 for the 45 degrees of grains that do not roll.
    """
    smooth, weight, _, _ = silo(0.0)
    assert smooth == pytest.approx(weight, rel=3e-3)
    floor, weight, sideways, height = silo(0.5)
    diameter = 6 * 2 * R
    used = (weight - floor) / sideways  # mean friction over mean normal force
    assert used == pytest.approx(0.5, abs=0.1)

    def load(k: float) -> float:
        length = diameter / (4 * 0.5 * k)
        return weight * length / height * (1 - np.exp(-height / length))

    assert load(1.0) < floor < load(0.17)
    assert floor < 0.6 * weight


def silo(mu: float) -> tuple[float, float, float, float]:
    """Load on the floor, weight, sum of normal forces on the wall (N), height of the fill (m)."""
    radius, count = 6 * R, 500
    side = radius / np.sqrt(2)
    config = SimulatorConfig(
        radius=R, friction=0.4, friction_wall=mu, friction_body=0.4, spin=False
    )
    plate = mesh_grid(trimesh.creation.cylinder(radius * 1.3, 0.04), 0.005)
    start = layers(count, side, side, 0.0, R, np.random.default_rng(1))
    bin_ = simulator(
        start, config, container=Cylinder(radius=radius, floor=False),
        bodies=[Body(grid=plate, position=[0, 0, -0.02])],
    )  # fmt: skip
    bin_.advance(900)
    bin_.drive(0, velocity=[0, 0, -0.01])
    bin_.advance(100)
    loads, before = [], bin_.momentum()[2]
    for _ in range(100):
        bin_.advance(1)
        loads.append([-bin_.contacts().on_body(0)[2], bin_.contacts().pressure_on_walls()])
    floor, sideways = np.mean(loads, axis=0)
    floor -= (bin_.momentum()[2] - before) / (100 * config.timestep)  # what still sinks
    x = bin_.positions()
    height = float(np.sort(x[:, 2])[-20:].mean() - x[:, 2].min() + 2 * R)
    return float(floor), count * config.mass * G, float(sideways), height


def test_no_grain_leaves_a_stirred_box_in_ten_thousand_steps() -> None:
    half = 6 * R
    paddle = trimesh.creation.box([1.6 * half, 1.2 * R, 8 * R])
    body = Body(grid=mesh_grid(paddle, 0.002), position=[0, 0, 4.5 * R], spin=[0, 0, 2 * np.pi])
    rng = np.random.default_rng(5)
    start = layers(60, half, half, 9 * R, R, rng)
    config = SimulatorConfig(radius=R, iterations=5)
    stirred = simulator(start, config, container=Box(half_x=half, half_y=half), bodies=[body])
    for _ in range(100):
        stirred.advance(100)
        x = stirred.positions()
        assert np.abs(x[:, :2]).max() < half  # centres; what a wall loses at most is half a grain
        assert x[:, 2].min() > 0.5 * R
    assert abs(stirred.body_pose(0)[3]) == pytest.approx(1, abs=1e-3)  # ten whole turns
    assert np.abs(stirred.velocities()).max() > 0.01  # it was stirred all along
