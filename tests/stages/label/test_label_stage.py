"""The stage: what it plans, what decides its keys, and the records it returns."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.records import GraspSet, LabelSet, ObjectAsset, decode, encode
from stages.contract import Item
from stages.envs.config import FcConfig, PhysicsConfig, TabletopConfig
from stages.label.config import LabelConfig, protocol_hash
from stages.label.errors import LabelConfigError
from stages.label.outcomes import MEANINGS
from stages.label.stage import LabelStage

MakeRow = Callable[..., NDArray[np.float64]]
MakeGrasps = Callable[..., GraspSet]
GRASP = Item(id="panda_gripper/box", inputs=(("assets", "box"),), tags={"split": "train"})


def test_plan_has_one_item_per_set_and_protocol() -> None:
    items = LabelStage().plan(LabelConfig(), {"grasp": [GRASP], "assets": []})
    assert [item.id for item in items] == ["panda_gripper/box/fc", "panda_gripper/box/tabletop"]
    for item in items:
        assert item.inputs == (("grasp", GRASP.id), ("assets", "box"))
        assert item.tags == {"split": "train"}


def test_only_a_protocols_own_numbers_change_its_items() -> None:
    base = LabelConfig()
    lift = replace(base, tabletop=TabletopConfig(lift_height=0.1))
    assert protocol_hash(base, "fc") == protocol_hash(lift, "fc")
    assert protocol_hash(base, "tabletop") != protocol_hash(lift, "tabletop")
    hold = replace(base, fc=FcConfig(hold_time=1.0))
    assert protocol_hash(base, "fc") != protocol_hash(hold, "fc")
    rough = replace(base, physics=PhysicsConfig(friction=(0.9, 0.02, 0.0001)))
    for protocol in base.protocols:
        assert protocol_hash(base, protocol) != protocol_hash(rough, protocol)
        assert protocol_hash(base, protocol) == protocol_hash(replace(base, workers=3), protocol)


def test_run_gives_one_row_per_grasp_and_survives_encoding(
    box: ObjectAsset, make_row: MakeRow, make_grasps: MakeGrasps
) -> None:
    grasps = make_grasps([make_row(0.03), make_row(0.3), make_row(-0.01)])
    stage, config = LabelStage(), LabelConfig()
    items = stage.plan(config, {"grasp": [GRASP], "assets": []})
    inputs = {("grasp", GRASP.id): grasps, ("assets", "box"): box}
    seeds = {item.id: 7 for item in items}
    together = stage.run(items, inputs, config, seeds)
    alone = [stage.run([item], inputs, config, seeds)[0] for item in items]
    for outcome, single in zip(together, alone, strict=True):
        record = outcome.record
        assert isinstance(record, LabelSet)
        assert record.outcome.tolist() == ["ok", "no_contact", "initial_penetration"]
        assert set(record.outcome.tolist()) <= set(MEANINGS)
        assert record.grasp_index.tolist() == grasps.grasp_index.tolist()
        assert record.direction_success.shape == (3, 6)
        assert record.engine.startswith("mujoco ")
        arrays = encode(record)
        for name, array in encode(single.record).items():
            np.testing.assert_array_equal(array, arrays[name])
        again = decode(LabelSet, arrays)
        np.testing.assert_array_equal(again.final_object_pose, record.final_object_pose)


def test_grasps_of_another_hand_file_are_refused(
    box: ObjectAsset, make_row: MakeRow, make_grasps: MakeGrasps
) -> None:
    grasps = replace(make_grasps([make_row(0.03)]), hand_digest="0" * 64)
    stage, config = LabelStage(), LabelConfig(protocols=("fc",))
    items = stage.plan(config, {"grasp": [GRASP], "assets": []})
    inputs = {("grasp", GRASP.id): grasps, ("assets", "box"): box}
    with pytest.raises(LabelConfigError, match="sampled with digest"):
        stage.run(items, inputs, config, {items[0].id: 0})


def test_unknown_protocol_lists_the_known_ones() -> None:
    with pytest.raises(LabelConfigError, match="fc, tabletop"):
        LabelConfig(protocols=("fc", "lift"))


def test_config_and_stage_import_no_heavy_library() -> None:
    code = (
        "import sys, stages.label.config, stages.label.stage;"
        "bad = {'mujoco','trimesh','scipy','torch','sapien'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
