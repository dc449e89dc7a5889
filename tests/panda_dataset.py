"""A small dataset of synthetic clouds with the real Panda gripper, for what draws and reports."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

SHARD_RECORDS = Path(__file__).parent / "stages" / "shard" / "conftest.py"
PANDA = {"hand": "panda_gripper", "joint_names": ("panda_finger_joint1", "panda_finger_joint2")}


def shard_records() -> ModuleType:
    """The makers of records of the shard tests."""
    spec = importlib.util.spec_from_file_location("shard_records", SHARD_RECORDS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def panda_records(*, train: int = 3, val: int = 1, grasps: int = 7) -> Any:
    """Records of scenes, clouds, grasps and labels; `write(folder)` makes the dataset."""
    module = shard_records()
    records = module.make_records(train=train, val=val)
    if grasps != 7:
        rng = np.random.default_rng(1)
        records.grasps = [module.grasp_set(rng, g.object_id, grasps) for g in records.grasps]
        records.labels = [
            module.label_set(rng, g, p) for g in records.grasps for p in ("fc", "tabletop")
        ]
    records.grasps = [replace(g, **PANDA) for g in records.grasps]
    records.labels = [replace(x, hand="panda_gripper") for x in records.labels]
    return records
