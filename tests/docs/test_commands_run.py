"""Every command that a page shows is run, in a folder that holds what the pages speak of."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from click.testing import CliRunner
from PIL import Image

from pipeline.cli import main
from stages.robot.sources.recording import frame_arrays
from tests.program import ROOT, pipeline
from tests.stages.robot.test_hand_eye import measured
from tests.stages.robot.test_segments import scene

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
CONFIG = """\
assets: {objects: [meshes/*.obj], scale: 0.001, train_fraction: 1.0, val_fraction: 0.0}
scene: {floating: 0, tabletop: 2, clutter: 0}
render: {views: 2}
grasp: {hands: [panda_gripper], grasps_per_object: 8}
"""
NOT_HERE = {
    "--cluster slurm": "a cluster; tests/pipeline/test_clusters.py starts one",
    "--format dexgraspbench --hand": "published files; tests/pipeline/cli/test_label.py has some",
    "pipeline compare": "real frames; tests/pipeline/cli/test_noise_and_compare.py has some",
    "pipeline noise fit": "real frames; tests/pipeline/cli/test_noise_and_compare.py has some",
    "inject_faults": "minutes; tests/e2e/test_faults.py injects some",
    "pipeline doctor": "tests/pipeline/cli/test_crop_and_doctor.py",
    "--web": "a server; tests/pipeline/viewer/test_viewer.py drives it",
    "my_leap.yaml": "a hand of the reader; test_docs.py lints the page's own",
    "configs/demo.yaml": "the demo; `make demo` and test_commands.py plan it",
    "pipeline agree": "labels of two engines; tests/pipeline/test_agreement.py makes some",
    "realsense:": "a camera; tests/stages/robot has recordings",
    "calibrate-table CAPTURE": "tests/pipeline/cli/test_robot_commands.py",
    "hand-eye poses.json": "tests/pipeline/cli/test_robot_commands.py",
    "configs/granular.yaml": "minutes; tests/stages/scene/granular fills smaller bins",
    "configs/classifier.yaml": "half an hour; docs/train.md tells what it gave",
}
"""What is not run here, by a part of the command, and where it is."""
INSTEAD = {
    "--scenes 200": "--scenes 3",
    "--scenes 40": "--scenes 3",
    "allegro_right": "panda_gripper",
    "realsense:": "frame.npz",
    "CAPTURE": "bare.npz",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mine.yaml, meshes/, a depth image with its mask and pose, a frame and poses of a robot, and
    two finished outputs."""
    here = tmp_path_factory.mktemp("reader")
    (here / "meshes").mkdir()
    trimesh.creation.box((60, 40, 90)).export(here / "meshes" / "carton.obj")
    (here / "mine.yaml").write_text(CONFIG)
    depth = np.full((480, 640), 800, np.uint16)
    mask = np.zeros((480, 640), np.uint8)
    mask[200:300, 250:400] = 2
    np.save(here / "depth.npy", depth.astype(np.float32) / 1000)
    np.save(here / "mask.npy", mask)
    Image.fromarray(depth).save(here / "depth.png")
    Image.fromarray(mask // 2 * 101).save(here / "mask.png")
    np.save(here / "T_base_cam.npy", np.eye(4))
    frame, _ = scene()
    bare = replace(frame, T_world_cam=None)
    np.savez(here / "frame.npz", **frame_arrays(bare))
    np.savez(here / "bare.npz", **frame_arrays(bare))
    (here / "T_world_cam.json").write_text(json.dumps(np.asarray(frame.T_world_cam).tolist()))
    _, hands, boards = measured("base")
    poses = {"mount": "base", "T_base_hand": np.array(hands).tolist(),
             "T_cam_board": np.array(boards).tolist()}  # fmt: skip
    (here / "poses.json").write_text(json.dumps(poses))
    mine = here / "data" / "out" / "mine"
    done = pipeline("run", "all", "--config", here / "mine.yaml", "--out", mine, timeout_s=900)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.copytree(mine, here / "data" / "out" / "demo")
    return here


def commands(page: Path) -> list[str]:
    """Lines of its shell blocks that start the pipeline."""
    text = "\n".join(re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL))
    lines = text.replace("\\\n", " ").splitlines()
    return [line.split(" # ")[0].strip() for line in lines if "python -m pipeline" in line]


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda p: p.name)
def test_the_commands_of_a_page_run(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("pipeline.viewer.film.FRAMES", 4)  # the films are looked at elsewhere
    monkeypatch.setattr("pipeline.viewer.film.MOST_FRAMES", 6)
    for line in commands(page):
        if any(part in line for part in NOT_HERE):
            continue
        for old, new in INSTEAD.items():
            line = line.replace(old, new)
        arguments = shlex.split(line.removeprefix("python -m pipeline"))
        if arguments[0] in ("run", "extend"):
            arguments += ["--workers", "0"]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception}"


def test_what_is_not_run_here_is_still_shown_somewhere() -> None:
    lines = [line for page in PAGES for line in commands(page)]
    text = "\n".join(lines) + "".join(p.read_text() for p in PAGES)
    assert [part for part in [*NOT_HERE, *INSTEAD] if part not in text] == []
    assert len([x for x in lines if not any(part in x for part in NOT_HERE)]) >= 15
