"""Involute helical gears as meshes: bodies that are not convex, for the granular benchmark."""

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
PRESSURE = np.radians(20.0)


def helical_gear(
    radius: float, width: float, *, teeth: int = 12, helix_deg: float = 25.0, slices: int = 9
) -> tuple[Float, NDArray[np.int64]]:
    """Closed mesh (V, 3) m, (F, 3) of a gear about z; `radius` is that of its pitch circle."""
    outline = gear_outline(radius, teeth)
    n = len(outline)
    z = np.linspace(-width / 2, width / 2, slices)
    turn = z * np.tan(np.radians(helix_deg)) / radius
    rings = [
        np.column_stack([outline @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]),
                         np.full(n, h)])
        for a, h in zip(turn, z, strict=True)
    ]  # fmt: skip
    vertices = np.concatenate([*rings, [[0, 0, z[0]], [0, 0, z[-1]]]])
    foot, top = len(vertices) - 2, len(vertices) - 1
    i = np.arange(n)
    j = (i + 1) % n
    faces: list[NDArray[np.int64]] = []
    for s in range(slices - 1):
        a, b = s * n, (s + 1) * n
        faces += [np.column_stack([a + i, a + j, b + j]), np.column_stack([a + i, b + j, b + i])]
    last = (slices - 1) * n
    # the outline is seen whole from its centre, so a fan closes it
    faces.append(np.column_stack([np.full(n, foot), j, i]))
    faces.append(np.column_stack([np.full(n, top), last + i, last + j]))
    return vertices, np.concatenate(faces)


def gear_outline(radius: float, teeth: int, points: int = 6) -> Float:
    """(n, 2) counter-clockwise; flanks are involutes of the base circle."""
    module = 2 * radius / teeth
    base, tip, root = radius * np.cos(PRESSURE), radius + module, radius - 1.25 * module
    low = max(base, root)

    def swept(r: Float) -> Float:
        """Angle of the involute at radius r from where it leaves the base circle."""
        pressure = np.arccos(np.minimum(base / r, 1.0))
        return np.tan(pressure) - pressure

    r = np.linspace(low, tip, points)
    # half the tooth's angle at the pitch circle is a quarter of the pitch
    half = np.pi / (2 * teeth) + float(swept(np.array([radius]))[0])
    side = np.maximum(half - swept(r), 0.02 / teeth)
    flank = [(-a, d) for a, d in zip(side, r, strict=True)]
    tooth = [(-side[0], root), *flank, *[(-a, d) for a, d in reversed(flank)], (side[0], root)]
    out = [
        (d * np.cos(a + 2 * np.pi * t / teeth), d * np.sin(a + 2 * np.pi * t / teeth))
        for t in range(teeth)
        for a, d in tooth
    ]
    return np.array(out)
