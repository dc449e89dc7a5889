"""Warp kernels that solve and move: sweeps of Projected Jacobi, symplectic Euler, bodies.

The two grains of a pair compute its impulse each on its own; all operations are odd under the
exchange of the two, so the impulses are opposite to the last bit and momentum is conserved.

Without spin, contacts see the velocities of centres, as in the method's 3x3 contact Jacobian; with
it, those of the surfaces.
"""

import warp as wp

from stages.scene.granular.device import MODULE_OPTIONS
from stages.scene.granular.world import FIRST_BODY, Material

wp.set_module_options(MODULE_OPTIONS)


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
            mu = wp.where(partner > FIRST_BODY, material.friction_wall, material.friction_body)
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
