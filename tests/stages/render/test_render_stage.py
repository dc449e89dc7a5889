"""Cameras where the config says, items independent of their block, and coded failures."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.distortion import Distortion
from schemas.frames import invert, look_at, transform_points
from schemas.records import ObjectAsset, Scene
from stages.contract import Item
from stages.crop import CropSpec
from stages.render.cameras import sample_camera
from stages.render.config import CameraConfig, RenderConfig
from stages.render.errors import CameraFileError, RenderConfigError
from stages.render.presets import PRESETS
from stages.render.stage import RenderStage


def test_hemisphere_cameras_are_uniform_over_their_zone(scene: Scene) -> None:
    config = CameraConfig(target_jitter=0.0, elevation_min=20, elevation_max=70)
    middle = scene.object_poses[:, :3].mean(axis=0)
    eyes = np.array(
        [sample_camera(config, scene, 0, seed).T_world_cam[:3, 3] - middle for seed in range(2000)]
    )
    radius = np.linalg.norm(eyes, axis=1)
    assert radius.min() >= config.radius_min
    assert radius.max() <= config.radius_max
    sine = eyes[:, 2] / radius
    low, high = np.sin(np.deg2rad([20, 70]))
    assert sine.min() >= low - 1e-9
    assert sine.max() <= high + 1e-9
    # Equal areas have equal shares (Archimedes): binomial, 2000 in 10 zones, sd 13.4.
    zones, _ = np.histogram(sine, 10, (low, high))
    assert np.abs(zones - 200).max() < 5 * 13.4
    quarters, _ = np.histogram(np.arctan2(eyes[:, 1], eyes[:, 0]), 4, (-np.pi, np.pi))
    assert np.abs(quarters - 500).max() < 5 * 19.4


def test_ring_cameras_stand_at_equal_angles(scene: Scene) -> None:
    config = CameraConfig(kind="ring", ring_size=6, target_jitter=0.0, roll_jitter=0.0)
    middle = scene.object_poses[:, :3].mean(axis=0)
    eyes = [sample_camera(config, scene, v, seed=v).T_world_cam[:3, 3] - middle for v in range(6)]
    azimuth = np.unwrap([np.arctan2(e[1], e[0]) for e in eyes])
    np.testing.assert_allclose(np.diff(azimuth), np.pi / 3, atol=1e-9)
    seen = transform_points(
        invert(sample_camera(config, scene, 0, 0).T_world_cam), middle[None]
    )  # on the optical axis
    np.testing.assert_allclose(seen[0, :2], 0, atol=1e-12)


def test_presets_have_the_fields_of_view_of_their_data_sheets() -> None:
    def degrees(focal: float, size: int) -> float:
        return float(np.rad2deg(2 * np.arctan(size / 2 / focal)))

    d435, d415 = PRESETS["d435_1280x720"], PRESETS["d415_1280x720"]
    assert degrees(d435.fx, 1280) == pytest.approx(87, abs=0.5)
    assert degrees(d435.fy, 720) == pytest.approx(58, abs=2.5)
    assert degrees(d415.fx, 1280) == pytest.approx(65, abs=0.5)
    assert degrees(d415.fy, 720) == pytest.approx(40, abs=1.0)
    assert PRESETS["kinect_v1_640x480"].fx == 525.0
    # 640x480 of a 16:9 sensor keeps the height: the focal length scales with 480/720.
    assert PRESETS["d435_640x480"].fx == pytest.approx(d435.fx * 480 / 720, abs=0.1)


def test_a_file_of_poses_is_in_the_keys_and_its_place_is_not(tmp_path: Path) -> None:
    poses = np.stack([look_at([0.3, 0.1 * i, 0.5], [0, 0, 0]) for i in range(3)])
    np.save(tmp_path / "poses.npy", poses)
    (tmp_path / "same.json").write_text(json.dumps(poses.tolist()))
    scenes = {"scene": [Item(id="s", inputs=(("assets", "box"),))]}

    def plan(name: str, views: int = 3) -> list[Item]:
        camera = CameraConfig(kind="file", poses_file=str(tmp_path / name))
        return RenderStage().plan(RenderConfig(views=views, camera=camera), scenes)

    items = plan("poses.npy")
    assert [item.params["T_world_cam"] for item in items] == poses.tolist()
    assert items == plan("same.json")
    with pytest.raises(CameraFileError, match=r"holds 3 poses, but render\.views asks for 4"):
        plan("poses.npy", views=4)
    poses[1, 0, 0] *= 1.01
    np.save(tmp_path / "poses.npy", poses)
    with pytest.raises(ValueError, match=r"poses\.npy\[1\]: the rotation is not orthonormal"):
        plan("poses.npy")
    with pytest.raises(CameraFileError, match="cannot be read"):
        plan("nowhere.npy")
    with pytest.raises(RenderConfigError, match="needs poses_file"):
        CameraConfig(kind="file")


def run(scene: Scene, solids: list[ObjectAsset], config: RenderConfig, groups: int):
    """All items of two scenes in blocks of `groups`."""
    raised = scene.object_poses.copy()
    raised[:, 2] += 0.1
    other = replace(scene, scene_id="t", object_poses=raised)
    objects = tuple(("assets", name) for name in scene.object_ids)
    stage = RenderStage()
    items = stage.plan(config, {"scene": [Item(id=name, inputs=objects) for name in ("s", "t")]})
    inputs = {("scene", "s"): scene, ("scene", "t"): other}
    inputs |= {("assets", asset.object_id): asset for asset in solids}
    seeds = {item.id: i * 7919 for i, item in enumerate(items)}
    outcomes = []
    for start in range(0, len(items), groups):
        block = items[start : start + groups]
        outcomes += stage.run(block, inputs, config, seeds)
    return items, outcomes


def test_blocks_of_any_size_give_the_same_clouds(scene: Scene, solids: list[ObjectAsset]) -> None:
    camera = CameraConfig(preset="", fx=150, fy=150, cx=80, cy=60, width=160, height=120)
    config = RenderConfig(views=3, camera=camera, crop=CropSpec(sampling="random", num_points=99))
    items, together = run(scene, solids, config, 6)
    assert [o.id for o in together] == [item.id for item in items]
    for groups in (1, 4):
        for a, b in zip(together, run(scene, solids, config, groups)[1], strict=True):
            for field in fields(a.record):
                assert np.array_equal(getattr(a.record, field.name), getattr(b.record, field.name))
    clouds = [o.record.points for o in together]
    assert len({c.tobytes() for c in clouds}) == len(clouds)


def test_a_view_of_nothing_is_coded(scene: Scene, solids: list[ObjectAsset]) -> None:
    away = CameraConfig(kind="fixed", eye=(0.0, 0.0, 1.0), target=(0.0, 0.0, 2.0))
    _, outcomes = run(scene, solids, RenderConfig(views=1, camera=away), 2)
    assert [o.code for o in outcomes] == ["empty_cloud", "empty_cloud"]
    assert "the camera sees none of its segments" in outcomes[0].message


def test_an_unknown_backend_lists_the_known_ones(scene: Scene, solids: list[ObjectAsset]) -> None:
    with pytest.raises(RenderConfigError, match="choose from embree"):
        run(scene, solids, RenderConfig(backend="opengl"), 1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"colour": True}, r"no render\.colour: true"),
        (
            {"camera": CameraConfig(distortion=Distortion(model="brown_conrady", k1=0.1))},
            r"no render\.camera\.distortion",
        ),
    ],
)
def test_what_a_rasteriser_cannot_do_is_refused_when_it_is_planned(
    wrong: dict[str, Any], words: str
) -> None:
    item = Item(id="ball", params={"colour": True})
    upstream = {"scene": [Item(id="s0")], "assets": [item]}
    with pytest.raises(RenderConfigError, match=f"backend: maniskill has {words}.*embree"):
        RenderStage().plan(RenderConfig(backend="maniskill", **wrong), upstream)
    assert RenderStage().plan(RenderConfig(**wrong), upstream)
    assert RenderStage().plan(RenderConfig(backend="maniskill"), upstream)
