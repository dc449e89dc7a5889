"""Warp kernels of one time step: spatial hash, detection, contacts, Projected Jacobi, motion.

Every kernel has one thread per grain and writes only that grain's rows, except for the one
compare-and-swap with which a grain enters the hash. A grain's contacts are sorted by partner, so
that nothing depends on the order in which threads ran. The two grains of a pair compute its
impulse each on its own; all operations are odd under the exchange of the two, so the impulses are
opposite to the last bit and momentum is conserved.

Without spin, contacts see the velocities of centres, as in the method's 3x3 contact Jacobian;
with it, those of the surfaces. Partners: a grain by its number, walls and bodies by negative codes.
"""

from typing import Any

import warp as wp

from stages.scene.granular.device import MODULE_OPTIONS

wp.set_module_options(MODULE_OPTIONS)

SLOTS = 24  # contacts of one grain: at most 12 neighbours touch a sphere, some more lie near
FLOOR, EAST, WEST, NORTH, SOUTH, SIDE = -1, -2, -3, -4, -5, -6
SIDES = (EAST, WEST, NORTH, SOUTH, SIDE)
FIRST_BODY = -7  # body b is FIRST_BODY - b

OVERFLOW, JUMPED = 1, 2  # flags


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
def cell_of(x: wp.vec3, per_metre: float) -> wp.vec3i:
    return wp.vec3i(
        int(wp.round(x[0] * per_metre)),
        int(wp.round(x[1] * per_metre)),
        int(wp.round(x[2] * per_metre)),
    )


@wp.func
def bucket_of(cell: wp.vec3i, buckets: int) -> int:
    """Equation 6 of the method: three primes, xor, remainder (after Teschner et al. 2003)."""
    h = wp.uint32(cell[0]) * wp.uint32(73856093)
    h = h ^ (wp.uint32(cell[1]) * wp.uint32(19349663))
    h = h ^ (wp.uint32(cell[2]) * wp.uint32(83492791))
    return int(h % wp.uint32(buckets))


@wp.kernel
def insert(
    x: wp.array(dtype=wp.vec3),
    per_metre: float,
    head: wp.array(dtype=int),
    chain: wp.array(dtype=int),
):
    """Put each grain at the head of its bucket's list; `head` starts at -1."""
    i = wp.tid()
    bucket = bucket_of(cell_of(x[i], per_metre), head.shape[0])
    expected = int(head[bucket])
    done = int(0)
    while done == 0:
        chain[i] = expected
        found = wp.atomic_cas(head, bucket, expected, i)
        if found == expected:
            done = 1
        expected = found


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
    if wp.length_sq(away) > b.reach[g] * b.reach[g]:
        return wp.vec4(0.0, 0.0, 1.0, 1.0e9)
    q = b.rotation[body]
    dims = b.dims[g]
    p = (wp.quat_rotate_inv(q, away) - b.low[g]) / b.spacing[g]
    if (
        p[0] < 0.0 or p[1] < 0.0 or p[2] < 0.0
        or p[0] >= float(dims[0] - 1) or p[1] >= float(dims[1] - 1) or p[2] >= float(dims[2] - 1)
    ):  # fmt: skip
        return wp.vec4(0.0, 0.0, 1.0, 1.0e9)
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


@wp.func
def insert_sorted(partners: wp.array2d(dtype=int), i: int, count: int, partner: int) -> int:
    """Ascending; returns the new count, which stays at the number of slots when they are full."""
    if count >= partners.shape[1]:
        return partners.shape[1] + 1
    s = int(count)
    while s > 0 and partners[i, wp.max(s - 1, 0)] > partner:
        partners[i, s] = partners[i, s - 1]
        s -= 1
    partners[i, s] = partner
    return count + 1


