"""How the program behaves towards people, shells and other programs."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pipeline.cli import INTERRUPTED, main
from tests.program import ROOT, pipeline

CONFIG = """\
assets: {objects: [cube.obj], train_fraction: 1.0, val_fraction: 0.0}
scene: {floating: 1, tabletop: 1, clutter: 0}
render: {views: 2}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import trimesh

    folder = tmp_path_factory.mktemp("manners")
    trimesh.creation.box((0.05, 0.05, 0.05)).export(folder / "cube.obj")
    (folder / "cube.yaml").write_text(CONFIG)
    return folder / "cube.yaml"


@pytest.fixture(scope="module")
def out(config: Path) -> Path:
    folder = config.parent / "out"
    done = pipeline("run", "render", "--config", config, "--out", folder, "--no-report")
    assert done.returncode == 0, done.stderr
    return folder


def leaves() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, by its words."""
    for name in main.list_commands(click.Context(main)):
        command = main.get_command(click.Context(main), name)
        assert command is not None
        if isinstance(command, click.Group):
            for inner, leaf in command.commands.items():
                yield f"{name} {inner}", leaf
        else:
            yield name, command


LEAVES = dict(leaves())


@pytest.mark.parametrize("words", sorted(LEAVES))
def test_help_has_examples_whose_options_exist(words: str) -> None:
    command = LEAVES[words]
    text = (command.help or "").replace("\\\n", " ")
    examples = re.findall(rf"^ *python -m pipeline {words}\b(.*)$", text, re.MULTILINE)
    assert examples, "no example"
    for example in examples:
        arguments = shlex.split(example.split(" > ")[0].split(" >> ")[0])
        parsed = command.make_parser(click.Context(command)).parse_args(arguments)
        assert parsed[1] == [], f"left over: {parsed[1]}"


def test_status_as_json_is_what_it_prints(out: Path) -> None:
    found = json.loads(pipeline("status", out, "--json").stdout)
    assert found["stages"]["render"] == {"outcomes": 4, "codes": {"ok": 4}}
    assert found["dataset"] is False
    assert found["corrupt"] == []
    with_reasons = json.loads(pipeline("status", out, "--failures", "--json").stdout)
    assert with_reasons["stages"]["assets"]["failures"] == []


def test_plan_as_json(out: Path, config: Path) -> None:
    args = ("plan", "render", "--config", config, "--out", out, "--set", "scene.floating=3")
    found = json.loads(pipeline(*args, "--items", "--json").stdout)
    assert found["stages"]["scene"] == {"items": 4, "done": {"ok": 2}, "todo": {"new": 2}}
    assert found["stages"]["render"]["items"] == 8
    assert len(found["items"]) == 1 + 4 + 8
    assert all(re.fullmatch("[0-9a-f]{64}", row["key"]) for row in found["items"])


def test_verify_as_json_names_what_is_torn(out: Path, tmp_path: Path) -> None:
    sound = json.loads(pipeline("verify", out, "--json").stdout)
    assert sound["blocks"] >= 3
    assert sound == {"blocks": sound["blocks"], "dataset": False, "findings": []}
    copy = tmp_path / "torn"
    shutil.copytree(out, copy)
    victim = next((copy / "blocks" / "render").glob("*.npz"))
    victim.write_bytes(b"")
    done = pipeline("verify", copy, "--json")
    assert done.returncode == 1
    [finding] = json.loads(done.stdout)["findings"]
    assert victim.stem in finding["place"]
    assert finding["kind"] == "block"


def in_terminal(*args: object, **environment: str) -> str:
    """What the program prints when a terminal is on the other end."""
    outer, inner = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", *map(str, args)],
        cwd=ROOT, stdout=inner, stderr=inner, env=env | {"TERM": "xterm"} | environment,
    )  # fmt: skip
    os.close(inner)
    text = b""
    while True:
        try:
            data = os.read(outer, 4096)
        except OSError:  # Linux says so when the other end is closed
            break
        if not data:
            break
        text += data
    process.wait(60)
    os.close(outer)
    return text.decode()


def test_colour_is_for_terminals_only(out: Path) -> None:
    coloured = "\x1b[32mok\x1b[0m 4"
    assert coloured in in_terminal("status", out)
    assert "\x1b[31merror\x1b[0m: " in in_terminal("status", "nowhere")
    assert "\x1b" not in in_terminal("status", out, NO_COLOR="1")
    done = pipeline("status", out)
    assert "ok 4" in done.stdout
    assert "\x1b" not in done.stdout + pipeline("status", "nowhere").stderr


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["ver"], ["verify"]),
        (["run", "--max"], ["--max-failure-fraction"]),
        (["run", "ren"], ["render"]),
        (["run", "assets+ren"], ["assets+render"]),
        (["view", "x", "--grasps", "panda_gripper_"], ["panda_gripper_menagerie"]),
        (["export", "x", "--format", "p"], ["ply"]),
        (["hand", "check", "leap"], ["leap_right"]),
    ],
)
def test_bash_completes_commands_options_and_values(
    words: list[str], wanted: list[str], tmp_path: Path
) -> None:
    """By the script that `completion bash` prints, in a real shell."""
    script = pipeline("completion", "bash").stdout
    program = tmp_path / "grasp-clouds"
    program.write_text(f'#!/bin/sh\ncd {ROOT} && exec {sys.executable} -m pipeline "$@"\n')
    program.chmod(0o755)
    line = " ".join(shlex.quote(word) for word in ["grasp-clouds", *words])
    (tmp_path / "try.sh").write_text(
        f"{script}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words)}\n"
        '_grasp_clouds_completion grasp-clouds\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", str(tmp_path / "try.sh")], capture_output=True, text=True, env=env, timeout=60
    )
    assert done.stdout.split() == wanted, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str) -> None:
    done = pipeline("completion", shell)
    assert done.returncode == 0
    assert "grasp-clouds" in done.stdout


def test_ctrl_c_leaves_a_clean_state_and_says_how_to_go_on(config: Path, tmp_path: Path) -> None:
    """As a terminal sends it: to the program and all its workers at once."""
    target = tmp_path / "out"
    args = ("run", "render", "--config", config, "--out", target, "--set", "render.views=8",
            "--set", "scene.tabletop=30", "--block-size", "1", "--workers", "2")  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", *map(str, args)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    while process.poll() is None and not any((target / "blocks" / "scene").glob("*.json")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.strip().endswith(INTERRUPTED)
    assert "Traceback" not in errors
    assert not [p for p in target.rglob("*") if ".tmp" in p.name]
    assert not [p for p in target.rglob("*.npz") if not p.with_suffix(".json").exists()]
    assert pipeline("verify", target).returncode == 0
    again = pipeline(*args, "--dry-run").stdout
    assert re.search(r"scene +31 items: [1-9]\d* ok", again), again


WRONG = ["", "-1", "0", "nowhere", "..", "1e400", "🦆"]


@pytest.mark.parametrize("words", sorted(set(LEAVES) - {"doctor", "completion"}))
def test_no_wrong_argument_ends_in_a_traceback(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every option and argument of every command, with values that somebody will type."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("not what you think")
    (tmp_path / "folder").mkdir()
    command = LEAVES[words]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.is_flag:
            continue
        for wrong in [*WRONG, "file", "folder"]:
            arguments = words.split()
            for other in command.params:
                value = wrong if other is parameter else "file"
                if isinstance(other, click.Option):
                    if other is parameter or other.required:
                        choices = other.type.choices if isinstance(other.type, click.Choice) else ()
                        own = value if other is parameter or not choices else choices[0]
                        arguments += [other.opts[0], str(own)]
                elif other is parameter or other.required:
                    arguments.append(value)
            if words == "view":
                arguments += ["--save", "x.png"] if parameter.name != "target" else []
            result = CliRunner().invoke(main, arguments)
            assert result.exit_code in (1, 2), (arguments, result.output)
            assert isinstance(result.exception, SystemExit), (arguments, result.exception)
            assert result.output.strip(), arguments
