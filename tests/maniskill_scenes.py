"""Scenes of solids for ManiSkill, and the environments that tests share."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import trimesh

from schemas.camera import Intrinsics
from schemas.frames import look_at
from schemas.records import ObjectAsset, Scene
from stages.envs.maniskill.scenes import GraspScene
from tests.solids import solid_asset

K = Intrinsics(fx=150.0, fy=150.0, cx=80.0, cy=59.5, width=160, height=120)


@lru_cache(maxsize=1)
def solids() -> dict[str, ObjectAsset]:
    """A sphere of 40 mm radius, a box, a torus lying down (not convex, one piece)."""
    return {
        "sphere": solid_asset(trimesh.creation.icosphere(4, 0.04), "sphere"),
        "box": solid_asset(trimesh.creation.box((0.06, 0.04, 0.06)), "box"),
        "torus": solid_asset(trimesh.creation.torus(0.06, 0.015), "torus"),
    }


def a_scene(
    names: Sequence[str], places: Sequence[Sequence[float]], table: bool = True, name: str = "s"
) -> GraspScene:
    """Objects by name at `places` (x, y, z, turn about z), on a 1 x 0.8 m table or in the air."""
    known = solids()
    poses = [[x, y, z, np.cos(a / 2), 0, 0, np.sin(a / 2)] for x, y, z, a in places]
    scene = Scene(
        scene_id=name,
        kind="tabletop" if table else "floating",
        split="train",
        object_ids=tuple(names),
        object_poses=np.array(poses),
        object_scales=np.ones(len(names)),
        object_masses=np.array([known[n].mass for n in names]),
        table_pose=np.array([0, 0, 0, 1.0, 0, 0, 0]),
        table_size=np.array([1.0, 0.8]) if table else np.zeros(2),
        settle_time=0.0,
    )
    return GraspScene(scene=scene, assets=tuple(known[n] for n in names))


def three(seed: int, table: bool = True) -> GraspScene:
    """The three solids side by side, turned and moved a little by `seed`."""
    rng = np.random.default_rng(seed)
    heights = {"sphere": 0.04, "box": 0.03, "torus": 0.015}
    names = rng.permutation(list(heights)).tolist()
    places = [
        (0.12 * (i - 1) + rng.uniform(-0.01, 0.01), rng.uniform(-0.05, 0.05), heights[n],
         rng.uniform(0, 6))
        for i, n in enumerate(names)
    ]  # fmt: skip
    return a_scene(names, places, table, name=f"three-{seed}")


def eye(view: int) -> np.ndarray:
    """(4, 4) camera `view` of a ring around the table."""
    angle, height = 0.7 * view, 0.35 + 0.05 * (view % 4)
    return look_at([0.4 * np.cos(angle), 0.4 * np.sin(angle), height], [0, 0, 0.02], roll=0.1)