@wp.func
def find_partners(
    i: int,
    x: wp.array(dtype=wp.vec3),
    per_metre: float,
    head: wp.array(dtype=int),
    chain: wp.array(dtype=int),
    material: Material,
    container: Container,
    bodies: Bodies,
    partners: wp.array2d(dtype=int),
    flags: wp.array(dtype=int),
) -> int:
    """Fill the grain's row of `partners` with all within the margin; returns how many."""
    xi = x[i]
    cell = cell_of(xi, per_metre)
    near = 2.0 * material.radius + material.margin
    count = int(0)
    for n in range(27):
        c = wp.vec3i(cell[0] + n / 9 - 1, cell[1] + (n / 3) % 3 - 1, cell[2] + n % 3 - 1)
        j = head[bucket_of(c, head.shape[0])]
        while j >= 0:
            if j != i and wp.length_sq(xi - x[j]) <= near * near:
                # two of the 27 cells may share a bucket: only grains of this cell count
                if cell_of(x[j], per_metre) == c:
                    count = insert_sorted(partners, i, count, j)
            j = chain[j]
    reach = material.radius + material.margin
    for w in range(6):
        if (container.walls >> w) & 1 == 1:
            if wall_distance(-w - 1, xi, container) <= reach:
                count = insert_sorted(partners, i, count, -w - 1)
    for b in range(bodies.count):
        found = body_distance(bodies, b, xi)
        if found[3] <= reach:
            count = insert_sorted(partners, i, count, -7 - b)
    if count > partners.shape[1]:
        wp.atomic_max(flags, 0, 1)
        count = partners.shape[1]
    return count


@wp.func
def set_contact(
    i: int,
    s: int,
    x: wp.array(dtype=wp.vec3),
    dt: float,
    material: Material,
    container: Container,
    bodies: Bodies,
    partners: wp.array2d(dtype=int),
    old_count: int,
    old_partners: wp.array2d(dtype=int),
    old_impulse: wp.array2d(dtype=wp.vec3),
    warm: float,
    normal: wp.array2d(dtype=wp.vec3),
    wanted: wp.array2d(dtype=float),
    moving: wp.array2d(dtype=wp.vec3),
    impulse: wp.array2d(dtype=wp.vec3),
    ahead: wp.array2d(dtype=wp.vec3),
) -> wp.vec3:
    """Frame, wanted normal velocity and first impulse of one contact; returns the impulse."""
    partner = partners[i, s]
    xi = x[i]
    depth = float(0.0)
    n = wp.vec3(0.0, 0.0, 1.0)
    surface = wp.vec3(0.0, 0.0, 0.0)
    if partner >= 0:
        away = xi - x[partner]
        far = wp.length(away)
        if far > 0.0:
            n = away / far
        elif i < partner:  # one lies exactly on the other: any direction will do, but one
            n = wp.vec3(0.0, 0.0, -1.0)
        depth = 2.0 * material.radius - far
    elif partner > -7:
        n = wall_normal(partner, xi)
        depth = material.radius - wall_distance(partner, xi, container)
    else:
        b = -7 - partner
        found = body_distance(bodies, b, xi)
        n = wp.vec3(found[0], found[1], found[2])
        depth = material.radius - found[3]
        surface = bodies.velocity[b] + wp.cross(bodies.spin[b], xi - bodies.position[b])
    normal[i, s] = n
    moving[i, s] = surface
    # Baumgarte 1972 inside; outside, just what brings the surfaces together within the step
    if depth > 0.0:
        wanted[i, s] = material.baumgarte * depth / dt
    else:
        wanted[i, s] = depth / dt
    p = wp.vec3(0.0, 0.0, 0.0)
    for t in range(old_count):
        if old_partners[i, t] == partner:
            p = warm * old_impulse[i, t]
    impulse[i, s] = p
    ahead[i, s] = p
    return p


@wp.kernel
def detect(
    x: wp.array(dtype=wp.vec3),
    per_metre: float,
    head: wp.array(dtype=int),
    chain: wp.array(dtype=int),
    material: Material,
    container: Container,
    bodies: Bodies,
    partners: wp.array2d(dtype=int),
    counts: wp.array(dtype=int),
    flags: wp.array(dtype=int),
):
    """First of the two split kernels: only marks who touches whom."""
    i = wp.tid()
    counts[i] = find_partners(
        i, x, per_metre, head, chain, material, container, bodies, partners, flags
    )


