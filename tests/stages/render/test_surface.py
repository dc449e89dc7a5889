"""Normals and colours against closed forms; asking for them changes nothing else."""

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from schemas.camera import Camera
from schemas.frames import invert, pose_to_matrix, transform_points
from schemas.records import Cloud, ObjectAsset, Scene, decode, encode
from stages.contract import Item
from stages.crop import CropSpec
from stages.render.backends.embree import EmbreeBackend
from stages.render.config import RenderConfig
from stages.render.errors import RenderConfigError
from stages.render.stage import RenderStage, render_view

ALL = CropSpec(extract_segments=("table", "object:*"), sampling="random", num_points=4000)


def render(scene: Scene, assets: list[ObjectAsset], camera: Camera, config: RenderConfig) -> Cloud:
    backend = EmbreeBackend()
    prepared = backend.prepare(scene, assets)
    return render_view(backend, prepared, scene, 0, camera, config, 3, assets)


@pytest.mark.parametrize("frame", ["camera", "world"])
def test_normals_are_those_of_the_solids(
    scene: Scene, solids: list[ObjectAsset], camera: Camera, frame: str
) -> None:
    config = RenderConfig(crop=replace(ALL, frame=frame), normals=True)
    cloud = render(scene, solids, camera, config)
    R, eye = camera.T_world_cam[:3, :3], camera.T_world_cam[:3, 3]
    normals, points = cloud.normals.astype(np.float64), cloud.points.astype(np.float64)
    if frame == "camera":
        normals, points = normals @ R.T, transform_points(camera.T_world_cam, points)
    assert normals.shape == points.shape
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-6)
    assert ((eye - points) * normals).sum(axis=1).min() > -1e-9  # towards the camera
    table = normals[cloud.segment == 1]
    assert len(table)
    np.testing.assert_allclose(table, np.broadcast_to([0, 0, 1], table.shape), atol=1e-6)
    sphere = cloud.segment == 2
    radial = points[sphere] - scene.object_poses[0, :3]
    radial /= np.linalg.norm(radial, axis=1, keepdims=True)
    # A face of the icosphere, edges of 1.9 mm on 50 mm, leans from its points by up to 1.3 degrees.
    assert np.rad2deg(np.arccos((radial * normals[sphere]).sum(axis=1).min())) < 1.5
    box = pose_to_matrix(scene.object_poses[1])
    local = transform_points(invert(box), points[cloud.segment == 3])
    turned = normals[cloud.segment == 3] @ box[:3, :3]
    side = np.abs(np.abs(local) - (0.04, 0.025, 0.06)).argmin(axis=1)
    clear = np.sort(np.abs(np.abs(local) - (0.04, 0.025, 0.06)), axis=1)[:, 1] > 1e-4
    rows = np.arange(len(local))
    expected = np.zeros_like(local)
    expected[rows, side] = np.sign(local[rows, side])
    np.testing.assert_allclose(turned[clear], expected[clear], atol=1e-5)


def test_colours_are_linear_between_the_vertices(
    scene: Scene, solids: list[ObjectAsset], camera: Camera
) -> None:
    """A box whose colour is its place: RGB = 255 (xyz / extents + 1/2), linear over each face."""
    extents = np.array([0.08, 0.05, 0.12])
    painted = np.rint((solids[1].vertices / extents + 0.5) * 255).astype(np.uint8)
    assets = [solids[0], replace(solids[1], vertex_colours=painted), solids[2]]
    cloud = render(scene, assets, camera, RenderConfig(crop=ALL, colour=True))
    assert cloud.colour.dtype == np.uint8
    box = cloud.segment == 3
    world = transform_points(camera.T_world_cam, cloud.points[box])
    local = transform_points(invert(pose_to_matrix(scene.object_poses[1])), world)
    np.testing.assert_allclose(cloud.colour[box], (local / extents + 0.5) * 255, atol=0.51)
    assert box.sum() > 50
    assert (cloud.colour[~box] == 0).all()  # unknown: table, sphere, torus


def test_asking_for_more_changes_nothing_else(
    scene: Scene, solids: list[ObjectAsset], camera: Camera
) -> None:
    plain = render(scene, solids, camera, RenderConfig(crop=ALL))
    more = render(scene, solids, camera, RenderConfig(crop=ALL, normals=True, colour=True))
    assert len(more.normals) == len(more.colour) == len(plain.points)
    for field in fields(Cloud):
        if field.name not in ("normals", "colour"):
            a, b = getattr(plain, field.name), getattr(more, field.name)
            assert np.array_equal(a, b), field.name
    assert not len(plain.normals) + len(plain.colour) + len(plain.distortion)
    # A record of before these fields were there still reads.
    old = {k: v for k, v in encode(plain).items() if k not in ("normals", "colour", "distortion")}
    again = decode(Cloud, old)
    assert np.array_equal(again.points, plain.points)
    assert again.normals.shape == (0, 3)


def test_colour_needs_assets_that_carry_it(make_scene: Callable[..., Scene]) -> None:
    upstream = {"scene": [Item(id="s")], "assets": [Item(id="a", params={})]}
    with pytest.raises(RenderConfigError, match=r"set assets\.colour: true"):
        RenderStage().plan(RenderConfig(colour=True), upstream)
    upstream["assets"] = [Item(id="a", params={"colour": True})]
    assert len(RenderStage().plan(RenderConfig(colour=True, views=2), upstream)) == 2
