"""The commands as a user meets them: real programs, real exit codes."""

import os
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from pipeline.cli import COMMANDS
from tests.program import ROOT, pipeline

HEAVY = [
    "torch",
    "sapien",
    "mani_skill",
    "mujoco",
    "open3d",
    "trimesh",
    "zarr",
    "dask",
    "distributed",
    "tensorstore",
    "embreex",
    "coacd",
    "scipy",
    "pyarrow",
    "tqdm",
]
CUBE = """\
v 0 0 0\nv 0.05 0 0\nv 0.05 0.05 0\nv 0 0.05 0\nv 0 0 0.05\nv 0.05 0 0.05\nv 0.05 0.05 0.05\n\
v 0 0.05 0.05\nf 1 3 2\nf 1 4 3\nf 5 6 7\nf 5 7 8\nf 1 2 6\nf 1 6 5\nf 2 3 7\nf 2 7 6\nf 3 4 8\n\
f 3 8 7\nf 4 1 5\nf 4 5 8\n"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Two scenes of one cube of 5 cm."""
    (tmp_path / "cube.obj").write_text(CUBE)
    path = tmp_path / "cube.yaml"
    path.write_text(
        "assets: {objects: [cube.obj], train_fraction: 1.0, val_fraction: 0.0}\n"
        "scene: {floating: 1, tabletop: 1, clutter: 0}\n"
        "render: {views: 2}\n"
    )
    return path