@wp.kernel
def contacts(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    spin: wp.array(dtype=wp.vec3),
    pull: wp.vec3,
    dt: float,
    material: Material,
    container: Container,
    bodies: Bodies,
    partners: wp.array2d(dtype=int),
    counts: wp.array(dtype=int),
    old_partners: wp.array2d(dtype=int),
    old_counts: wp.array(dtype=int),
    old_impulse: wp.array2d(dtype=wp.vec3),
    warm: float,
    normal: wp.array2d(dtype=wp.vec3),
    wanted: wp.array2d(dtype=float),
    moving: wp.array2d(dtype=wp.vec3),
    impulse: wp.array2d(dtype=wp.vec3),
    ahead: wp.array2d(dtype=wp.vec3),
    free: wp.array(dtype=wp.vec3),
    first: wp.array(dtype=wp.vec3),
    first_spin: wp.array(dtype=wp.vec3),
):
    """Second: contact frames, velocities without (`free`) and with the first impulses."""
    i = wp.tid()
    total = wp.vec3(0.0, 0.0, 0.0)
    turn = wp.vec3(0.0, 0.0, 0.0)
    for s in range(counts[i]):
        p = set_contact(
            i, s, x, dt, material, container, bodies, partners,
            old_counts[i], old_partners, old_impulse, warm, normal, wanted, moving, impulse, ahead,
        )  # fmt: skip
        total += p
        turn += wp.cross(normal[i, s], p)
    free[i] = v[i] + dt * pull
    first[i] = free[i] + total / material.mass
    first_spin[i] = spin[i] - turn * (material.arm / material.inertia)


@wp.kernel
def detect_and_contacts(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    spin: wp.array(dtype=wp.vec3),
    per_metre: float,
    head: wp.array(dtype=int),
    chain: wp.array(dtype=int),
    pull: wp.vec3,
    dt: float,
    material: Material,
    container: Container,
    bodies: Bodies,
    partners: wp.array2d(dtype=int),
    counts: wp.array(dtype=int),
    old_partners: wp.array2d(dtype=int),
    old_counts: wp.array(dtype=int),
    old_impulse: wp.array2d(dtype=wp.vec3),
    warm: float,
    normal: wp.array2d(dtype=wp.vec3),
    wanted: wp.array2d(dtype=float),
    moving: wp.array2d(dtype=wp.vec3),
    impulse: wp.array2d(dtype=wp.vec3),
    ahead: wp.array2d(dtype=wp.vec3),
    free: wp.array(dtype=wp.vec3),
    first: wp.array(dtype=wp.vec3),
    first_spin: wp.array(dtype=wp.vec3),
    flags: wp.array(dtype=int),
):
    """Both at once, for comparison: the same numbers."""
    i = wp.tid()
    counts[i] = find_partners(
        i, x, per_metre, head, chain, material, container, bodies, partners, flags
    )
    total = wp.vec3(0.0, 0.0, 0.0)
    turn = wp.vec3(0.0, 0.0, 0.0)
    for s in range(counts[i]):
        p = set_contact(
            i, s, x, dt, material, container, bodies, partners,
            old_counts[i], old_partners, old_impulse, warm, normal, wanted, moving, impulse, ahead,
        )  # fmt: skip
        total += p
        turn += wp.cross(normal[i, s], p)
    free[i] = v[i] + dt * pull
    first[i] = free[i] + total / material.mass
    first_spin[i] = spin[i] - turn * (material.arm / material.inertia)


