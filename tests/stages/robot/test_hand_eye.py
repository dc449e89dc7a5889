"""Hand-eye calibration: the camera that made the measurements comes back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.spatial.transform import Rotation

from pipeline.cli import main
from schemas.frames import invert
from stages.robot import CalibrationError
from stages.robot.hand_eye import _log, residuals, solve_hand_eye


def pose(rng: np.random.Generator, turn: float = 2.0) -> np.ndarray:
    T = np.eye(4)
    T[:3, :3] = Rotation.from_rotvec(rng.uniform(-1, 1, 3) * turn).as_matrix()
    T[:3, 3] = rng.uniform(-0.5, 0.5, 3)
    return T


def measured(
    mount: str, noise: float = 0.0, count: int = 12
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """T_hand_cam or T_base_cam, hand poses, board poses as the camera sees them."""
    rng = np.random.default_rng(3)
    X, fixed = pose(rng), pose(rng)  # the board in the base, or in the hand
    hands = [pose(rng, 0.8) for _ in range(count)]
    boards = []
    for hand in hands:
        if mount == "hand":
            board = invert(X) @ invert(hand) @ fixed
        else:
            board = invert(X) @ hand @ fixed
        shift = np.eye(4)
        shift[:3, :3] = Rotation.from_rotvec(rng.normal(0, 1, 3) * noise).as_matrix()
        shift[:3, 3] = rng.normal(0, 1, 3) * noise
        boards.append(board @ shift)
    return X, hands, boards


@pytest.mark.parametrize("mount", ["hand", "base"])
def test_the_camera_comes_back(mount: Any) -> None:
    X, hands, boards = measured(mount)
    found = solve_hand_eye(hands, boards, mount)
    np.testing.assert_allclose(found.T, X, atol=1e-9)
    assert found.translation.max() < 1e-9
    assert found.rotation.max() < 1e-7
    X, hands, boards = measured(mount, noise=0.001, count=30)
    found = solve_hand_eye(hands, boards, mount)
    assert np.linalg.norm(found.T[:3, 3] - X[:3, 3]) < 0.002
    # three directions of a millimetre and a milliradian, times the lever for the translation
    assert 0.001 < found.rms[0] < 0.005
    assert 0.001 < found.rms[1] < 0.003


@pytest.mark.parametrize("mount", ["hand", "base"])
def test_a_wrong_camera_and_a_bad_pose_show(mount: Any) -> None:
    X, hands, boards = measured(mount)
    wrong = X.copy()
    wrong[:3, 3] += [0.01, 0, 0]
    report = residuals(hands, boards, mount, wrong)
    # the board is seen from all sides, so that the shift does not stay in its mean
    assert 0.003 < report.rms[0] <= 0.01
    assert report.rms[1] < 1e-7
    boards[4] = boards[4].copy()
    boards[4][:3, 3] += [0.02, 0, 0]
    report = residuals(hands, boards, mount, X)
    assert int(np.argmax(report.translation)) == 4
    assert report.translation[4] == pytest.approx(0.02 * 11 / 12, rel=1e-6)
    marked = [line for line in report.lines() if "measure it again" in line]
    assert len(marked) == 1
    assert marked[0].split()[0] == "4"


def test_poses_that_cannot_tell_are_refused() -> None:
    _, hands, boards = measured("hand")
    with pytest.raises(CalibrationError, match="at least 3, got 2 and 2"):
        solve_hand_eye(hands[:2], boards[:2], "hand")
    with pytest.raises(CalibrationError, match="got 12 and 11"):
        solve_hand_eye(hands, boards[:-1], "hand")
    with pytest.raises(CalibrationError, match="expected hand or base"):
        solve_hand_eye(hands, boards, "head")  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    X, fixed = pose(rng), pose(rng)
    one_axis = []
    for angle in np.linspace(0, 2, 8):
        T = np.eye(4)
        T[:3, :3] = Rotation.from_rotvec([0, 0, angle]).as_matrix()
        T[:3, 3] = rng.uniform(-0.3, 0.3, 3)
        one_axis.append(T)
    seen = [invert(X) @ invert(T) @ fixed for T in one_axis]
    with pytest.raises(CalibrationError, match="about one axis or not at all"):
        solve_hand_eye(one_axis, seen, "hand")


def test_rotation_vectors_are_those_of_scipy() -> None:
    rng = np.random.default_rng(1)
    for length in (0.0, 1e-9, 1e-4, 1.0, 3.0, np.pi - 1e-7, np.pi):
        axis = rng.normal(size=3)
        vector = axis / np.linalg.norm(axis) * length
        R = Rotation.from_rotvec(vector).as_matrix()
        got = _log(R)
        assert min(np.abs(got - vector).max(), np.abs(got + vector).max()) < 1e-6
        if 0 < length < 3.1:
            np.testing.assert_allclose(got, vector, atol=1e-8)


def test_the_command(tmp_path: Path) -> None:
    X, hands, boards = measured("base", noise=0.0005)
    file = tmp_path / "poses.json"
    values = {"mount": "base", "T_base_hand": np.array(hands).tolist(),
              "T_cam_board": np.array(boards).tolist()}  # fmt: skip
    file.write_text(json.dumps(values))
    out = tmp_path / "T.json"
    done = CliRunner().invoke(main, ["hand-eye", str(file), "--out", str(out)])
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(np.array(json.loads(out.read_text())), X, atol=0.003)
    rms = [line for line in done.output.splitlines() if line.startswith("rms")]
    assert 0.2 < float(rms[0].split()[1]) < 3.0  # mm
    again = CliRunner().invoke(main, ["hand-eye", str(file), "--check", str(out)])
    assert again.exit_code == 0
    assert rms[0] in again.output
    assert "T_base_cam; for crop --pose if the base is the world" in done.output
    _, hands, boards = measured("hand")
    of_hand = {"mount": "hand", "T_base_hand": np.array(hands).tolist(),
               "T_cam_board": np.array(boards).tolist()}  # fmt: skip
    file.write_text(json.dumps(of_hand))
    done = CliRunner().invoke(main, ["hand-eye", str(file), "--out", str(out)])
    assert "T_world_cam = T_world_hand @ T_hand_cam" in done.output
    for bad in ([[[1, 2], [3]]] * 12, ["pose"] * 12, 5, None, {"a": 1, "b": 2, "c": 3}):
        file.write_text(json.dumps(values | {"T_base_hand": bad, "T_cam_board": bad}))
        done = CliRunner().invoke(main, ["hand-eye", str(file)])
        assert done.exit_code == 2, (bad, done.output)
    file.write_text(json.dumps({"mount": "base"}))
    done = CliRunner().invoke(main, ["hand-eye", str(file)])
    assert done.exit_code == 2
    file.write_text(json.dumps(values | {"T_cam_board": [[1, 2], 3]}))
    done = CliRunner().invoke(main, ["hand-eye", str(file)])
    assert done.exit_code == 2, done.output
