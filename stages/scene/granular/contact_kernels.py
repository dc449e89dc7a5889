"""Warp kernels that find contacts: spatial hash, detection, contact frames.

One thread per grain, which writes only that grain's rows, except for the one compare-and-swap with
which it enters the hash. A grain's contacts are sorted by partner, so that nothing depends on the
order in which threads ran.
"""

import warp as wp

from stages.scene.granular.device import MODULE_OPTIONS
from stages.scene.granular.world import (
    FIRST_BODY,
    Bodies,
    Container,
    Material,
    body_distance,
    wall_distance,
    wall_normal,
)

wp.set_module_options(MODULE_OPTIONS)

SLOTS = 24  # contacts of one grain: at most 12 neighbours touch a sphere, some more lie near


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
            count = insert_sorted(partners, i, count, FIRST_BODY - b)
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
    elif partner > FIRST_BODY:
        n = wall_normal(partner, xi)
        depth = material.radius - wall_distance(partner, xi, container)
    else:
        b = FIRST_BODY - partner
        found = body_distance(bodies, b, xi)
        n = wp.vec3(found[0], found[1], found[2])
        depth = material.radius - found[3]
        # where the grain touches; without spin at its centre, as its own velocity is
        touch = xi - material.arm * n
        surface = bodies.velocity[b] + wp.cross(bodies.spin[b], touch - bodies.position[b])
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
