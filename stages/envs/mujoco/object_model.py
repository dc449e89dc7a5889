"""Objects and tables in a MuJoCo model. Mass is stated, never summed from shapes."""

from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from schemas.frames import pose_to_matrix
from schemas.records import ObjectAsset
from stages.envs.mujoco.collision import (
    OBJECT_CONAFFINITY,
    OBJECT_CONTYPE,
    OBJECT_GROUP,
    TABLE_CONAFFINITY,
    TABLE_CONTYPE,
    TABLE_GROUP,
)

FRICTION = (0.6, 0.02, 0.0001)
"""Sliding (1), torsional (m), rolling (m) coefficients; DexGraspBench's 0.6 / 0.02."""
TABLE_THICKNESS = 0.1  # m


def add_object(
    spec: mujoco.MjSpec,
    asset: ObjectAsset,
    name: str,
    pose: ArrayLike,
    mass: float | None = None,
    friction: Sequence[float] = FRICTION,
    free: bool = True,
    condim: int = 4,
) -> mujoco.MjsBody:
    """Add `asset` as body `name` (free joint `<name>_free`) at `pose` (7,), world.

    Convex pieces become mesh geoms `<name>/<i>` in the asset's order, since MuJoCo's results
    depend on it. The body's inertial is the asset's own, scaled to `mass` kg (default: the
    asset's), so its mass is exact whatever the pieces overlap or leave out.
    """
    pose = np.asarray(pose, np.float64)
    mass = asset.mass if mass is None else float(mass)
    body = spec.worldbody.add_body(name=name, pos=pose[:3], quat=pose[3:7])
    if free:
        body.add_freejoint(name=f"{name}_free")
    inertia = np.asarray(asset.inertia, np.float64) * (mass / asset.mass)
    body.mass = mass
    body.ipos = np.asarray(asset.center_of_mass, np.float64)
    body.fullinertia = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    body.explicitinertial = 1
    for i, (vertices, faces) in enumerate(asset.pieces()):
        mesh_name = f"{name}/{i}"
        spec.add_mesh(
            name=mesh_name,
            uservert=np.asarray(vertices, np.float32).ravel(),
            userface=np.asarray(faces, np.int32).ravel(),
            # a piece may be a thin shard; only its shape is used, its mass is not
            inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX,
        )
        body.add_geom(
            name=mesh_name,
            type=mujoco.mjtGeom.mjGEOM_MESH,
            meshname=mesh_name,
            mass=0.0,
            friction=np.asarray(friction, np.float64),
            condim=condim,
            contype=OBJECT_CONTYPE,
            conaffinity=OBJECT_CONAFFINITY,
            group=OBJECT_GROUP,
        )
    return body


def add_table(
    spec: mujoco.MjSpec,
    pose: ArrayLike = (0, 0, 0, 1, 0, 0, 0),
    size: ArrayLike = (1.0, 1.0),
    friction: Sequence[float] = FRICTION,
    name: str = "table",
    condim: int = 4,
) -> mujoco.MjsGeom:
    """Add a fixed box whose top face is the plane z = 0 of `pose` (7,), `size` (2,) m.

    It touches objects and never the hand: a grasp that would graze the table is a matter of the
    samplers, and a hand held off the table would be pushed out of its grasp.
    """
    pose, size = np.asarray(pose, np.float64), np.asarray(size, np.float64)
    centre = pose[:3] - pose_to_matrix(pose)[:3, 2] * (TABLE_THICKNESS / 2)
    return spec.worldbody.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=centre,
        quat=pose[3:7],
        size=[size[0] / 2, size[1] / 2, TABLE_THICKNESS / 2],
        friction=np.asarray(friction, np.float64),
        condim=condim,
        contype=TABLE_CONTYPE,
        conaffinity=TABLE_CONAFFINITY,
        group=TABLE_GROUP,
    )
