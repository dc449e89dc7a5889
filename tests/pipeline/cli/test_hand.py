"""`hand list` and `hand check` as a user meets them."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from pipeline.cli import main
from stages.assets.hands.load import HANDS_DIR, hand_names
from stages.envs.maniskill.agent_table import AGENTS
from tests.hands import hand_params


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["hand", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def test_list_names_every_hand_and_whether_its_files_are_here() -> None:
    hands, _, agents = run("list").output.partition("\n\n")
    lines = hands.splitlines()
    assert [line.split()[0] for line in lines[1:]] == hand_names()
    [panda] = [line for line in lines if line.startswith("panda_gripper ")]
    assert panda.split()[1:5] == ["parallel_jaw", "2", "2", "yes"]
    assert [line.split()[0] for line in agents.splitlines()[1:]] == list(AGENTS)
    [away] = [line for line in agents.splitlines() if line.startswith("widowx250s ")]
    assert away.split()[2] == "no"
    assert "download_asset widowx250s" in away


@pytest.mark.parametrize("name", hand_params("panda_gripper", "xarm7_ability", "leap_right"))
def test_check_of_a_sound_hand_draws_it(name: str, tmp_path: Path) -> None:
    target = tmp_path / "hand.png"
    done = run("check", name, "--save", target)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1] == "0 errors, 0 warnings"
    assert f"{name}: " in done.output
    with Image.open(target) as image:
        assert image.size[0] > 900
        seen = {pixel for _, pixel in image.getcolors(1 << 20)}
    hues = [max(p) - min(p) for p in seen]
    assert max(hues) > 60  # the tips are orange


def test_check_of_a_broken_file_says_what_to_do_and_fails(tmp_path: Path) -> None:
    text = (HANDS_DIR / "panda_gripper.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("opening_width: 0.08", "opening_width: 0.2"))
    done = run("check", path)
    assert done.exit_code == 1
    assert "error    opening_width: expected 0.0800 m" in done.output
    assert "correct it, or open_qpos" in done.output
    assert "1 errors, 0 warnings" in done.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("kind: parallel_jaw", "kind: claw"), "expected parallel_jaw or dexterous"),
        (("opening_width", "opening_widht"), "did you mean 'opening_width'"),
        (("panda_v2_gripper.urdf", "gone.urdf"), "no file at"),
        (("panda_leftfinger]", "thumb]"), "has no body 'thumb'"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_error(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    text = (HANDS_DIR / "panda_gripper.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("[panda_leftfinger, panda_rightfinger]", "[panda_leftfinger]")
                    .replace(*change))  # fmt: skip
    done = run("check", path)
    assert done.exit_code == 1
    assert message in done.output
    assert done.output.startswith("error ")


def test_files_that_are_no_yaml_and_no_xml(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: [")
    done = run("check", path)
    assert (done.exit_code, "not valid YAML" in done.output) == (1, True)
    (tmp_path / "hand.xml").write_text("hand")
    text = (HANDS_DIR / "panda_gripper.yaml").read_text()
    model = "mani_skill://robots/panda/panda_v2_gripper.urdf"
    path.write_text(text.replace(model, "hand.xml"))
    done = run("check", path)
    assert (done.exit_code, "got no XML" in done.output) == (1, True)


def test_a_hand_nobody_knows() -> None:
    done = run("check", "nobody")
    assert done.exit_code == 1
    assert "known hands: ability_left" in done.output