def children_s() -> float:
    """Processor time of the processes that this one has waited for, s."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_is_fast_and_lists_every_command() -> None:
    times: list[float] = []
    for _ in range(3):
        start = children_s()
        done = pipeline("--help")
        times.append(children_s() - start)
        assert done.returncode == 0
    assert min(times) < 0.5  # of a processor: other programs may be using this machine
    for name, line in COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert line[:30] in done.stdout


def test_every_command_exists() -> None:
    for name in COMMANDS:
        module = name.replace("-", "_")
        assert getattr(import_module(f"pipeline.cli.{module}"), module).name == name


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_a_command_loads_no_heavy_library(name: str) -> None:
    program = (
        "import sys\nfrom pipeline.cli import main\n"
        f"try: main(['{name}', '--help'])\nexcept SystemExit: pass\n"
        f"print('LOADED', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "LOADED []" in done.stdout


def test_planning_loads_no_heavy_library(config: Path) -> None:
    program = (
        "import sys\nfrom pipeline.cli import main\n"
        f"try: main(['plan', '--config', {str(config)!r}, '--out', {str(config.parent / 'o')!r}])\n"
        "except SystemExit: pass\n"
        f"print('LOADED', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "LOADED []" in done.stdout, done.stdout


def test_a_run_repeats_nothing_and_says_so(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = ("run", "render", "--config", config, "--out", out)
    dry = pipeline(*args, "--dry-run")
    assert dry.returncode == 0
    assert "render        4 items: 4 to do (new)" in dry.stdout
    assert not out.exists()

    done = pipeline(*args, "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert "Try:" in done.stdout
    assert "render        4       0      4" in done.stdout
    page = out / "report.html"
    assert f"report: {page}" in done.stdout
    written = page.stat().st_mtime_ns
    assert page.read_text().count("<img") == 2  # one view of each scene, from the blocks alone

    again = pipeline(*args)
    assert again.returncode == 0
    assert "Nothing to do" in again.stdout
    assert page.stat().st_mtime_ns == written

    changed = pipeline(*args, "--dry-run", "--set", "render.camera.roll_jitter=1")
    assert "4 to do (config changed)" in changed.stdout
    assert "scene         2 items: 2 ok" in changed.stdout
    moved = pipeline(*args, "--dry-run", "--set", "scene.max_time=5")
    assert "2 to do (config changed)" in moved.stdout
    assert "4 to do (input changed)" in moved.stdout
    more = pipeline("plan", "render", "--config", config, "--out", out, "--set", "scene.floating=2")
    assert "scene         3 items: 2 ok, 1 to do (new)" in more.stdout

    assert "render        4 outcomes: ok 4" in pipeline("status", out).stdout
    sound = pipeline("verify", out)
    assert sound.returncode == 0
    assert "all sound" in sound.stdout
    victim = next((out / "blocks" / "render").glob("*.npz"))
    victim.write_bytes(victim.read_bytes()[:-5])
    torn = pipeline("verify", out)
    assert torn.returncode == 1
    assert victim.stem in torn.stderr


def test_a_mesh_in_millimetres_spends_the_budget_with_its_reason(
    config: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = pipeline("run", "render", "--config", config, "--out", out, "--set", "assets.scale=1000")
    assert done.returncode == 3
    assert "the failure budget is spent" in done.stderr
    listed = pipeline("status", out, "--failures")
    assert "cube" in listed.stdout
    assert "50" in listed.stdout  # metres: what it would be
    allowed = pipeline(
        *("run", "render", "--config", config, "--out", out, "--set", "assets.scale=1000"),
        *("--max-failure-fraction", "1"),
    )
    assert allowed.returncode == 0
    assert "upstream_failed 4" in allowed.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", "rendr"], "did you mean render?"),
        (["run", "--config", "nowhere.yaml"], "no such file"),
        (["run", "--set", "scene.cluter=1"], "scene.cluter: unknown key; did you mean clutter?"),
        (["run", "--set", "assets.objects=[]"], "expected at least one entry"),
        (["run", "--set", "assets.objects=['ycb://nothing']"], "ycb://nothing"),
        (["run", "--set", "assets.objects=['no/such.obj']"], "no/such.obj"),
        (["run", "--workers", "-1"], "workers: expected 0 or more, got -1"),
        (["run", "--block-size", "0"], "block_size: expected at least 1"),
        (["run", "--nonsense"], "No such option"),
        (["nonsense"], "No such command"),
        (["status", "nowhere"], "holds no blocks"),
        (["verify", "nowhere"], "no such folder"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(
    args: list[str], message: str, tmp_path: Path
) -> None:
    out = ["--out", str(tmp_path / "out")] if args[0] == "run" else []
    done = pipeline(*args, *out)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_report_that_cannot_be_written_fails_no_run(config: Path, tmp_path: Path) -> None:
    args = ("run", "scene", "--config", config, "--out", tmp_path / "out", "--workers", "0")
    quiet = pipeline(*args, "--no-report")
    assert quiet.returncode == 0, quiet.stderr
    assert not (tmp_path / "out" / "report.html").exists()
    (tmp_path / "out" / "report.html").mkdir()
    done = pipeline(*args, "--set", "scene.floating=2")
    assert done.returncode == 0, done.stderr
    assert "warning: no report" in done.stdout
    assert "scene         3       2      1" in done.stdout


def test_a_file_in_the_place_of_the_output(config: Path, tmp_path: Path) -> None:
    args = ("run", "assets", "--config", config)
    (tmp_path / "file").write_text("here is a file")
    done = pipeline(*args, "--out", tmp_path / "file")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr


def test_the_environment_of_a_run_has_one_thread() -> None:
    program = (
        "import os\nfrom pipeline.cli import one_thread\none_thread()\n"
        "print(os.environ['OMP_NUM_THREADS'])"
    )
    env = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.stdout.strip() == "1"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--out", "s3://bucket"], "expected a folder in the bucket, s3://bucket/NAME"),
        (["--scheduler", "tcp://a:1", "--cluster", "local"], "give one of them, not both"),
        (["--host", "a"], "belong to --cluster"),
        (["--cluster", "slurm", "--cluster-option", "queue"], "expected KEY=VALUE"),
    ],
)
def test_where_a_run_cannot_go_is_said_at_once(args: list[str], message: str) -> None:
    done = pipeline("run", "assets", *args)
    assert done.returncode == 2
    assert message in done.stderr
