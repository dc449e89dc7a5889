"""Label one object: sample grasps of a hand on a box and try them in physics.

    python examples/02_label_one_object.py [hand] [--smoke]

Each grasp is a pregrasp, a grasp and a squeeze. Under `fc` the held box is pulled in six directions
without gravity, under `tabletop` it is lifted from the table; docs/labels.md has the numbers.
"""

import argparse
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import trimesh

from stages.assets.config import AssetsConfig
from stages.assets.stage import AssetsStage
from stages.grasp.config import GraspConfig
from stages.grasp.stage import GraspStage
from stages.label.config import LabelConfig
from stages.label.stage import LabelStage


def run(stage, config, planned: dict, records: dict) -> None:
    """Plan and run one stage; its items and records join those of the others."""
    planned[stage.name] = items = stage.plan(config, planned)
    items = [item for item in items if all(place in records for place in item.inputs)]
    seeds = {item.id: number for number, item in enumerate(items)}
    for outcome in stage.run(items, records, config, seeds):
        if outcome.record is None:
            print(f"{stage.name} {outcome.id}: {outcome.code}: {outcome.message}")
        else:
            records[stage.name, outcome.id] = outcome.record


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("hand", nargs="?", default="panda_gripper", help="pipeline hand list")
    parser.add_argument("--smoke", action="store_true", help="four grasps")
    arguments = parser.parse_args()
    planned: dict = {}
    records: dict = {}
    with TemporaryDirectory() as folder:
        trimesh.creation.box((0.06, 0.04, 0.09)).export(Path(folder, "carton.obj"))
        meshes = AssetsConfig(objects=("*.obj",), asset_root=folder)
        run(AssetsStage(), meshes, planned, records)
    count = 4 if arguments.smoke else 16
    grasps = GraspConfig(hands=(arguments.hand,), grasps_per_object=count, chunk=count)
    run(GraspStage(), grasps, planned, records)
    run(LabelStage(), LabelConfig(), planned, records)

    for (stage, name), record in records.items():
        if stage == "grasp":
            print(f"{name}: {len(record)} candidates, joints {', '.join(record.joint_names)}")
            print(f"  first grasp, root xyz wxyz and joints: {np.round(record.grasp_qpos[0], 3)}")
        if stage == "label":
            codes = ", ".join(f"{c} {n}" for c, n in Counter(record.outcome.tolist()).items())
            moved = 1000 * np.nanmax(record.translation)
            good, of = record.success.sum(), len(record.success)
            print(f"{name}: {good} of {of} succeed ({codes}); moved {moved:.1f} mm at most")


if __name__ == "__main__":
    main()
