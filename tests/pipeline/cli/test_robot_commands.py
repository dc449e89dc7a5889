"""`crop` on captures and recordings, and `calibrate-table`, as a user starts them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pipeline.cli import main
from stages.crop import CropSpec
from stages.robot import Frame
from stages.robot.deploy import read_table
from stages.robot.segments import OnTheTable, segmented
from stages.robot.sources.clouds import read_cloud
from stages.robot.sources.recording import Recorder, frame_arrays
from tests.program import pipeline
from tests.stages.robot.test_segments import TABLE, T, scene

SPEC = CropSpec(sampling="random", num_points=300, frame="world")


@pytest.fixture
def robot(tmp_path: Path) -> tuple[Path, Frame]:
    """frame.npz of a table with two boxes, with its pose; bare.npz without; a dataset's crop."""
    frame, _ = scene()
    np.savez(tmp_path / "frame.npz", **frame_arrays(frame))
    np.savez(tmp_path / "bare.npz", **frame_arrays(replace(frame, T_world_cam=None)))
    (tmp_path / "crop.json").write_text(json.dumps(SPEC.to_dict()))
    np.save(tmp_path / "pose.npy", T)
    return tmp_path, frame


def run(folder: Path, *args: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, [str(a) for a in args])
    assert done.exit_code == code, done.output
    return done.output


def test_calibrate_then_crop_by_what_stands_on_the_table(robot: tuple[Path, Frame]) -> None:
    folder, frame = robot
    said = run(folder, "calibrate-table", folder / "frame.npz", "--out", folder / "table.json")
    # the plane of TABLE, which leans by 0.04 rad about x, averaged over what is seen of it
    assert "tilt       2.29 degrees" in said
    pose = read_table(folder / "table.json")[1]
    assert pose[3] == pytest.approx(math.cos(0.02), abs=1e-6)
    spec, table = folder / "crop.json", folder / "table.json"
    said = run(folder, "crop", folder / "frame.npz", "--crop-spec", spec, "--table", table,
               "--on-table", "--out", folder / "a.ply")  # fmt: skip
    assert "300 points in the world frame" in said
    expected = segmented(frame, OnTheTable(table_pose=pose)).crop(SPEC)
    points = read_cloud(folder / "a.ply").points.astype(np.float32)
    np.testing.assert_array_equal(points, expected.points)
    # the boxes reach 8 cm over the table, which lies 4 cm over the world's origin
    assert 0.1 < points[:, 2].max() < 0.13


def test_a_camera_without_a_pose_gets_one_from_the_table(robot: tuple[Path, Frame]) -> None:
    folder, _ = robot
    said = run(folder, "calibrate-table", folder / "bare.npz", "--out", folder / "table.json")
    assert said.startswith("camera     ")
    run(folder, "crop", folder / "bare.npz", "--crop-spec", folder / "crop.json", "--on-table",
        "--table", folder / "table.json", "--out", folder / "a.ply")  # fmt: skip
    z = read_cloud(folder / "a.ply").points[:, 2]
    assert z.max() == pytest.approx(0.08, abs=0.002)  # the taller box, over its table
    assert z.min() > 0.005
    run(folder, "calibrate-table", folder / "bare.npz", "--pose", folder / "pose.npy")


def test_a_workspace_box_and_a_given_table(robot: tuple[Path, Frame]) -> None:
    folder, _ = robot
    pose = {"T_world_cam": T.tolist(), "table_pose": TABLE.tolist()}
    (folder / "table.json").write_text(json.dumps(pose))
    run(folder, "crop", folder / "bare.npz", "--crop-spec", folder / "crop.json", "--workspace",
        "0.03,-0.05,0.01,0.12,0.07,0.2", "--table", folder / "table.json", "--out",
        folder / "a.ply")  # fmt: skip
    points = read_cloud(folder / "a.ply").points
    assert len(points) > 100
    assert (points[:, 0] > 0.05).all()  # the second box alone


def test_a_recording_gives_as_many_clouds_as_asked_for(robot: tuple[Path, Frame]) -> None:
    folder, frame = robot
    recorder = Recorder(folder / "tape")
    for shift in (0.0, 0.01):
        recorder.write(replace(frame, depth=frame.depth + np.float32(shift)))
    recorder.close()
    args = ("crop", folder / "tape", "--crop-spec", folder / "crop.json", "--on-table", "--out",
            folder / "c.ply")  # fmt: skip
    run(folder, *args, "--frames", 2)
    first, second = (read_cloud(folder / n).points for n in ("c.ply", "c-001.ply"))
    assert len(first) == len(second) == 300
    assert not np.array_equal(first, second)
    assert "--frames 3: the recording has 2 frames" in run(folder, *args, "--frames", 3, code=2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("crop", "frame.npz", "--workspace", "1,2,3"), "expected six numbers, got '1,2,3'"),
        (("crop", "frame.npz", "--workspace", "a"), "expected six numbers, got 'a'"),
        (("crop", "frame.npz", "--on-table", "--segment", "x.npy"), "give one of --segment"),
        (("crop", "frame.npz", "--depth-scale", "1"), "goes with --intrinsics"),
        (("crop", "frame.npz"), "no segment table (name -> id) came with the image"),
        (("crop", "bare.npz", "--on-table", "--table", "pose.npy"), "cannot be read as JSON"),
        (
            (
                "crop",
                "nowhere.npz",
            ),
            "no such file",
        ),
        (
            (
                "crop",
                "nowhere",
            ),
            "expected a folder with capture.json",
        ),
        (("crop", "frame.npz", "--convention", "crop.json"), "unknown keys"),
        (("calibrate-table", "frame.npz", "--max-depth", "0.01"), "expected at least 100 points"),
        (("calibrate-table", "crop.json"), "unknown keys"),
    ],
)
def test_mistakes_are_one_message(
    robot: tuple[Path, Frame], args: tuple[str, ...], message: str
) -> None:
    folder, _ = robot
    words = [folder / a if a.endswith((".npz", ".npy", ".json", "nowhere")) else a for a in args]
    if args[0] == "crop":
        words += ["--crop-spec", folder / "crop.json", "--out", folder / "o.ply"]
    said = run(folder, *words, code=2)
    assert message in said
    assert not (folder / "o.ply").exists()


def test_the_program_itself(robot: tuple[Path, Frame]) -> None:
    folder, _ = robot
    done = pipeline("calibrate-table", folder / "frame.npz")
    assert done.returncode == 0, done.stderr
    assert "mm rms of" in done.stdout
