"""Depth against closed forms and against another ray caster."""

from collections.abc import Callable

import numpy as np
import pytest
import trimesh

from schemas.camera import Camera
from schemas.frames import invert, look_at, pose_to_matrix, transform_points
from schemas.records import ObjectAsset, Scene
from stages.crop import CropSpec, crop_depth, pixel_slopes
from stages.render.backends.embree import EmbreeBackend, table_mesh
from stages.render.config import RenderConfig
from stages.render.stage import render_view
from tests.stages.render.conftest import SPHERE_RADIUS, K


def dense(scene: Scene, assets: list[ObjectAsset], camera: Camera):
    backend = EmbreeBackend()
    hits = backend.render(backend.prepare(scene, assets), camera)
    return hits.dense(camera.intrinsics.height, camera.intrinsics.width)


def test_a_table_seen_from_above_is_flat(make_scene: Callable[..., Scene]) -> None:
    scene = make_scene(np.empty((0, 7)), ())
    camera = Camera(intrinsics=K, T_world_cam=look_at([0, 0, 0.6], [0, 0, 0]))
    depth, segment = dense(scene, [], camera)
    np.testing.assert_allclose(depth, 0.6, atol=1e-6)
    assert (segment == 1).all()
    # From 3 m the table's outline is what the pinhole model says: 1.0 x 0.8 m.
    far = Camera(intrinsics=K, T_world_cam=look_at([0, 0, 3.0], [0, 0, 0]))
    depth, segment = dense(scene, [], far)
    across, along = (segment == 1).any(axis=0).sum(), (segment == 1).any(axis=1).sum()
    expected = sorted([K.fx * 1.0 / 3.0, K.fy * 0.8 / 3.0])
    np.testing.assert_allclose(sorted([across, along]), expected, atol=1.0)
    assert np.isnan(depth[segment == 0]).all()


def test_a_sphere_has_the_depth_of_its_equation(
    solids: list[ObjectAsset], make_scene: Callable[..., Scene]
) -> None:
    centre = np.array([0.02, -0.03, 0.4])
    scene = make_scene(np.array([[*centre, 1, 0, 0, 0]]), ("sphere",), table=False)
    camera = Camera(intrinsics=K, T_world_cam=look_at([0.3, 0.2, 0.6], centre, roll=0.7))
    depth, segment = dense(scene, solids[:1], camera)
    column, row = np.meshgrid(np.arange(K.width), np.arange(K.height))
    ray = np.stack(
        [(column + 0.5 - K.cx) / K.fx, (row + 0.5 - K.cy) / K.fy, np.ones(column.shape)], axis=-1
    )
    c = transform_points(invert(camera.T_world_cam), centre[None])[0]
    # |z ray - c| = r, the nearer root.
    a, b = (ray**2).sum(-1), ray @ c
    under = b**2 - a * (c @ c - SPHERE_RADIUS**2)
    with np.errstate(invalid="ignore"):
        expected = (b - np.sqrt(under)) / a
    hit = segment == 2
    assert np.array_equal(hit, np.isfinite(depth))
    # The mesh is inscribed: its silhouette is at most the sphere's, and smaller by the sagitta.
    assert not (hit & (under < 0)).any()
    assert hit.sum() > 0.98 * (under >= 0).sum()
    # Faces of about 3.3 mm: sagitta s^2 / (8 r) below 0.03 mm, seen at up to 75 degrees 0.12 mm.
    normal_cosine = np.sqrt(np.clip(under, 0, None)) / (SPHERE_RADIUS * np.sqrt(a))
    facing = hit & (normal_cosine > np.cos(np.deg2rad(75)))
    error = depth[facing] - expected[facing]
    assert facing.sum() > 500
    assert error.min() > -1e-6
    assert error.max() < 1.2e-4


