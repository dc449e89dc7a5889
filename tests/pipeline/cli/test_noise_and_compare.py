"""`pipeline noise fit` and `pipeline compare`, on frames that rays made and on real ones."""

import json
from pathlib import Path

import numpy as np
import pytest
import trimesh
import yaml

from pipeline.config import load_config
from pipeline.registry import Registry
from schemas.camera import Intrinsics
from schemas.frames import invert, look_at, matrix_to_pose
from stages.render.backends.embree import EmbreeBackend
from stages.render.retake import Retake
from stages.render.sensor_config import SensorConfig
from tests.program import pipeline
from tests.reference import REFERENCE

K = Intrinsics(fx=450.0, fy=450.0, cx=160.0, cy=120.0, width=320, height=240)
REAL = REFERENCE / "captures" / "6dof-graspnet"
OBJECTS = {"mustard": "006_mustard_bottle", "sugar": "004_sugar_box", "cheezit": "003_cracker_box"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """thing.obj, and frame.npz of it through a D435's noise."""
    folder = tmp_path_factory.mktemp("frames")
    thing = trimesh.util.concatenate(
        [trimesh.creation.box((0.08, 0.05, 0.12)),
         trimesh.creation.box((0.03, 0.04, 0.03), trimesh.transformations.translation_matrix(
             [0.05, 0.01, 0.04]))]
    )  # fmt: skip
    thing.export(folder / "thing.obj")
    T = invert(look_at([0.35, 0.25, 0.25], [0, 0, 0]))
    table = T.copy()
    table[:3, 3] -= 0.06 * T[:3, 2]
    made = Retake(EmbreeBackend(), K, (thing.vertices, thing.faces), T, matrix_to_pose(table))
    sensor = SensorConfig(preset="d435")
    mask = np.isfinite(made.depth(sensor, 4))
    depth = made.depth(sensor, 4, whole=True).astype(np.float32)
    np.savez(folder / "frame.npz", depth=depth, intrinsics=K.to_array(), mask=mask)
    np.savez(folder / "bare.npz", depth=depth, intrinsics=K.to_array())
    return folder


def test_a_fitted_file_is_a_config(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    done = pipeline(
        "noise", "fit", files / "frame.npz", "--object", files / "thing.obj", "--out", out
    )
    assert done.returncode == 0, done.stderr
    assert "thing registered, median distance 0." in done.stdout
    (tmp_path / "run.yaml").write_text("extends: mine.yaml\nrender: {views: 2}\n")
    render = load_config(tmp_path / "run.yaml", registry=Registry()).sections["render"]
    written = yaml.safe_load(out.read_text())["render"]["sensor"]
    assert render.sensor == SensorConfig(**written)
    assert render.sensor.disparity_noise == written["disparity_noise"]
    assert 0.03 < render.sensor.disparity_noise < 0.16
    assert render.sensor.baseline == 0.05  # of the preset
    assert render.camera.intrinsics == K
    assert render.views == 2


@pytest.mark.slow
def test_the_report_compares_a_dataset_with_a_frame(files: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(
        f"assets: {{objects: [{files / 'thing.obj'}], train_fraction: 1.0, val_fraction: 0.0}}\n"
        "scene: {floating: 1, tabletop: 1, clutter: 0}\n"
        "render: {views: 2, sensor: {preset: d435}}\n"
    )
    data, out = tmp_path / "data", tmp_path / "report"
    done = pipeline("run", "render+shard", "--config", config, "--out", data, timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    frame = (files / "frame.npz", "--object", files / "thing.obj", "--out", out)
    done = pipeline("compare", data, *frame)
    assert done.returncode == 0, done.stderr
    assert "; closer" in done.stdout
    values = json.loads((out / "report.json").read_text())
    [row] = values["captures"]
    assert values["sensor"] == "d435"
    assert row["kinds"] == ["real", "no noise", "sensor", "dataset"]
    assert row["dataset"]["clouds"] == 4
    for kind in ("sensor", "dataset"):
        assert row[kind]["energy"]["distance"] < 0.3 * row["no noise"]["energy"]["distance"]
    assert row["dataset"]["missing"] < 0.4
    assert (out / "report.png").read_bytes().startswith(b"\x89PNG")
    text = (out / "report.md").read_text()
    assert "| frame | dataset |" in text
    assert str(tmp_path) not in text


def test_wrong_input_is_explained(files: Path, tmp_path: Path) -> None:
    frame, thing, out = files / "frame.npz", files / "thing.obj", tmp_path / "o.yaml"
    (tmp_path / "junk.npz").write_bytes(b"junk")
    np.savez(tmp_path / "half.npz", depth=np.ones((4, 4)))
    said = {
        ("noise", "fit", frame): "give either --plane or --object",
        ("noise", "fit", frame, "--plane", "--base", "d999"): "choose from d415, d435",
        ("noise", "fit", tmp_path / "no.npz", "--plane"): "no such file",
        ("noise", "fit", tmp_path / "junk.npz", "--plane"): "cannot be read",
        ("noise", "fit", tmp_path / "half.npz", "--plane"): "lacks intrinsics",
        ("noise", "fit", files / "bare.npz", "--object", thing): "holds no mask",
        ("noise", "fit", frame, "--object", "ycb://nothing"): "ycb://nothing",
        ("compare", tmp_path / "nowhere", frame, "--object", thing): "complete dataset",
        ("compare", "configs/demo.yaml", frame, frame, frame, "--object", thing, "--object",
         thing): "one for all captures or one each (3), got 2",
    }  # fmt: skip
    for command, message in said.items():
        done = pipeline(*command, "--out", out)
        assert done.returncode == 2, (command, done.stdout, done.stderr)
        assert message in done.stderr, (command, done.stderr)
        assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason="no captures of a real camera on this machine")
def test_the_demo_is_closer_to_real_frames_than_no_noise(tmp_path: Path) -> None:
    frames = [REAL / f"{name}.npy" for name in OBJECTS]
    what = [word for name in OBJECTS.values() for word in ("--object", f"ycb://{name}")]
    done = pipeline("compare", "configs/demo.yaml", *frames, *what, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["sensor"] == "d435"
    for row in report["captures"]:
        assert row["registration_median_mm"] < 0.8  # 0.5 to 0.7 by the captures' own notes
        near, far = row["sensor"]["energy"], row["no noise"]["energy"]
        assert near["distance"] < 0.1 * far["distance"]
        assert far["p"] < 0.01
