"""`crop` on files as a robot has them; `doctor` on this machine and on a poor one."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.doctor import Check, examine, try_program
from pipeline.vulkan import DRAWS, DRIVERS, SCRIPT, advice, old_mesa
from schemas.distortion import Distortion
from stages.crop import CropSpec, crop_depth
from stages.crop.files import parse_intrinsics
from tests.program import ROOT, pipeline
from tests.vulkan import need_vulkan

SPEC = CropSpec(extract_segments=("object:*",), sampling="random", num_points=50)


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    """A folder with a depth image in millimetres, a segment image and the crop of a dataset."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "depth.npy", rng.integers(300, 900, (24, 32)).astype(np.uint16))
    np.save(tmp_path / "segment.npy", rng.integers(0, 4, (24, 32)).astype(np.uint8))
    (tmp_path / "crop.json").write_text(json.dumps(SPEC.to_dict()))
    return tmp_path


def test_the_command_gives_the_bits_of_the_function(robot: Path) -> None:
    import trimesh

    done = pipeline(
        "crop", robot / "depth.npy", "--intrinsics", "40,40,16,12", "--crop-spec",
        robot / "crop.json", "--segment", robot / "segment.npy", "--seed", 5,
        "--expect-digest", SPEC.digest(), "--out", robot / "cloud.ply",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    depth = np.load(robot / "depth.npy").astype(np.float32) * np.float32(0.001)
    expected = crop_depth(
        depth, parse_intrinsics("40,40,16,12", depth.shape), SPEC, seed=5,
        segment=np.load(robot / "segment.npy"),
        segment_table={"background": 0, "table": 1, "object:0": 2, "object:1": 3},
    )  # fmt: skip
    read = np.asarray(trimesh.load(robot / "cloud.ply").vertices, np.float32)
    assert np.array_equal(read, expected.points)
    assert f"50 points in the camera frame, of {expected.valid_count} that" in done.stdout


def test_a_lens_with_distortion_comes_in_a_file(robot: Path) -> None:
    import trimesh

    lens = {"model": "brown_conrady", "k1": -0.2, "k2": 0.03, "p1": 0.001}
    numbers = {"fx": 40, "fy": 40, "cx": 16, "cy": 12, "width": 32, "height": 24}
    spec = CropSpec(extract_segments=())
    (robot / "crop.json").write_text(json.dumps(spec.to_dict()))
    clouds = []
    for name, distortion in (("ideal", {}), ("lens", {"distortion": lens})):
        (robot / f"{name}.json").write_text(json.dumps(numbers | distortion))
        done = pipeline(
            "crop", robot / "depth.npy", "--intrinsics", robot / f"{name}.json", "--crop-spec",
            robot / "crop.json", "--out", robot / f"{name}.ply",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        clouds.append(np.asarray(trimesh.load(robot / f"{name}.ply").vertices))
    ideal, bent = clouds
    K = parse_intrinsics(str(robot / "lens.json"), (24, 32))
    assert K.distortion.k1 == -0.2
    np.testing.assert_allclose(
        K.project(bent), replace(K, distortion=Distortion()).project(ideal), atol=1e-4
    )
    (robot / "lens.json").write_text(json.dumps(numbers | {"distortion": {"model": "fisheye"}}))
    done = pipeline(
        "crop", robot / "depth.npy", "--intrinsics", robot / "lens.json", "--crop-spec",
        robot / "crop.json", "--out", robot / "x.ply",
    )  # fmt: skip
    assert done.returncode == 2
    assert "unknown 'fisheye'; choose from none, brown_conrady, kannala_brandt" in done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--expect-digest": "0" * 64}, "do not match the training clouds"),
        ({"--intrinsics": "40,40,16,12,64,48"}, "as the intrinsics say"),
        ({"--intrinsics": "40,40,1,12"}, "K of another image size"),
        ({"--segment": None}, "no segment table (name -> id) came with the image"),
        ({"--segments": "cup=2"}, "'object:*' matches none of this scene's segments: cup"),
        ({"--segments": "cup"}, "expected name=id"),
        ({"--crop-spec": None}, "give --dataset OUT or --crop-spec FILE"),
        ({"--crop-spec": "depth.npy"}, "cannot be read as JSON"),
        ({"--depth-scale": "1"}, "If the image is in millimetres"),
        ({"--pose": "segment.npy"}, "expected a 4x4 matrix"),
        ({"--dataset": "nowhere"}, "cannot be read as JSON"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(
    robot: Path, change: dict[str, str | None], message: str
) -> None:
    options: dict[str, str | None] = {
        "--intrinsics": "40,40,16,12",
        "--crop-spec": "crop.json",
        "--segment": "segment.npy",
        "--out": "cloud.ply",
    } | change
    paths = {"--crop-spec", "--segment", "--out", "--pose"}
    args: list[object] = ["crop", robot / "depth.npy"]
    for name, value in options.items():
        if value is not None:
            args += [name, robot / value if name in paths else value]
    done = pipeline(*args)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (robot / "cloud.ply").exists()


def test_the_command_needs_numpy_and_click_alone(robot: Path) -> None:
    program = (
        "import sys\nfrom pipeline.cli import main\n"
        f"args = ['crop', {str(robot / 'depth.npy')!r}, '--intrinsics', '40,40,16,12', "
        f"'--crop-spec', {str(robot / 'crop.json')!r}, '--segment', "
        f"{str(robot / 'segment.npy')!r}, '--out', {str(robot / 'c.ply')!r}]\n"
        "try: main(args)\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'zarr', 'scipy', 'trimesh', 'mujoco', 'pyarrow', 'PIL', 'yaml'}\n"
        "print('LOADED', sorted(heavy & {m.partition('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "LOADED []" in done.stdout, done.stdout
    assert (robot / "c.ply").exists()


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    return {check.name: check for check in examine(tmp_path_factory.mktemp("out") / "not" / "yet")}


def test_doctor_finds_what_the_tests_run_on(checks: dict[str, Check]) -> None:
    for name in ("python", "numpy", "mujoco", "embreex", "trimesh", "coacd", "tensorstore", "disk"):
        assert checks[name].state == "ok", checks[name]
    import mujoco

    assert checks["mujoco"].detail == mujoco.__version__
    assert checks["ycb meshes"].detail == "78 scans"
    assert checks["hand panda_gripper"].state == "ok"
    for check in checks.values():
        assert check.state == "ok" or check.fix, f"{check.name} lacks a fix"


REFUSAL = 'RuntimeError: Failed to find a supported physical device "cpu"'


@pytest.mark.parametrize(
    ("drivers", "icd", "says", "fix"),
    [
        # what Debian 12's own driver and its backport say of themselves
        ("llvmpipe (LLVM 15.0.6, 256 bits), Mesa 22.3.6 (LLVM 15.0.6)", None,
         "refuses Mesa 22.3", SCRIPT),
        ("llvmpipe (LLVM 15.0.6, 256 bits), Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)", None,
         "Vulkan itself has llvmpipe", SCRIPT),
        ("", "", "VK_ICD_FILENAMES is empty", "unset VK_ICD_FILENAMES"),
        ("", "/not/there.json", "VK_ICD_FILENAMES is '/not/there.json'", "unset VK_ICD_FILENAMES"),
        ("", None, "physical device", f"the GPU's driver, or without one: {SCRIPT}"),
    ],
)  # fmt: skip
def test_doctor_names_the_wrong_mesa_and_its_fix(
    drivers: str, icd: str | None, says: str, fix: str
) -> None:
    what, how = advice(drivers, REFUSAL, icd)
    assert says in what
    assert how == fix
    assert (ROOT / SCRIPT.removeprefix("bash ")).is_file()


def test_doctor_asks_vulkan_and_sapien_themselves(checks: dict[str, Check]) -> None:
    need_vulkan()
    assert checks["vulkan"].state == "ok"
    assert checks["vulkan"].detail.startswith("SAPIEN draws on ")
    drivers, problem = try_program(DRIVERS)
    assert not problem
    assert old_mesa(drivers) == ""
    blind = "import os; os.environ['VK_ICD_FILENAMES'] = ''\n"
    assert try_program(blind + DRAWS)[1]
    assert try_program(blind + DRIVERS)[1]


def test_doctor_says_what_cannot_be_imported() -> None:
    """A library that ends the process is told like one that raises."""
    assert try_program("print(6 * 7)") == ("42", "")
    assert try_program("import not_there")[1] == "ModuleNotFoundError: No module named 'not_there'"
    assert try_program("import os; os._exit(7)")[1] == "ended with exit code 7"


def test_doctor_on_a_machine_without_packages(tmp_path: Path) -> None:
    """numpy and click alone, as on a robot: everything else is missing, with its fix."""
    import click

    for module in (np, click):
        folder = Path(str(module.__file__)).parent
        (tmp_path / folder.name).symlink_to(folder)
        libs = folder.parent / f"{folder.name}.libs"
        if libs.is_dir():
            (tmp_path / libs.name).symlink_to(libs)
    program = f"import sys\nsys.path[:0] = [{str(ROOT)!r}, {str(tmp_path)!r}]\n" + (
        "from pipeline.cli import main\nmain(['doctor'])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert "MISSING   mujoco" in done.stdout
    assert "pip install 'grasp-clouds[generate]'" in done.stdout
    assert "The pipeline cannot run here" in done.stderr
