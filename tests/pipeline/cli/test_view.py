"""`view` on a small dataset of synthetic clouds with the real Panda gripper."""

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from pipeline.cli import main
from tests.panda_dataset import panda_records


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    panda_records().write(folder)
    return folder


def run(*arguments):
    result = CliRunner().invoke(main, ["view", *(str(a) for a in arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_a_cloud_with_grasps_is_drawn_and_says_by_what(out, tmp_path):
    target = tmp_path / "cloud.png"
    shown = run(out, "--renderer", "numpy", "--grasps", "panda_gripper", "--save", target)
    assert shown.exit_code == 0, shown.output
    assert "drawn with numpy (asked for)" in shown.output
    assert "7 grasps of panda_gripper on these objects, 3 drawn" in shown.output
    assert "has changed since" in shown.output
    with Image.open(target) as opened:
        picture = np.asarray(opened)
    assert picture.shape[1] == 1280
    assert (picture[100:] != 255).any(axis=2).sum() > 1000


def test_scene_and_view_are_chosen(out, tmp_path):
    target = tmp_path / "cloud.png"
    options = ("--renderer", "numpy", "--save", target)
    shown = run(out, "--scene", "tabletop-00003", "--view", 1, *options)
    assert "tabletop-00003 view 1 (val)" in shown.output
    empty = run(out, "--scene", "tabletop-00000", "--view", 2, *options)
    assert empty.exit_code == 0, empty.output
    assert "0 points" in empty.output


def test_the_sheet_has_five_of_each(out, tmp_path):
    target = tmp_path / "sheet.png"
    shown = run(out, "--labels", "panda_gripper", "--save", target)
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("success: success") == 5
    assert shown.output.count("failure: slipped") == 5
    with Image.open(target) as opened:
        assert opened.size[0] == 5 * 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scene", "nope"], "choose one of: tabletop-00000"),
        (["--view", 9], "choose one of: 0, 1, 2, 3"),
        (["--split", "dev"], "choose one of: train, val"),
        (["--grasps", "claw"], "choose one of: panda_gripper"),
        (["--labels", "panda_gripper", "--protocol", "lift"], "choose one of: fc, tabletop"),
    ],
)
def test_wrong_choices_name_the_right_ones(out, tmp_path, options, message):
    shown = run(out, "--save", tmp_path / "x.png", *options)
    assert shown.exit_code == 2
    assert message in shown.output


def test_places_that_cannot_be_used(out, tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert "--save" in run(out).output
    assert run(out).exit_code == 2
    assert "run the shard stage" in run(tmp_path, "--save", tmp_path / "x.png").output
    lost = run(out, "--renderer", "numpy", "--save", tmp_path / "no" / "x.png")
    assert lost.exit_code == 2
    assert "cannot write" in lost.output
