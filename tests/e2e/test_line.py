"""The whole line on two solids: what a user gets agrees with itself and with the robot's side."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import trimesh

from pipeline.registry import Registry
from pipeline.store import Store
from schemas.camera import Camera, Intrinsics
from schemas.frames import invert, pose_to_matrix, transform_points
from schemas.records import Cloud, GraspSet, LabelSet, ObjectAsset, Scene, decode
from stages.envs.base import build_env
from stages.envs.config import EnvConfig
from stages.label.config import LabelConfig
from stages.render.backends.embree import EmbreeBackend
from stages.shard.read import PointCloudDataset
from tests import program
from tests.program import ROOT

pytestmark = pytest.mark.slow
pipeline = partial(program.pipeline, timeout_s=300)
CONFIG = """\
seed: 7
assets: {objects: [cube.obj, rod.obj], train_fraction: 1.0, val_fraction: 0.0}
scene: {floating: 1, tabletop: 1, clutter: 1, clutter_min: 2, clutter_max: 2}
render:
  views: 2
  crop: {sampling: random, num_points: 600, box_min: [-0.4, -0.4, 0.005], box_max: [0.4, 0.4, 0.6]}
grasp: {hands: [panda_gripper], grasps_per_object: 4, chunk: 4}
"""


def read_all(out: Path, stage: str, record: type) -> list:
    store = Store(out)
    return [
        decode(record, arrays)
        for marker in store.markers(stage)
        for arrays in store.read_arrays(store.read_marker(marker)).values()
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(config file, output)."""
    folder = tmp_path_factory.mktemp("line")
    trimesh.creation.box((0.05, 0.05, 0.05)).export(folder / "cube.obj")
    trimesh.creation.cylinder(0.02, 0.09, sections=24).export(folder / "rod.obj")
    (folder / "two.yaml").write_text(CONFIG)
    done = pipeline("run", "all", "--config", folder / "two.yaml", "--out", folder / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "two.yaml", folder / "out"


def test_a_robot_s_depth_image_gives_the_points_of_the_dataset(
    run: tuple[Path, Path], tmp_path: Path
) -> None:
    """A dense depth image as a sensor would give it, through the command line."""
    _, out = run
    assets = {a.object_id: a for a in read_all(out, "assets", ObjectAsset)}
    scenes = {s.scene_id: s for s in read_all(out, "scene", Scene)}
    seeds = plan_seeds(run)
    dataset = PointCloudDataset(out, split="train")
    assert len(dataset) == 6
    for i in range(len(dataset)):
        item = dataset[i]
        scene = scenes[item["scene_id"]]
        K = Intrinsics.from_array(item["intrinsics"])
        camera = Camera(intrinsics=K, T_world_cam=np.asarray(item["T_world_cam"]))
        backend = EmbreeBackend()
        prepared = backend.prepare(scene, [assets[o] for o in scene.object_ids])
        depth, segment = backend.render(prepared, camera).dense(K.height, K.width)
        np.save(tmp_path / "depth.npy", depth)
        np.save(tmp_path / "segment.npy", segment)
        np.save(tmp_path / "pose.npy", camera.T_world_cam)
        done = pipeline(
            "crop", tmp_path / "depth.npy", "--intrinsics",
            ",".join(map(repr, K.to_array().tolist())), "--dataset", out,
            "--segment", tmp_path / "segment.npy", "--pose", tmp_path / "pose.npy",
            "--seed", seeds[f"{scene.scene_id}/v{item['view']:02d}"], "--out", tmp_path / "c.ply",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        points = np.asarray(trimesh.load(tmp_path / "c.ply").vertices, np.float32)
        assert 100 < len(points) <= 600
        assert np.array_equal(points, np.asarray(item["points"]))


def plan_seeds(run: tuple[Path, Path]) -> dict[str, int]:
    from pipeline.config import load_config
    from pipeline.graph import parse_targets
    from pipeline.keys import item_seed
    from pipeline.plan import make_plan

    registry = Registry()
    config = load_config(run[0], registry=registry)
    plans = make_plan(config, parse_targets("render", registry), registry)
    return {i.id: item_seed(config.seed, "render", i.id) for i in plans["render"].items}


def test_points_lie_on_the_objects_where_the_scene_says(run: tuple[Path, Path]) -> None:
    """By the shard alone: world points, object poses and meshes of closed form."""
    _, out = run
    for item in PointCloudDataset(out, split="train", frame="world"):
        for slot, (name, pose) in enumerate(
            zip(item["object_ids"], item["object_poses"], strict=True)
        ):
            points = np.asarray(item["points"])[np.asarray(item["segment"]) == 2 + slot]
            local = transform_points(invert(pose_to_matrix(pose)), points)
            if name == "cube":
                distance = np.abs(local).max(axis=1) - 0.025
            else:
                radial = np.hypot(local[:, 0], local[:, 1])
                outer = np.maximum(radial - 0.02, np.abs(local[:, 2]) - 0.045)
                distance = np.where(outer > -4e-4, 0, outer)  # 24 flats: sagitta 0.17 mm
            assert np.abs(distance).max() < 5e-6, (item["scene_id"], name)


def test_a_label_can_be_replayed_from_the_dataset(run: tuple[Path, Path]) -> None:
    """Poses read back from the shard, through the physics again: the same verdict."""
    _, out = run
    assets = {a.object_id: a for a in read_all(out, "assets", ObjectAsset)}
    labels = {(s.object_id, s.protocol): s for s in read_all(out, "label", LabelSet)}
    import zarr

    shard = zarr.open_group(out / "shards" / "train-grasps.zarr", mode="r")
    names = list(shard.attrs["object_ids"])
    index = shard["grasps/panda_gripper/object_index"][:]
    env = build_env(EnvConfig(mj_env_config=LabelConfig().env_config("panda_gripper")))
    checked = 0
    for original in read_all(out, "grasp", GraspSet):
        rows = np.flatnonzero(index == names.index(original.object_id))
        fields = ("pregrasp_qpos", "grasp_qpos", "squeeze_qpos", "grasp_index")
        stored = {f: shard[f"grasps/panda_gripper/{f}"][:][rows] for f in fields}
        pose = shard["grasps/panda_gripper/object_pose"][:][rows[0]]
        again = replace(original, object_pose=pose, **stored)
        for protocol in ("fc", "tabletop"):
            path = f"labels/panda_gripper/{protocol}"
            success = shard[f"{path}/success"][:][rows]
            result = env.evaluate(again, assets[original.object_id], protocol)
            assert np.array_equal(result.success, success)
            assert np.array_equal(labels[original.object_id, protocol].success, success)
            final = np.array([r.final_object_pose for r in result.results])
            assert np.array_equal(final, shard[f"{path}/final_object_pose"][:][rows])
            checked += len(rows)
    env.close()
    assert checked >= 8


def test_more_scenes_leave_the_old_clouds_bit_equal(run: tuple[Path, Path], tmp_path: Path) -> None:
    config, out = run
    before = {(c.scene_id, c.view): c for c in read_all(out, "render", Cloud)}
    more = ("--set", "scene.tabletop=2", "--out", tmp_path)
    done = pipeline("run", "render", "--config", config, *more, "--workers", 1)
    assert done.returncode == 0, done.stderr
    after = {(c.scene_id, c.view): c for c in read_all(tmp_path, "render", Cloud)}
    assert len(after) == len(before) + 2
    for key, cloud in before.items():
        assert np.array_equal(cloud.points, after[key].points)
        assert np.array_equal(cloud.T_world_cam, after[key].T_world_cam)


def test_what_is_asked_for_later_leaves_the_rest_as_it_is(
    run: tuple[Path, Path], tmp_path: Path
) -> None:
    """Normals, colours, a lens and visibility on a finished output: grasps and labels stay."""
    import shutil

    config, out = run
    copy = tmp_path / "more"
    shutil.copytree(out, copy)
    text = config.read_text().replace("views: 2", "views: 2\n  normals: true")
    shutil.copytree(config.parent, tmp_path / "meshes", ignore=shutil.ignore_patterns("out"))
    (tmp_path / "meshes" / "two.yaml").write_text(text)
    before = {p: p.read_bytes() for p in (copy / "blocks").glob("*/*.npz")}
    done = pipeline(
        "run", "shard", "--config", tmp_path / "meshes" / "two.yaml", "--out", copy,
        "--set", "shard.visibility=true",
        "--set", "render.camera.distortion={model: kannala_brandt, k1: 0.05}",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    after = {p: p.read_bytes() for p in (copy / "blocks").glob("*/*.npz")}
    assert {p.parent.name for p in set(after) - set(before)} == {"render"}
    done = pipeline("verify", copy)
    assert done.returncode == 0, done.stdout
    dataset = PointCloudDataset(copy, hand="panda_gripper", protocol="fc", frame="world")
    seen = []
    for item in dataset:
        assert np.allclose(np.linalg.norm(item["normals"], axis=1), 1, atol=1e-5)
        assert item["distortion"][0] == 2
        share = np.asarray(item["grasps"]["visibility"])
        assert share.shape == np.asarray(item["grasps"]["success"]).shape
        seen += share[np.isfinite(share)].tolist()
    assert len(seen) > 10
    assert 0 <= min(seen) < 0.6 < max(seen) <= 1
    [*fused] = PointCloudDataset(copy, fuse=True)
    assert [len(item["view"]) for item in fused] == [2, 2, 2]


def test_what_is_stored_names_no_place_of_this_machine(run: tuple[Path, Path]) -> None:
    config, out = run
    places = [str(config.parent), str(ROOT), str(Path.home())]
    manifest = (out / "dataset.json").read_text()
    files = [p for p in (out / "shards").rglob("*.json")] + [out / "index.parquet"]
    for text in [manifest, *(p.read_bytes().decode("latin1") for p in files)]:
        for place in places:
            assert place not in text
    crop = json.loads(manifest)["crop"]
    assert crop["num_points"] == 600


def test_a_dataset_of_another_schema_version_is_refused(
    run: tuple[Path, Path], tmp_path: Path
) -> None:
    import shutil

    from stages.shard.layout import COMMIT, seal, unseal

    _, out = run
    copy = tmp_path / "old"
    shutil.copytree(out, copy)
    body = unseal(copy / COMMIT) | {"schema_version": 999}
    (copy / COMMIT).write_bytes(seal(body))
    for command in (["verify", copy, "--digest"], ["view", copy, "--save", tmp_path / "a.png"]):
        done = pipeline(*command)
        assert done.returncode == 2, done.stdout
        assert "schema version 999, this program reads version" in done.stderr
