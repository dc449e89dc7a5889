"""What PhysX makes of torsional friction, which docs/choosing_a_backend.md explains labels by."""

import numpy as np
import pytest
import sapien
import trimesh
from sapien import physx

from stages.envs.maniskill.agents import TORSION

MU, MASS, INERTIA, RADIUS, SPIN = 0.6, 0.1, 4e-5, 0.02, 30.0  # 1, kg, kg m^2, m, rad/s

MATERIAL = physx.PhysxMaterial(MU, MU, 0.0)


def torsion(shape: physx.PhysxCollisionShape) -> float:
    """The coefficient (m) with which a ball that spins on a box is slowed down.

    Steps and solver are those of rollouts.
    """
    physx.set_shape_config(contact_offset=0.02, rest_offset=0.0)
    physx.set_body_config(solver_position_iterations=15, solver_velocity_iterations=1)
    physx.set_scene_config(gravity=np.array([0, 0, -9.81]), enable_tgs=True)
    scene = sapien.Scene([physx.PhysxCpuSystem()])
    scene.set_timestep(1 / 200)
    ground, ball = physx.PhysxRigidStaticComponent(), physx.PhysxRigidDynamicComponent()
    ground.attach(physx.PhysxCollisionShapeBox(half_size=np.array([1, 1, 0.05]), material=MATERIAL))
    shape.set_patch_radius(TORSION / MU)  # as HandAgent.set_friction
    shape.set_min_patch_radius(TORSION / MU)
    ball.attach(shape)
    ball.mass, ball.inertia = MASS, np.full(3, INERTIA)
    for component, height in ((ground, -0.05), (ball, RADIUS)):
        entity = sapien.Entity()
        entity.add_component(component)
        entity.set_pose(sapien.Pose([0, 0, height]))
        scene.add_entity(entity)
    for _ in range(40):
        scene.step()
    ball.set_angular_velocity(np.array([0, 0, SPIN], np.float32))
    for _ in range(5):
        scene.step()
    slowed = (SPIN - float(ball.get_angular_velocity()[2])) / (5 / 200)  # rad/s^2
    return slowed * INERTIA / (MASS * 9.81)


def test_torsional_friction_acts_where_two_shapes_touch_in_one_point() -> None:
    ball = physx.PhysxCollisionShapeSphere(radius=RADIUS, material=MATERIAL)
    assert torsion(ball) == pytest.approx(TORSION, rel=0.05)


def test_a_faceted_ball_has_what_its_contact_points_give_by_their_distance() -> None:
    """The same ball as a mesh, as fingertips are: a fifth of it at most."""
    vertices = np.asarray(trimesh.creation.icosphere(2, RADIUS).vertices, np.float32)
    mesh = physx.PhysxCollisionShapeConvexMesh(
        vertices=vertices, scale=np.ones(3, np.float32), material=MATERIAL
    )
    assert 0.001 < torsion(mesh) < TORSION / 5
