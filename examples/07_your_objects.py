"""Your own meshes, from files to labelled grasps, in a folder of your choice.

    python examples/07_your_objects.py [folder] [--smoke]

Two solids are written as .obj files in millimetres, as CAD programs like to do, with a config
beside them. Put your own meshes there instead. The run takes some ten seconds on two cores.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import trimesh

CONFIG = """\
assets:
  objects: ["*.obj"]
  scale: 0.001            # the files are in millimetres
  licence: CC0-1.0
  train_fraction: 1.0     # with two objects there is nothing to hold out
  val_fraction: 0.0
scene: {floating: 1, tabletop: 2, clutter: 0}
render: {views: 2}
grasp: {hands: [panda_gripper], grasps_per_object: 8}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=Path("data/out/yours"))
    parser.add_argument("--smoke", action="store_true", help="the smallest run")
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    trimesh.creation.box((60, 40, 90)).export(folder / "carton.obj")
    trimesh.creation.cylinder(25, 120, sections=64).export(folder / "bottle.obj")
    (folder / "mine.yaml").write_text(CONFIG)
    run = [sys.executable, "-m", "pipeline", "run", "all"]
    subprocess.run(
        [*run, "--config", str(folder / "mine.yaml"), "--out", str(folder / "out")]
        + ["--smoke"] * arguments.smoke,
        check=True,
    )


if __name__ == "__main__":
    main()
