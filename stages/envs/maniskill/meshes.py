"""ObjectAsset -> SAPIEN actors, straight from arrays: no mesh file, no cache that grows."""

from collections import OrderedDict

import numpy as np
import sapien
from mani_skill.envs.scene import ManiSkillScene
from mani_skill.utils.building.actor_builder import ActorBuilder
from numpy.typing import NDArray

from schemas.records import ObjectAsset

KEPT_SHAPES = 64  # of the last meshes that this process uploaded
COLOUR = (0.6, 0.6, 0.6, 1.0)
_shapes: OrderedDict[tuple[str, float], sapien.render.RenderShapeTriangleMesh] = OrderedDict()


class AssetBuilder(ActorBuilder):
    """Builds one actor of `asset` per sub-scene that it was given.

    With `collisions` it is dynamic: the asset's convex pieces in their order, friction
    coefficient `friction`, the asset's inertia scaled to `mass` kg, without gravity if
    `weightless`. Otherwise it is a kinematic picture of the asset.
    """

    def __init__(
        self,
        scene: ManiSkillScene,
        asset: ObjectAsset,
        *,
        collisions: bool = True,
        mass: float | None = None,
        friction: float = 0.6,
        weightless: bool = False,
    ) -> None:
        super().__init__()
        self.scene = scene
        self.asset, self.collisions = asset, collisions
        self.mass = asset.mass if mass is None else mass
        self.friction, self.weightless = friction, weightless
        self.set_physx_body_type("dynamic" if collisions else "kinematic")

    def build_entity(self) -> sapien.Entity:
        entity = sapien.Entity()
        if self.scene.can_render():
            body = sapien.render.RenderBodyComponent()
            body.attach(visual_shape(self.asset).clone())
            body.name = self.name
            entity.add_component(body)
        entity.add_component(self.build_physx_component())
        entity.name = self.name
        return entity

    def build_physx_component(self, link_parent: object = None) -> sapien.physx.PhysxBaseComponent:
        component = sapien.physx.PhysxRigidDynamicComponent()
        component.name = self.name
        if not self.collisions:
            component.kinematic = True
            return component
        material = sapien.physx.PhysxMaterial(self.friction, self.friction, 0.0)
        for vertices, _ in self.asset.pieces():
            shape = sapien.physx.PhysxCollisionShapeConvexMesh(
                vertices=np.ascontiguousarray(vertices, np.float32),
                scale=np.ones(3, np.float32),
                material=material,
            )
            shape.set_collision_groups(self.collision_groups)
            component.attach(shape)
        axes, moments = principal_inertia(self.asset.inertia * (self.mass / self.asset.mass))
        component.mass = self.mass
        component.cmass_local_pose = sapien.Pose(self.asset.center_of_mass, axes)
        component.inertia = moments
        component.disable_gravity = self.weightless
        return component


def principal_inertia(
    inertia: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(4,) wxyz of the principal axes in the object's, (3,) moments, of a (3, 3) inertia."""
    from schemas.frames import matrix_to_pose

    moments, axes = np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0:
        axes[:, 0] *= -1
    T = np.eye(4)
    T[:3, :3] = axes
    return matrix_to_pose(T)[3:], moments


def visual_shape(asset: ObjectAsset) -> sapien.render.RenderShapeTriangleMesh:
    """The asset's triangles, flat shaded, so that the normal texture is that of the faces.

    Kept from build to build; attach a `clone()`.
    """
    key = (asset.sha256, asset.scale)
    if key not in _shapes:
        corners = asset.vertices[asset.faces]  # (F, 3, 3)
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        length = np.linalg.norm(normals, axis=1, keepdims=True)
        normals = np.where(length > 0, normals / np.maximum(length, 1e-30), [0.0, 0.0, 1.0])
        count = 3 * len(corners)
        _shapes[key] = sapien.render.RenderShapeTriangleMesh(
            vertices=corners.reshape(-1, 3).astype(np.float32),
            triangles=np.arange(count, dtype=np.uint32).reshape(-1, 3),
            normals=np.repeat(normals, 3, axis=0).astype(np.float32),
            uvs=np.zeros((count, 2), np.float32),
            material=sapien.render.RenderMaterial(base_color=[*COLOUR]),
        )
        if len(_shapes) > KEPT_SHAPES:
            _shapes.popitem(last=False)
    _shapes.move_to_end(key)
    return _shapes[key]
