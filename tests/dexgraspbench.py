"""DexGraspBench's reference grasps and labels (see its README in the reference folder)."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.frames import quaternion_to_matrix
from schemas.records import ObjectAsset
from stages.assets.published import published_asset
from stages.envs.grasp_input import GraspInput
from stages.grasp.formats.dexgraspbench import PALM_IN_ROOT
from stages.grasp.formats.pickled import read_pickled
from tests.reference import REFERENCE, use_reference_hands

ROOT = REFERENCE / "dexgraspbench"
HAND = "dexgraspbench_shadow"
use_reference_hands()


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    object_id: str
    scale: float
    row: GraspInput
    label: dict[str, Any]


def read_reference(label: dict[str, Any]) -> Reference:
    values = read_pickled(ROOT / "grasps" / label["grasp"])

    def qpos(name: str) -> NDArray[np.float64]:
        q = np.array(values[name], np.float64).ravel()
        q[:3] += quaternion_to_matrix(q[3:7]) @ PALM_IN_ROOT
        return q

    return Reference(
        object_id=label["grasp"].split("/")[0],
        scale=float(np.ravel(values["obj_scale"])[0]),
        row=GraspInput(
            grasp_index=0,
            object_pose=np.array(values["obj_pose"], np.float64),
            pregrasp_qpos=qpos("pregrasp_qpos"),
            grasp_qpos=qpos("grasp_qpos"),
            squeeze_qpos=qpos("squeeze_qpos"),
        ),
        label=label,
    )


def reference_asset(object_id: str, scale: float) -> ObjectAsset:
    return published_asset(ROOT / "objects", object_id, scale)


def labels() -> list[dict[str, Any]]:
    """All 200, in their order."""
    return json.loads((ROOT / "labels_fc.json").read_text())["labels"]
