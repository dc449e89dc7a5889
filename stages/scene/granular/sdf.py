"""Signed distances of a closed mesh on a regular grid, for contact with grains.

Distances are exact at the knots (nearest point by BVH, sign by winding number) and trilinear
between them. Where the surface is flat the interpolation is exact; on a surface of radius R it is
off by at most about 3 h^2 / 8 R for knots h apart; edges are rounded over about one h.
"""

from dataclasses import dataclass

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from stages.scene.granular.device import MODULE_OPTIONS, start
from stages.scene.granular.errors import GrainsError

wp.set_module_options(MODULE_OPTIONS)

MAX_KNOTS = 20_000_000  # of one grid: 80 MB
INSIDE = 0.5  # winding number above which a point counts as inside


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DistanceGrid:
    """Signed distance at knots `low + spacing * (i, j, k)`, body frame, negative inside."""

    low: NDArray[np.float64]  # (3,) m
    spacing: float  # m
    values: NDArray[np.float32]  # (I, J, K) m
    margin: float  # m of grid around the mesh
    vertices: NDArray[np.float32]  # (V, 3) m, of the mesh
    faces: NDArray[np.int32]  # (F, 3)


@wp.kernel
def signed_distances(
    mesh: wp.uint64,
    low: wp.vec3,
    spacing: float,
    dims: wp.vec3i,
    threshold: float,
    out: wp.array(dtype=float),
):
    i, j, k = wp.tid()
    p = low + spacing * wp.vec3(float(i), float(j), float(k))
    found = wp.mesh_query_point_sign_winding_number(mesh, p, 1.0e6, 2.0, threshold)
    nearest = wp.mesh_eval_position(mesh, found.face, found.u, found.v)
    out[(i * dims[1] + j) * dims[2] + k] = found.sign * wp.length(p - nearest)


def distance_grid(
    vertices: ArrayLike,
    faces: ArrayLike,
    *,
    spacing: float,
    margin: float,
    device: str = "cpu",
) -> DistanceGrid:
    """Grid of a mesh (V, 3) m, (F, 3) outward; it reaches `margin` metres beyond the mesh.

    Raises GrainsError for a mesh without volume, for one thinner than the grid resolves, and for a
    grid of more than MAX_KNOTS.
    """
    points = np.ascontiguousarray(vertices, np.float32).reshape(-1, 3)
    triangles = np.ascontiguousarray(faces, np.int32).reshape(-1, 3)
    if not len(triangles) or not np.isfinite(points).all():
        raise GrainsError(
            f"body: expected a mesh of finite vertices with triangles, got {len(points)} vertices "
            f"and {len(triangles)} triangles"
        )
    if not spacing > 0 or not margin >= 0:
        raise GrainsError(f"body: expected spacing > 0 and margin >= 0 m, got {spacing}, {margin}")
    a, b, c = points.astype(np.float64)[triangles].transpose(1, 0, 2)
    volume = float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6)
    size = np.ptp(points.astype(np.float64), axis=0)
    if not volume > 1e-6 * max(float(size.max()), 1e-9) ** 3:
        raise GrainsError(
            f"body: the mesh has no volume ({volume:.3g} m^3 in a box of "
            f"{' x '.join(f'{s:.3g}' for s in size)} m); close it, give it a thickness, and turn "
            "its triangles outward"
        )
    low = points.min(axis=0).astype(np.float64) - margin - spacing
    dims = np.ceil((points.max(axis=0) + margin + spacing - low) / spacing).astype(int) + 1
    if int(np.prod(dims)) > MAX_KNOTS:
        raise GrainsError(
            f"body: a grid of {' x '.join(map(str, dims))} knots is more than {MAX_KNOTS}; raise "
            f"the spacing above {spacing} m"
        )
    start()
    with wp.ScopedDevice(device):
        mesh = wp.Mesh(
            points=wp.array(points, dtype=wp.vec3),
            indices=wp.array(triangles.reshape(-1), dtype=int),
            support_winding_number=True,
        )
        out = wp.empty(int(np.prod(dims)), dtype=float)
        wp.launch(
            signed_distances,
            dim=tuple(int(d) for d in dims),
            inputs=[mesh.id, wp.vec3(*low), spacing, wp.vec3i(*map(int, dims)), INSIDE],
            outputs=[out],
        )
        values = out.numpy().reshape(dims)
    if not (values < 0).any():
        raise GrainsError(
            f"body: no knot of the grid lies inside the mesh; it is thinner than the spacing of "
            f"{spacing * 1e3:.2f} mm, make that smaller"
        )
    return DistanceGrid(
        low=low.astype(np.float32).astype(np.float64),
        spacing=spacing,
        values=values,
        margin=margin,
        vertices=points,
        faces=triangles,
    )
