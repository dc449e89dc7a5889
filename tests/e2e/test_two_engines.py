"""The demo's config, switched to ManiSkill by one key; the same grasps labelled by both engines."""

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import trimesh
from scipy.spatial import cKDTree

from pipeline.config import build_config, read_yaml
from pipeline.registry import Registry
from pipeline.saved import save_config
from pipeline.viewer.replay import replay
from stages.envs.config import RolloutConfig
from stages.envs.maniskill.depth import DEPTH_STEP
from stages.shard.backends.chunks import read_array
from stages.shard.grasps import GraspTable
from stages.shard.read import PointCloudDataset
from tests import program
from tests.program import ROOT
from tests.vulkan import need_vulkan

pytestmark = pytest.mark.slow
pipeline = partial(program.pipeline, timeout_s=400)
# The demo on two solids and one hand. Every other number is the demo's, the sensor included.
CONFIG = """\
extends: {root}/configs/demo.yaml
assets: {{objects: [cube.obj, rod.obj], val_ids: [], test_ids: []}}
scene: {{floating: 1, tabletop: 1, clutter: 1, clutter_min: 2, clutter_max: 2}}
render: {{views: 2}}
grasp: {{hands: [panda_gripper], grasps_per_object: 4, chunk: 4}}
label: {{protocols: [tabletop, rollout]}}
"""


def run(*arguments: object) -> str:
    done = pipeline(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def outs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(dataset by Embree, dataset by ManiSkill); the second is the first with one key changed."""
    need_vulkan()
    folder = tmp_path_factory.mktemp("engines")
    trimesh.creation.box((0.05, 0.05, 0.05)).export(folder / "cube.obj")
    trimesh.creation.cylinder(0.02, 0.09, sections=24).export(folder / "rod.obj")
    config = folder / "demo2.yaml"
    config.write_text(CONFIG.format(root=ROOT))
    rays, pictures = folder / "embree", folder / "maniskill"
    common = ("--config", config, "--workers", 1)
    run("run", "all", *common, "--out", rays)
    shutil.copytree(rays, pictures)
    switch = ("--set", "render.backend=maniskill")
    run("run", "all", *common, "--out", pictures, *switch)
    return rays, pictures


def test_the_datasets_are_equal_within_the_tolerance(outs: tuple[Path, Path]) -> None:
    """Same views, counts within 3 %, 95 % of the points within 3 mm: the sensor has steps too."""
    a, b = (PointCloudDataset(out, split="train") for out in outs)
    assert [(i["scene_id"], i["view"]) for i in a] == [(i["scene_id"], i["view"]) for i in b]
    assert len(a) == 6
    for one, two in zip(a, b, strict=True):
        assert np.array_equal(one["T_world_cam"], two["T_world_cam"])
        assert np.array_equal(one["object_poses"], two["object_poses"])
        p, q = (np.asarray(item["points"], float) for item in (one, two))
        assert abs(len(p) - len(q)) < 0.03 * len(p)
        for points, others in ((p, q), (q, p)):
            distance, _ = cKDTree(others).query(points)
            assert np.percentile(distance, 95) < 3e-3
        assert set(np.unique(one["segment"])) == set(np.unique(two["segment"]))


def test_the_step_of_the_depth_is_declared_in_the_data(outs: tuple[Path, Path]) -> None:
    rays, pictures = outs
    manifests = [json.loads((out / "dataset.json").read_text()) for out in outs]
    assert [m["config"]["render"]["backend"] for m in manifests] == ["embree", "maniskill"]
    assert "depth_step" not in manifests[0]["fields"]
    assert manifests[1]["fields"]["depth_step"]["unit"] == "m"
    [shard] = (pictures / "shards").glob("train-0*.zarr")
    assert read_array(shard / "depth_step").tolist() == [DEPTH_STEP] * 6
    for out in (rays, pictures):
        run("verify", out)


def test_both_engines_labelled_the_same_grasps(outs: tuple[Path, Path], tmp_path: Path) -> None:
    rays, _ = outs
    said = run("agree", rays, "--save", tmp_path / "agree.json")
    values = json.loads((tmp_path / "agree.json").read_text())
    assert values["reference"] == "tabletop"
    assert values["other"] == "rollout"
    assert [name.split()[0] for name in values["engines"]] == ["maniskill", "mujoco"]
    counts = values["all"]
    assert counts["grasps"] == 8
    parts = ("both", "reference_only", "other_only", "neither")
    assert sum(counts[part] for part in parts) == 8
    assert counts["agreement"] >= 0.75  # a jaw on a cube and a rod is no question
    assert "flips by the margin of tabletop" in said
    [shard] = (rays / "shards").glob("train-grasps.zarr")
    lift = read_array(shard / "labels/panda_gripper/rollout/lift")
    success = read_array(shard / "labels/panda_gripper/rollout/success")
    assert (lift[success] > 0.1).all()
    # columns of one protocol are never those of another
    assert not (shard / "labels/panda_gripper/tabletop/lift").exists()
    root = json.loads((shard / "labels/panda_gripper/rollout/zarr.json").read_text())
    assert root["attributes"]["engine"].startswith("maniskill ")


@pytest.mark.parametrize("protocol", ["tabletop", "rollout"])
def test_a_grasp_is_replayed_by_the_engine_that_labelled_it(
    outs: tuple[Path, Path], tmp_path: Path, protocol: str
) -> None:
    """With the dataset's numbers, whatever was run in its folder since."""
    out = tmp_path / "out"
    shutil.copytree(outs[0], out)
    other = "label: {tabletop: {lift_height: 0.05}, rollout: {lift_height: 0.15}}"
    (tmp_path / "later.yaml").write_text(f"{other}\ngrasp: {{hands: [allegro_right]}}\n")
    saved = build_config(read_yaml(tmp_path / "later.yaml"), registry=Registry(), root=tmp_path)
    save_config(out, saved)
    table = GraspTable(out, "train", "panda_gripper", protocol)
    row = int(np.flatnonzero(table.arrays["success"])[0])
    name = table.object_ids[int(table.arrays["object_index"][row])]
    play = replay(out, "panda_gripper", protocol, name, int(table.arrays["grasp_index"][row]))
    assert play.outcome == play.stored == "ok"
    assert np.allclose(play.object_poses[0], table.arrays["object_pose"][row], atol=2e-3)
    rise = play.object_poses[-1, 2] - play.object_poses[0, 2]
    assert rise == pytest.approx(0.2, abs=0.01)  # not 5 or 15 cm
    if protocol == "rollout":  # every control step, and bit for bit what was labelled
        numbers = RolloutConfig()
        seconds = sum(getattr(numbers, f"{part}_time") for part in
                      ("approach", "squeeze", "settle", "lift", "hold"))  # fmt: skip
        assert len(play.hand_qpos) == round(seconds * numbers.control_freq)
    [shard] = (out / "shards").glob("train-grasps.zarr")
    final = read_array(shard / f"labels/panda_gripper/{protocol}/final_object_pose")[row]
    assert np.array_equal(play.object_poses[-1], final)


def test_a_rollout_is_filmed(outs: tuple[Path, Path], tmp_path: Path) -> None:
    film = tmp_path / "lift.gif"
    said = run("view", outs[0], "--rollout", "panda_gripper", "--protocol", "rollout",
               "--save", film)  # fmt: skip
    assert "under rollout: ok (stored: ok)" in said
    assert film.stat().st_size > 0