@wp.kernel
def solve(
    before: wp.array(dtype=wp.vec3),
    spin_before: wp.array(dtype=wp.vec3),
    free: wp.array(dtype=wp.vec3),
    spin: wp.array(dtype=wp.vec3),
    partners: wp.array2d(dtype=int),
    counts: wp.array(dtype=int),
    normal: wp.array2d(dtype=wp.vec3),
    wanted: wp.array2d(dtype=float),
    moving: wp.array2d(dtype=wp.vec3),
    material: Material,
    momentum: float,
    impulse: wp.array2d(dtype=wp.vec3),
    ahead: wp.array2d(dtype=wp.vec3),
    after: wp.array(dtype=wp.vec3),
    spin_after: wp.array(dtype=wp.vec3),
):
    """One sweep of Projected Jacobi, from the velocities `before` to those `after`.

    Each contact takes its share of its grains' mass, one part per contact (Tonge, Benevolenski and
    Voroshilov 2012), so that all may act at once without overshooting. `ahead` is `impulse` moved
    on by `momentum` times its last change (Nesterov 1983); 0 is the plain method.
    """
    i = wp.tid()
    vi = before[i]
    wi = spin_before[i]
    mine = counts[i]
    total = wp.vec3(0.0, 0.0, 0.0)
    turn = wp.vec3(0.0, 0.0, 0.0)
    for s in range(mine):
        partner = partners[i, s]
        n = normal[i, s]
        parts = int(mine)
        mu = float(material.friction)
        c = vi
        rolling = wi
        if partner >= 0:
            c = vi - before[partner]
            rolling = wi + spin_before[partner]
            parts = mine + counts[partner]
        else:
            c = vi - moving[i, s]
            mu = wp.where(partner > -7, material.friction_wall, material.friction_body)
        closing = wp.dot(c, n)
        step = material.relaxation * material.mass / float(parts)
        guess = ahead[i, s]
        along = wp.dot(guess, n)
        pressed = along - step * (closing - wanted[i, s])
        p = wp.vec3(0.0, 0.0, 0.0)
        if pressed > 0.0:
            slip = c - closing * n - material.arm * wp.cross(rolling, n)
            across = guess - along * n - (step / material.give) * slip
            most = mu * pressed
            size_sq = wp.length_sq(across)
            if size_sq > most * most:
                across = across * (most / wp.sqrt(size_sq))
            p = pressed * n + across
        last = impulse[i, s]
        next = p + momentum * (p - last)
        impulse[i, s] = p
        ahead[i, s] = next
        total += next
        turn += wp.cross(n, next)
    after[i] = free[i] + total / material.mass
    spin_after[i] = spin[i] - turn * (material.arm / material.inertia)


@wp.kernel
def move(
    v_new: wp.array(dtype=wp.vec3),
    spin_new: wp.array(dtype=wp.vec3),
    dt: float,
    farthest: float,
    cycle_low: float,
    cycle_high: float,
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    spin: wp.array(dtype=wp.vec3),
    flags: wp.array(dtype=int),
):
    """Symplectic Euler: the new velocity moves the grain; the cyclic boundary lifts it up again."""
    i = wp.tid()
    u = v_new[i]
    step = dt * u
    if not (wp.length_sq(step) <= farthest * farthest):  # not a number compares false
        wp.atomic_max(flags, 1, 1)
    p = x[i] + step
    if cycle_high > cycle_low and p[2] < cycle_low:
        p = wp.vec3(p[0], p[1], p[2] + cycle_high - cycle_low)
    x[i] = p
    v[i] = u
    spin[i] = spin_new[i]


@wp.kernel
def move_bodies(
    dt: float,
    velocity: wp.array(dtype=wp.vec3),
    spin: wp.array(dtype=wp.vec3),
    position: wp.array(dtype=wp.vec3),
    rotation: wp.array(dtype=wp.quat),
):
    """Bodies go on with their twist, whatever lies in their way."""
    b = wp.tid()
    position[b] = position[b] + dt * velocity[b]
    w = spin[b]
    angle = wp.length(w) * dt
    if angle > 0.0:
        turn = wp.quat_from_axis_angle(wp.normalize(w), angle)
        rotation[b] = wp.normalize(turn * rotation[b])


@wp.kernel
def probe(x: wp.array(dtype=wp.vec3), body: int, bodies: Bodies, out: wp.array(dtype=wp.vec4)):
    """Outward normal and signed distance of points from a body."""
    i = wp.tid()
    out[i] = body_distance(bodies, body, x[i])


def load() -> Any:
    """Compile the kernels, or read them from the cache, before the clock of a benchmark runs."""
    return wp.get_module(__name__)