def test_depth_and_segments_agree_with_open3d(
    scene: Scene, solids: list[ObjectAsset], camera: Camera
) -> None:
    """Another binding of Embree, with its own ray set-up and mesh upload."""
    import open3d as o3d

    caster = o3d.t.geometry.RaycastingScene()
    caster.add_triangles(*(o3d.core.Tensor(np.ascontiguousarray(a)) for a in table_arrays(scene)))
    for asset, pose in zip(solids, scene.object_poses, strict=True):
        vertices = transform_points(pose_to_matrix(pose), asset.vertices).astype(np.float32)
        caster.add_triangles(
            o3d.core.Tensor(vertices), o3d.core.Tensor(asset.faces.astype(np.uint32))
        )
    rays = o3d.t.geometry.RaycastingScene.create_rays_pinhole(
        intrinsic_matrix=o3d.core.Tensor(K.K),
        extrinsic_matrix=o3d.core.Tensor(invert(camera.T_world_cam)),
        width_px=K.width,
        height_px=K.height,
    )
    answer = caster.cast_rays(rays)
    theirs, ids = answer["t_hit"].numpy(), answer["geometry_ids"].numpy()
    depth, segment = dense(scene, solids, camera)
    same = np.where(np.isfinite(theirs), ids + 1, 0) == segment
    assert (~same).sum() <= 4  # a ray through an edge may go either way
    both = same & np.isfinite(depth)
    assert both.sum() > 0.5 * depth.size
    error = np.abs(depth[both] - theirs[both])
    # Both compute in float32; a grazing ray amplifies the rounding of its direction.
    assert np.quantile(error, 0.99) < 1e-6
    assert error.max() < 1e-5


def table_arrays(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    vertices, faces = table_mesh(scene)
    return vertices, faces.astype(np.uint32)


def test_points_lie_on_the_meshes_of_their_segments(
    scene: Scene, solids: list[ObjectAsset], camera: Camera
) -> None:
    config = RenderConfig(crop=CropSpec(frame="world"))
    backend = EmbreeBackend()
    prepared = backend.prepare(scene, solids)
    cloud = render_view(backend, prepared, scene, 0, camera, config, 0)
    assert set(cloud.segment) == {2, 3, 4}
    for i, (asset, pose) in enumerate(zip(solids, scene.object_poses, strict=True)):
        points = cloud.points[cloud.segment == 2 + i]
        local = transform_points(invert(pose_to_matrix(pose)), points)
        mesh = trimesh.Trimesh(asset.vertices, asset.faces)
        chosen = local[:: max(1, len(local) // 50)]
        _, distance, _ = trimesh.proximity.closest_point(mesh, chosen)
        # Off the surface only where a grazing ray amplifies float32's rounding.
        assert np.quantile(distance, 0.9) < 1e-6, asset.object_id
        assert distance.max() < 2e-5, asset.object_id


def test_the_robot_s_entry_gives_the_same_bits(
    scene: Scene, solids: list[ObjectAsset], camera: Camera
) -> None:
    """The dense image through `crop_depth`, as on a robot, against the culled render."""
    spec = CropSpec(
        box_min=(-0.15, -0.2, 0.0), box_max=(0.1, 0.2, 0.3), sampling="random", num_points=700,
        frame="world",
    )  # fmt: skip
    backend = EmbreeBackend()
    prepared = backend.prepare(scene, solids)
    cloud = render_view(backend, prepared, scene, 0, camera, RenderConfig(crop=spec), seed=9)
    depth, segment = dense(scene, solids, camera)
    deployed = crop_depth(
        depth, K, spec, seed=9, segment=segment, segment_table=scene.segment_table,
        T_world_cam=camera.T_world_cam, table_pose=scene.table_pose,
    )  # fmt: skip
    assert len(cloud.points) == 700
    assert np.array_equal(cloud.points, deployed.points)
    assert np.array_equal(cloud.segment, deployed.segment)
    assert cloud.valid_count == deployed.valid_count


def test_slopes_are_those_of_the_rays() -> None:
    column, row = pixel_slopes(K)
    assert column[0] == pytest.approx((0.5 - 80) / 150)
    assert row[-1] == pytest.approx((119.5 - 60) / 150)
