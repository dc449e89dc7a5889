"""Rigid bodies that grains meet: meshes as distance grids, with a pose and a twist."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import ArrayLike

from stages.scene.granular.errors import GrainsError
from stages.scene.granular.sdf import DistanceGrid
from stages.scene.granular.world import Bodies


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Body:
    """A rigid body that goes its own way: grains feel it, it does not feel them."""

    grid: DistanceGrid
    position: ArrayLike = (0.0, 0.0, 0.0)  # (3,) m, world
    rotation_wxyz: ArrayLike = (1.0, 0.0, 0.0, 0.0)
    velocity: ArrayLike = (0.0, 0.0, 0.0)  # (3,) m/s, of the origin, world
    spin: ArrayLike = (0.0, 0.0, 0.0)  # (3,) rad/s, world


def pack_bodies(bodies: Sequence[Body], reach: float) -> Bodies:
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
    out = Bodies()
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
