"""The real line, killed with -9 in each stage and in the publishing, ends with the same dataset.

Objects are written here, so that the test needs no package of meshes: a cube and a cylinder of
5 cm, which the Panda gripper holds.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def write_config(folder: Path) -> Path:
    import trimesh

    trimesh.creation.box((0.05, 0.05, 0.05)).export(folder / "cube.obj")
    trimesh.creation.cylinder(0.02, 0.09, sections=24).export(folder / "rod.obj")
    path = folder / "two.yaml"
    path.write_text(
        "assets: {objects: [cube.obj, rod.obj], train_fraction: 1.0, val_fraction: 0.0}\n"
        "scene: {floating: 1, tabletop: 3, clutter: 0}\n"
        "render: {views: 2}\n"
        "grasp: {hands: [panda_gripper], grasps_per_object: 4, chunk: 2}\n"
        "max_failure_fraction: 0.9\n"
    )
    return path


def start(config: Path, out: Path, *extra: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "pipeline", "run", "all"),
            *("--config", str(config), "--out", str(out), *extra),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def kill_when(process: "subprocess.Popen[str]", ready: Callable[[], bool]) -> bool:
    """Kill once `ready`; False when the process ended before."""
    while process.poll() is None:
        if ready():
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            return True
        time.sleep(0.002)
    process.communicate()
    return False


def digest(out: Path) -> str:
    command = [sys.executable, "-m", "pipeline", "verify", str(out)]
    sound = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert sound.returncode == 0, sound.stdout + sound.stderr
    done = subprocess.run(
        [*command, "--digest"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_killed_in_each_stage_the_dataset_is_the_same(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    process = start(config, whole, "--workers", "1")
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0, text

    killed: list[str] = []
    for stage in ("assets", "scene", "render", "grasp", "label"):
        folder = torn / "blocks" / stage
        process = start(config, torn, "--workers", "2", "--block-size", "1")
        # With one block committed and others in flight.
        if kill_when(process, lambda folder=folder: any(folder.glob("*.json"))):
            killed.append(stage)
    # Grasps and labels take long enough to be hit for sure; a scene may settle in one tick.
    assert {"assets", "grasp", "label"} <= set(killed)
    process = start(config, torn, "--workers", "2")
    in_shards = kill_when(process, lambda: any((torn / "shards").glob("*")))
    process = start(config, torn, "--workers", "2", "--block-size", "3")
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0, text
    assert in_shards
    assert digest(torn) == digest(whole)
    names = {p.name for p in (whole / "shards").iterdir()}
    assert {p.name for p in (torn / "shards").iterdir()} == names  # nothing half-written stays
