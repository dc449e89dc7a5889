"""What grains meet, as Warp sees it: walls, bodies with their distance grids, a material.

Partners in a contact: a grain by its number, walls and bodies by negative codes.
"""

import warp as wp

from stages.scene.granular.device import MODULE_OPTIONS

wp.set_module_options(MODULE_OPTIONS)

FLOOR, EAST, WEST, NORTH, SOUTH, SIDE = -1, -2, -3, -4, -5, -6
SIDES = (EAST, WEST, NORTH, SOUTH, SIDE)
FIRST_BODY = wp.constant(-7)  # body b is FIRST_BODY - b
FAR = wp.constant(1.0e9)  # m, the distance of a body whose grid is elsewhere


@wp.struct
class Container:
    """Inner faces. `walls` has bit -code - 1 for every wall that is there."""

    half_x: float  # m; radius of the round SIDE
    half_y: float
    walls: int


@wp.struct
class Bodies:
    """Kinematic bodies and the grids of signed distances they refer to; world frame."""

    count: int
    position: wp.array(dtype=wp.vec3)
    rotation: wp.array(dtype=wp.quat)  # xyzw, Warp's order
    velocity: wp.array(dtype=wp.vec3)  # of the body's origin
    spin: wp.array(dtype=wp.vec3)
    grid: wp.array(dtype=int)  # (B,) which grid
    reach: wp.array(dtype=float)  # (grids,) m, of the grid's corners from the origin
    start: wp.array(dtype=int)  # (grids,) into values
    dims: wp.array(dtype=wp.vec3i)
    low: wp.array(dtype=wp.vec3)  # m, body frame, of knot (0, 0, 0)
    spacing: wp.array(dtype=float)
    values: wp.array(dtype=float)


@wp.struct
class Material:
    """One radius, one mass, three frictions."""

    radius: float
    mass: float
    arm: float  # m, of a contact about the centre: the radius, or 0 for grains that do not spin
    inertia: float  # kg m^2
    give: float  # of the surface to a push across, over that of the centre: 1 + m arm^2 / inertia
    friction: float
    friction_wall: float
    friction_body: float
    margin: float  # m; contacts that close within it are seen before they touch
    baumgarte: float
    relaxation: float


@wp.func
def wall_normal(code: int, x: wp.vec3) -> wp.vec3:
    """Into the container."""
    if code == -1:
        return wp.vec3(0.0, 0.0, 1.0)
    if code == -2:
        return wp.vec3(-1.0, 0.0, 0.0)
    if code == -3:
        return wp.vec3(1.0, 0.0, 0.0)
    if code == -4:
        return wp.vec3(0.0, -1.0, 0.0)
    if code == -5:
        return wp.vec3(0.0, 1.0, 0.0)
    across = wp.sqrt(x[0] * x[0] + x[1] * x[1])
    if across < 1.0e-9:
        return wp.vec3(1.0, 0.0, 0.0)
    return wp.vec3(-x[0] / across, -x[1] / across, 0.0)


@wp.func
def wall_distance(code: int, x: wp.vec3, c: Container) -> float:
    """Of a point from the wall; negative beyond it, however far."""
    if code == -1:
        return x[2]
    if code == -2:
        return c.half_x - x[0]
    if code == -3:
        return c.half_x + x[0]
    if code == -4:
        return c.half_y - x[1]
    if code == -5:
        return c.half_y + x[1]
    return c.half_x - wp.sqrt(x[0] * x[0] + x[1] * x[1])


@wp.func
def knot(b: Bodies, start: int, dims: wp.vec3i, i: int, j: int, k: int) -> float:
    return b.values[start + (i * dims[1] + j) * dims[2] + k]


@wp.func
def body_distance(b: Bodies, body: int, x: wp.vec3) -> wp.vec4:
    """Outward normal (world) and signed distance of a point; 1e9 away from the grid.

    Trilinear between the knots; the normal is the gradient of that.
    """
    g = b.grid[body]
    away = x - b.position[body]
    if not (wp.length_sq(away) <= b.reach[g] * b.reach[g]):  # nor when it is no number
        return wp.vec4(0.0, 0.0, 1.0, FAR)
    q = b.rotation[body]
    dims = b.dims[g]
    p = (wp.quat_rotate_inv(q, away) - b.low[g]) / b.spacing[g]
    if (
        p[0] < 0.0 or p[1] < 0.0 or p[2] < 0.0
        or p[0] >= float(dims[0] - 1) or p[1] >= float(dims[1] - 1) or p[2] >= float(dims[2] - 1)
    ):  # fmt: skip
        return wp.vec4(0.0, 0.0, 1.0, FAR)
    i = int(p[0])
    j = int(p[1])
    k = int(p[2])
    u = p[0] - float(i)
    v = p[1] - float(j)
    w = p[2] - float(k)
    s = b.start[g]
    d000 = knot(b, s, dims, i, j, k)
    d001 = knot(b, s, dims, i, j, k + 1)
    d010 = knot(b, s, dims, i, j + 1, k)
    d011 = knot(b, s, dims, i, j + 1, k + 1)
    d100 = knot(b, s, dims, i + 1, j, k)
    d101 = knot(b, s, dims, i + 1, j, k + 1)
    d110 = knot(b, s, dims, i + 1, j + 1, k)
    d111 = knot(b, s, dims, i + 1, j + 1, k + 1)
    low_y = wp.lerp(wp.lerp(d000, d001, w), wp.lerp(d010, d011, w), v)
    high_y = wp.lerp(wp.lerp(d100, d101, w), wp.lerp(d110, d111, w), v)
    low_x = wp.lerp(wp.lerp(d000, d001, w), wp.lerp(d100, d101, w), u)
    high_x = wp.lerp(wp.lerp(d010, d011, w), wp.lerp(d110, d111, w), u)
    low_z = wp.lerp(wp.lerp(d000, d010, v), wp.lerp(d100, d110, v), u)
    high_z = wp.lerp(wp.lerp(d001, d011, v), wp.lerp(d101, d111, v), u)
    gradient = wp.vec3(high_y - low_y, high_x - low_x, high_z - low_z)
    n = wp.quat_rotate(q, wp.normalize(gradient))
    return wp.vec4(n[0], n[1], n[2], wp.lerp(low_y, high_y, u))


@wp.kernel
def probe(x: wp.array(dtype=wp.vec3), body: int, bodies: Bodies, out: wp.array(dtype=wp.vec4)):
    """Outward normal and signed distance of points from a body."""
    i = wp.tid()
    out[i] = body_distance(bodies, body, x[i])
