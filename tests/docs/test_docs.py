"""Documents that run: links, commands, code, configs and examples."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pipeline.cli import main
from pipeline.config import build_config
from pipeline.registry import Registry
from stages.assets.hands.load import load_hand
from stages.assets.hands.spec import HandSpec
from stages.envs.mujoco.hand_lint import lint_hand
from stages.robot.config import CaptureConfig
from stages.robot.errors import EndOfRecordingError
from stages.robot.sources.recording import Recorder
from tests.captures import ALL, needs_captures
from tests.hands import hand_params
from tests.stages.robot.test_segments import scene
from tests.vulkan import need_vulkan

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "data" / "README.md"])
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
    for name, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", text):
        other = page if not name else page.parent / name
        headings = re.findall(r"^#+ (.*)$", other.read_text(encoding="utf-8"), re.MULTILINE)
        slugs = [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings]
        assert anchor in slugs, f"{name}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_commands_exist_with_their_options(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"python -m pipeline ([^`#|\n]+)", text):
        words = shlex.split(line.strip().rstrip("."))
        if words[0] == "COMMAND":
            continue
        command = main.get_command(click.Context(main), words[0])
        while isinstance(command, click.Group):
            words = words[1:]
            command = command.get_command(click.Context(command), words[0])
        assert command is not None, line
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words[1])
            assert command is not None, line
        known = {option for p in command.params for option in p.opts} | {"--help"}
        for word in words[1:]:
            if word.startswith("--"):
                assert word in known, f"{word} in: {line}"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_yaml_builds(page: Path) -> None:
    for text in blocks(page, "yaml"):
        data = yaml.safe_load(text)
        if "joint_names" in data:
            HandSpec(**data)
        else:
            build_config(data, registry=Registry())


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_targets_of_make_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for block in blocks(page, "bash"):
        for target in re.findall(r"^make (\w+)", block, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def run(*command: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by the example that brings its own objects."""
    folder = tmp_path_factory.mktemp("yours")
    out = run("examples/07_your_objects.py", folder)
    assert "grasps 16" in out
    assert "report: " in out
    return folder / "out"


def test_the_examples_that_need_no_dataset_run() -> None:
    text = run("examples/01_render_one_scene.py", "--smoke")
    assert "carton, bottle, ball at rest" in text
    assert "as a D435 sees it: points of 4 views" in text
    text = run("examples/02_label_one_object.py", "--smoke")
    assert "panda_gripper/carton/000: 4 candidates" in text
    assert "/tabletop: " in text


def test_the_examples_that_read_a_dataset_run(dataset: Path, tmp_path: Path) -> None:
    picture = tmp_path / "cloud.png"
    assert "metres, world" in run("examples/00_look_at_one_cloud.py", dataset, picture, "--smoke")
    assert picture.stat().st_size > 1000
    text = run("examples/03_read_a_shard.py", dataset, "--smoke")
    assert "unit m, frame camera" in text
    assert "grasps of panda_gripper on its objects" in text


def test_the_classifier_trains(dataset: Path) -> None:
    """That it runs; that it learns is measured on the larger dataset, see docs/train.md."""
    text = run("examples/06_train_grasp_classifier.py", dataset, "--smoke")
    assert "16 grasps of panda_gripper" in text
    assert "networks that learned shuffled labels: " in text
    assert "no table of real captures" in text


def test_every_example_is_run_here() -> None:
    text = Path(__file__).read_text()
    for path in sorted((ROOT / "examples").glob("[0-9]*.py")):
        assert f"examples/{path.name}" in text, path


def test_the_robot_reads_the_dataset(dataset: Path) -> None:
    assert "points in the camera frame, crop" in run("examples/04_crop_on_robot.py", dataset)


@needs_captures
@pytest.mark.slow
def test_the_twin_lies_on_its_photograph(tmp_path: Path) -> None:
    need_vulkan()
    where, convention = ALL["mustard"]
    said = run("examples/05_build_twin.py", where, "ycb://006_mustard_bottle", "--convention",
               convention, "--out", tmp_path)  # fmt: skip
    [overlap] = re.findall(r"silhouettes overlap by ([\d.]+)%", said)
    [off] = re.findall(r"differ by ([\d.]+) mm", said)
    assert float(overlap) > 93
    assert float(off) < 2
    assert (tmp_path / "twin.png").read_bytes().startswith(b"\x89PNG")


