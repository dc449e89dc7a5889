"""What sub-scenes hold, and the actors made of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sapien
import torch
from mani_skill.envs.scene import ManiSkillScene
from mani_skill.utils.structs import Actor, Pose
from numpy.typing import NDArray

from schemas.frames import pose_to_matrix
from schemas.records import FIRST_OBJECT, TABLE, TABLE_THICKNESS, ObjectAsset, Scene
from stages.envs.errors import EnvConfigError
from stages.envs.maniskill.meshes import AssetBuilder

Float = NDArray[np.float64]
HAND_BIT = 30  # collision group bit of the hand and the table, which do not touch
GREY = (0.4, 0.4, 0.4, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GraspScene:
    """What one sub-scene holds; `assets` in the order of `scene.object_ids`."""

    scene: Scene
    assets: tuple[ObjectAsset, ...]
    target: int = 0  # index of the object to grasp

    def __post_init__(self) -> None:
        if self.scene.has_grains:
            raise EnvConfigError(
                f"scene {self.scene.scene_id!r}: holds grains and a bin, which ManiSkill's "
                "sub-scenes do not; use scenes of another kind, or backend: embree for pictures"
            )
        ids = tuple(asset.object_id for asset in self.assets)
        if ids != tuple(self.scene.object_ids):
            raise EnvConfigError(
                f"scene {self.scene.scene_id!r}: expected the assets of "
                f"{list(self.scene.object_ids)}, got {list(ids)}"
            )
        if ids and not 0 <= self.target < len(ids):
            raise EnvConfigError(
                f"scene {self.scene.scene_id!r}: target {self.target} of {len(ids)} objects"
            )

    @property
    def build_key(self) -> tuple[Any, ...]:
        """What cannot be changed without building anew; poses are not part of it."""
        meshes = tuple((a.object_id, a.sha256, a.scale) for a in self.assets)
        masses = tuple(np.asarray(self.scene.object_masses).tolist())
        return meshes, masses, tuple(self.scene.table_size.tolist()), self.target


@dataclass(frozen=True, kw_only=True, slots=True)
class Physics:
    """Numbers of the objects; see DexGrasp."""

    floating_object: bool = False
    object_mass: float | None = 0.1  # kg
    friction: float = 0.6
    collisions: bool = True  # False: pictures alone


@dataclass(kw_only=True, slots=True, eq=False)
class Group:
    """One actor: the same mesh, scale and mass in some of the sub-scenes."""

    asset: ObjectAsset
    mass: float
    weightless: bool
    places: list[tuple[int, int]] = field(default_factory=list)  # (sub-scene, index in it)
    actor: Any = None


def grouped(scenes: Sequence[GraspScene], physics: Physics) -> list[Group]:
    """Equal objects of all sub-scenes as one group each, sorted; two copies in a scene are two."""
    groups: dict[tuple[Any, ...], Group] = {}
    for i, one in enumerate(scenes):
        seen: dict[tuple[Any, ...], int] = {}
        for slot, asset in enumerate(one.assets):
            mesh = (asset.object_id, asset.sha256, asset.scale)
            copy = seen[mesh] = seen.get(mesh, -1) + 1
            mass = physics.object_mass
            mass = float(one.scene.object_masses[slot]) if mass is None else mass
            weightless = physics.floating_object or not one.scene.has_table
            key = (*mesh, mass, weightless, copy)
            group = groups.setdefault(key, Group(asset=asset, mass=mass, weightless=weightless))
            group.places.append((i, slot))
    return [groups[key] for key in sorted(groups)]


def unit_rows(poses: torch.Tensor) -> Float:
    """(N, 7) float64 poses whose quaternions, float32 in PhysX, are unit ones again."""
    out = poses.cpu().numpy().astype(np.float64)
    out[:, 3:7] /= np.linalg.norm(out[:, 3:7], axis=1, keepdims=True)
    return out


class SceneActors:
    """Objects and tables of all sub-scenes in a ManiSkill scene; `target` is their merged view.

    Built in sorted order, since PhysX's contacts depend on the order of insertion.
    """

    def __init__(
        self, world: ManiSkillScene, scenes: Sequence[GraspScene], physics: Physics
    ) -> None:
        self.world, self.scenes, self.physics = world, tuple(scenes), physics
        self.tables: list[tuple[Actor, list[int]]] = []
        self._build_tables()
        self.groups = grouped(scenes, physics)
        for n, group in enumerate(self.groups):
            builder = AssetBuilder(
                world,
                group.asset,
                collisions=physics.collisions,
                mass=group.mass,
                friction=physics.friction,
                weightless=group.weightless,
            )
            builder.set_scene_idxs([i for i, _ in group.places])
            builder.initial_pose = self.poses(
                [scenes[i].scene.object_poses[k] for i, k in group.places]
            )
            group.actor = builder.build(name=f"object-{n}-{group.asset.object_id}")
        self.target = self._merged_target()

    def poses(self, poses: Any) -> Pose:
        """(M, 7) as ManiSkill's float32 poses, on its device."""
        raw = np.asarray(poses, np.float32).reshape(-1, 7)
        return Pose.create(torch.as_tensor(raw, device=self.world.device))

    def move(self, scenes: Sequence[GraspScene]) -> None:
        """Write the poses of `scenes`, whose build keys are those of what is built."""
        self.scenes = tuple(scenes)
        self.set_object_poses([one.scene.object_poses for one in scenes])
        for actor, places in self.tables:
            actor.set_pose(self.poses([self._table_middle(i) for i in places]))

    def set_object_poses(self, poses: Sequence[Float]) -> None:
        """Write object poses, (O_i, 7) world for sub-scene i, in the order of its record."""
        for group in self.groups:
            rows = [poses[i][k] for i, k in group.places]
            # On CUDA a partial reset writes the rows of the sub-scenes in the mask alone.
            if self.world.gpu_sim_enabled:
                mask = self.world._reset_mask[group.actor._scene_idxs].tolist()
                rows = [row for row, wanted in zip(rows, mask, strict=True) if wanted]
            if rows:
                group.actor.set_pose(self.poses(rows))

    def segment_of(self, i: int) -> NDArray[np.uint16]:
        """(65536,) SAPIEN's ids of sub-scene i -> ours; its own differ between sub-scenes."""
        out = np.zeros(2**16, np.uint16)
        for group in self.groups:
            for entity, (scene, slot) in zip(group.actor._objs, group.places, strict=True):
                if scene == i:
                    out[entity.per_scene_id] = FIRST_OBJECT + slot
        for actor, places in self.tables:
            if i in places:
                out[actor._objs[places.index(i)].per_scene_id] = TABLE
        return out

    def _merged_target(self) -> Actor | None:
        """One view of every scene's target, in the order of the sub-scenes."""
        found: dict[int, sapien.Entity] = {}
        for group in self.groups:
            for entity, (i, slot) in zip(group.actor._objs, group.places, strict=True):
                if slot == self.scenes[i].target:
                    found[i] = entity
        count = len(self.scenes)
        if len(found) < count:
            return None  # a scene without objects
        target = Actor.create_from_entities(
            [found[i] for i in range(count)],
            self.world,
            torch.arange(count, device=self.world.device),
            shared_name="target",
        )
        target.initial_pose = self.poses([s.scene.object_poses[s.target] for s in self.scenes])
        target.merged = True
        self.world.actor_views["target"] = target
        return target

    def _build_tables(self) -> None:
        sizes: dict[tuple[float, ...], list[int]] = {}
        for i, one in enumerate(self.scenes):
            if one.scene.has_table and not self.physics.floating_object:
                sizes.setdefault(tuple(one.scene.table_size.tolist()), []).append(i)
        for n, (size, places) in enumerate(sorted(sizes.items())):
            builder = self.world.create_actor_builder()
            half = [size[0] / 2, size[1] / 2, TABLE_THICKNESS / 2]
            if self.physics.collisions:
                mu = self.physics.friction
                builder.add_box_collision(
                    half_size=half, material=sapien.physx.PhysxMaterial(mu, mu, 0.0)
                )
                builder.collision_groups = [1, 1, 1 << HAND_BIT, 0]
            if self.world.can_render():
                grey = sapien.render.RenderMaterial(base_color=[*GREY])
                builder.add_box_visual(half_size=half, material=grey)
            builder.set_scene_idxs(places)
            builder.initial_pose = self.poses([self._table_middle(i) for i in places])
            self.tables.append((builder.build_kinematic(name=f"table-{n}"), places))

    def _table_middle(self, i: int) -> Float:
        """(7,) pose of the box whose top is the table's."""
        pose = np.asarray(self.scenes[i].scene.table_pose, np.float64).copy()
        pose[:3] -= pose_to_matrix(pose)[:3, 2] * (TABLE_THICKNESS / 2)
        return pose