def test_the_twin_of_a_made_up_frame(tmp_path: Path) -> None:
    need_vulkan()
    said = run("examples/05_build_twin.py", "--smoke", "--out", tmp_path)
    assert float(re.findall(r"silhouettes overlap by ([\d.]+)%", said)[0]) > 80
    assert (tmp_path / "twin.png").is_file()


def test_the_capture_of_the_robot_s_page_is_a_config() -> None:
    [text] = blocks(ROOT / "docs" / "robot.md", "json")
    config = CaptureConfig.from_dict(json.loads(text), "robot.md")
    assert config.missing == (65535,)
    for path in (ROOT / "configs" / "captures").glob("*.json"):
        CaptureConfig.from_dict(json.loads(path.read_text()), path.name)


def test_the_loop_of_the_robot_s_page_runs(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a recording instead of a camera, which ends the loop."""
    code, _ = blocks(ROOT / "docs" / "robot.md", "python")
    frame, _ = scene()
    recorder = Recorder(dataset / "tape")
    for _ in range(3):
        recorder.write(frame)
    recorder.close()
    code = code.replace('"realsense:"', repr(str(dataset / "tape")))
    code = code.replace('"data/out/demo"', repr(str(dataset)))
    names: dict[str, Any] = {}
    with pytest.raises(EndOfRecordingError):
        exec(compile(code, "robot.md", "exec"), names)
    assert len(names["cloud"].points) > 100


def test_a_tool_moves_through_grains(tmp_path: Path) -> None:
    """Few grains, for time: a bed that the bucket hardly reaches."""
    text = run("examples/08_tools_in_grains.py", "dig", tmp_path, 100)
    assert "of 100 lifted" in text
    assert len(list(tmp_path.glob("dig_*.png"))) == 5


def test_the_code_of_the_readme_runs(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = blocks(ROOT / "README.md", "python")
    assert '"data/out/demo"' in code
    # fixed-size batches of 8 out of 6 clouds, in this process
    code = code.replace('"data/out/demo"', repr(str(dataset))).replace(
        "num_workers=2", "num_workers=0"
    )
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    batch = names["batch"]
    assert batch["points"].shape == (6, 1024, 3)
    assert batch["grasps"]["grasp_qpos"].shape[1] == 9
    assert batch["grasps"]["success"].any()
    # the block of dataset.md goes on from there
    [code] = blocks(ROOT / "docs" / "dataset.md", "python")
    names |= {"out": dataset}
    exec(compile(code.replace("num_workers=2", "num_workers=0"), "dataset.md", "exec"), names)
    assert names["state"]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = ["-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    pages = {p.relative_to(tmp_path / "site").as_posix() for p in tmp_path.rglob("*.html")}
    assert {"index.html", "faq/index.html", "examples/03_read_a_shard/index.html"} <= pages
    names = [p.stem for p in (ROOT / "docs").glob("*.md")]
    assert {f"{n}/index.html" for n in names if n != "index"} <= pages
    # nothing from other hosts but links to follow
    text = (tmp_path / "site" / "index.html").read_text()
    assert not re.findall(r'(?:src|<link[^>]*href)="(?:https?:)?//[^"]+"', text)


WRITERS = sorted(path.name for path in (ROOT / "scripts").glob("write_*.py"))


@pytest.mark.parametrize("name", WRITERS)
def test_written_pages_are_up_to_date(name: str) -> None:
    run(f"scripts/{name}", "--check")


def test_the_outcomes_of_the_page_are_those_of_the_code() -> None:
    from stages.label.outcomes import MEANINGS

    text = (ROOT / "docs" / "labels.md").read_text()
    for code in MEANINGS:
        assert f"`{code}`" in text or code.startswith("dropped_"), code


def test_every_decision_states_its_problem_and_its_choice() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(p.name[:4]) for p in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        assert page.read_text().startswith("# ")


@pytest.mark.parametrize("name", hand_params("leap_right"))
def test_the_hand_of_the_page_is_sound(name: str) -> None:
    """Its numbers, with the model of the hand that is there."""
    [text] = blocks(ROOT / "docs" / "add_a_hand.md", "yaml")
    data = yaml.safe_load(text) | {"model": load_hand(name).model}
    assert [str(f) for f in lint_hand(HandSpec(**data)).findings] == []
