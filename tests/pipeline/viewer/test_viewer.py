"""Leafing through a dataset: the album itself, a real window and a real browser."""

import re
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from pipeline.cli import main
from pipeline.config import build_config
from pipeline.errors import CannotDrawError
from pipeline.hand_files import find_hand
from pipeline.pictures.cloud import load_surface
from pipeline.pictures.points import Paint
from pipeline.registry import Registry
from pipeline.saved import save_config
from pipeline.viewer.album import frustum, open_album
from pipeline.viewer.film import turntable
from pipeline.viewer.replay import replay
from schemas.camera import Intrinsics
from schemas.frames import invert, look_at, transform_points
from stages.assets.hands.load import HANDS_DIR, hand_digest, load_hand
from stages.shard.clouds import CloudTable
from stages.shard.grasps import GraspTable
from tests.browser import chromium
from tests.panda_dataset import panda_records
from tests.program import ROOT


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewer")
    panda_records().write(folder)
    return folder


def places(album):
    return album.scene, album.table.index.key(album.clouds[album.place][1])[1]


def test_leafing_goes_through_every_cloud_and_comes_back(out):
    album = open_album(out)
    start, seen = places(album), []
    for _ in album.clouds:
        album.move_view(1)
        seen.append(places(album))
    assert len(set(seen)) == len(album.clouds) == 16
    assert places(album) == start
    album.move_view(-1)
    assert places(album) == ("tabletop-00003", 3)
    scenes = []
    for _ in range(4):
        album.move_scene(1)
        scenes.append(places(album))
    assert scenes == [(f"tabletop-{i:05d}", 0) for i in range(4)]
    album.move_scene(-1)
    assert places(album) == ("tabletop-00002", 0)
    album.move_scene(-1)
    assert places(album) == ("tabletop-00001", 0)


def test_it_opens_where_it_is_told_and_shows_the_grasps_of_that_scene(out):
    album = open_album(out, scene="tabletop-00002", view=1, hand="panda_gripper", protocol="fc")
    shown = album.shown()
    assert shown.title.startswith("tabletop-00002 view 1 (train)")
    assert "(1 of 14), fc: " in shown.title  # two objects of seven grasps
    assert len(shown.cameras) == 4
    cloud = album.cloud()
    assert np.array_equal(shown.cameras[0][0], cloud["T_world_cam"])
    assert np.array_equal(shown.cloud.points, cloud["points"])
    first = np.concatenate([v for v, _ in shown.hand])
    album.move_pose()
    squeezed = np.concatenate([v for v, _ in album.shown().hand])
    assert not np.allclose(first, squeezed)
    for _ in range(14):
        album.move_grasp(1)
    assert album.grasp == 0
    album.move_grasp(-1)
    assert "(14 of 14)" in album.shown().title


def test_the_corners_of_a_frustum_are_those_of_the_image():
    K = Intrinsics(fx=300, fy=310, cx=150, cy=130, width=320, height=240)
    T = look_at(np.array([0.3, -0.5, 0.8]), np.zeros(3))
    points, edges = frustum(T, K)
    assert np.allclose(points[0], T[:3, 3])
    seen = transform_points(invert(T), points[1:])
    pixels = seen[:, :2] / seen[:, 2:] * [K.fx, K.fy] + [K.cx, K.cy]
    assert np.allclose(pixels, [[0, 0], [320, 0], [320, 240], [0, 240]])
    assert np.ptp(seen[:, 2]) < 1e-12
    assert sorted(np.bincount(edges.ravel()).tolist()) == [3, 3, 3, 3, 4]


def test_a_turntable_turns_and_ends_where_it_began():
    """Of a bar along x the picture is wide from y and narrow from x, twice a turn."""
    x = np.linspace(-0.1, 0.1, 400)
    bar = Paint(points=np.column_stack([x, 0 * x, 0 * x]), colours=np.full((400, 3), 80, np.uint8))
    images = turntable(bar, "", frames=8)
    wide = [np.ptp(np.nonzero((i[60:] != 255).any(axis=(0, 2)))[0]) for i in images]
    assert np.argsort(wide)[:2].tolist() in ([0, 4], [4, 0])
    assert min(wide[2], wide[6]) == max(wide) > 10 * min(wide)
    assert all(i.shape == images[0].shape for i in images)


@pytest.mark.parametrize(("name", "frames"), [("turn.gif", 48), ("turn.mp4", 48)])
def test_a_film_is_saved_by_its_suffix(out, tmp_path, name, frames):
    target = tmp_path / name
    done = CliRunner().invoke(main, ["view", str(out), "--save", str(target)])
    assert done.exit_code == 0, done.output
    assert f"{frames} frames" in done.output
    if name.endswith(".gif"):
        with Image.open(target) as film:
            assert film.n_frames == frames
    else:
        import imageio_ffmpeg

        assert imageio_ffmpeg.count_frames_and_secs(str(target)) == (frames, 3.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rollout", "panda_gripper"], "say where with --save"),
        (["--rollout", "claw", "--save", "x.gif"], "choose one of: panda_gripper"),
        (["--rollout", "panda_gripper", "--grasp", "mug", "--save", "x.gif"], "expected OBJECT:N"),
        (["--rollout", "panda_gripper", "--grasp", "mug:0", "--save", "x.gif"], "box_a"),
        (["--rollout", "panda_gripper", "--grasp", "box_a:99", "--save", "x.gif"], "0, 1, 2"),
        (["--rollout", "panda_gripper", "--save", "x.gif"], "dataset.json does not have"),
        (["--web", "--grasps", "claw"], "choose one of: panda_gripper"),
    ],
)
def test_what_cannot_be_shown_is_said(out, tmp_path, monkeypatch, options, message):
    done = CliRunner().invoke(main, ["view", str(out), *options])
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ({}, "labels under fc carry protocol hash h1, the numbers in dataset.json give "),
        ({"fc": {"hold": 1}}, r"label.fc.hold: unknown key"),
    ],
)
def test_numbers_that_are_not_those_of_the_labels_replay_nothing(tmp_path, label, message):
    records = panda_records()
    records.write(tmp_path, manifest={"config": {"label": label}, "crop": {}, "crop_digest": "d"})
    with pytest.raises(CannotDrawError, match=message):
        replay(tmp_path, "panda_gripper", "fc", "box_a", 0)


def test_the_hand_of_a_dataset_is_found_by_its_digest(out, tmp_path):
    """In configs/hands, or where the last run had it; never another of the same name."""
    records, folder = panda_records(), tmp_path / "set"
    text = (HANDS_DIR / "panda_gripper.yaml").read_text()
    assert "\nkp:" in text
    own = tmp_path / "mine.yaml"
    own.write_text(text.replace("\nkp:", "\nkp: [1234, 1234] #"))
    for source in ("panda_gripper", str(own)):
        digest = hand_digest(load_hand(source))
        records.grasps = [replace(g, hand_digest=digest) for g in records.grasps]
        records.write(folder)
        table = GraspTable(folder, "train", "panda_gripper")
        (folder / "run.json").unlink(missing_ok=True)
        assert find_hand(table) == ("panda_gripper" if source != str(own) else None)
        values = {"grasp": {"hands": [str(own), "shadow_right"]}}
        save_config(folder, build_config(values, registry=Registry()))
        assert find_hand(table) == source
        assert load_surface(table).same


def test_a_window_opens_and_its_keys_turn_the_pages(out, tmp_path):
    """With a virtual screen and Mesa's software OpenGL, in a process of its own."""
    if shutil.which("xvfb-run") is None:
        pytest.skip("no xvfb-run on this machine; apt-get install xvfb xauth libgl1-mesa-dri")
    program = (
        "import sys, numpy as np\nfrom pathlib import Path\n"
        "from pipeline.viewer.album import open_album\n"
        "from pipeline.viewer.window import KEYS, Window\n"
        "album = open_album(Path(sys.argv[1]), hand='panda_gripper', protocol='fc')\n"
        "window = Window(album, print)\nwindow.start()\n"
        "pictures = [window.picture()]\n"
        "for letter, _ in KEYS:\n"
        "    if letter != 'Q':\n"
        "        window.key(letter)\n        pictures.append(window.picture())\n"
        "window.close()\nnp.save(sys.argv[2], np.stack(pictures))\n"
    )
    target = tmp_path / "pictures.npy"
    command = [
        *("xvfb-run", "-a", "-s", "-screen 0 1280x1024x24"),
        *(sys.executable, "-c", program, str(out), str(target)),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "keys: S next scene" in done.stdout
    assert "(2 of 7), fc: " in done.stdout
    # R: a dataset without its numbers has no rollout, and says so
    assert "dataset.json does not have" in done.stdout
    pictures = np.load(target)
    drawn = (pictures[0] != 255).any(axis=2)
    assert 500 < drawn.sum() < drawn.size / 2
    changed = [bool((a != b).any()) for a, b in pairwise(pictures)]
    assert changed[:7] == [True] * 7  # S A V B G F P
    assert not changed[7]  # R


def test_open3d_reads_what_export_writes(out, tmp_path):
    """The points of the dataset, bit for bit, with open3d's own reader."""
    done = CliRunner().invoke(
        main, ["export", str(out), "--format", "ply", "--to", str(tmp_path / "clouds")]
    )
    assert done.exit_code == 0, done.output
    files = sorted((tmp_path / "clouds" / "train").glob("*.ply"))
    program = (
        "import sys, numpy as np, open3d\n"
        "clouds = [np.asarray(open3d.io.read_point_cloud(f).points) for f in sys.argv[2:]]\n"
        "np.savez(sys.argv[1], *clouds)\n"
    )
    target = tmp_path / "read.npz"
    done = subprocess.run(
        [sys.executable, "-c", program, str(target), *map(str, files)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = CloudTable(out=out, split="train")
    with np.load(target) as read:
        theirs = [read[f"arr_{i}"] for i in range(len(files))]
    ours = [cloud["points"] for cloud in table.read(0, len(table))]
    assert len(theirs) == len(ours) == 12
    assert all(np.array_equal(a, b) for a, b in zip(theirs, ours, strict=True))


def first_line(process: "subprocess.Popen[str]", timeout_s: float = 120) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], timeout_s)
    assert ready, "the server said nothing"
    return process.stdout.readline()


def test_a_browser_leafs_through_the_web_page(out, tmp_path):
    command = [
        *(sys.executable, "-m", "pipeline", "view", str(out), "--web", "--port", "18090"),
        *("--scene", "tabletop-00002", "--view", "0", "--grasps", "panda_gripper"),
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        line = first_line(process)
        found = re.match(r"(http://127\.0\.0\.1:\d+): ", line)
        assert found, line
        url = found[1]
        with chromium() as tab:
            tab.size(1000, 700)
            tab.open(url)
            tab.wait(f"document.body.innerText.includes({'tabletop-00002 view 0'!r})")
            # of the second object, for the hand covers much of the first
            end = time.monotonic() + 120
            while coloured(tab.picture(), tmp_path) < 20:
                assert time.monotonic() < end, "no point of the cloud was drawn"
            for button, words in (("Next view", "view 1"), ("Next grasp", "(2 of 14)"),
                                  ("Next scene", "tabletop-00003 view 0")):  # fmt: skip
                tab.value(
                    "[...document.querySelectorAll('button')]"
                    f".find(b => b.innerText === {button!r}).click()"
                )
                tab.wait(f"document.body.innerText.includes({words!r})")
            assert tab.problems == []
            others = [u for u in tab.requests if not u.startswith((url, "data:", f"blob:{url}"))]
            assert others == []
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def coloured(png: bytes, folder: Path) -> int:
    """Pixels of the second object's colour."""
    (folder / "tab.png").write_bytes(png)
    with Image.open(folder / "tab.png") as opened:
        image = np.asarray(opened.convert("RGB")).astype(int)
    return int((np.abs(image - [86, 180, 233]).max(axis=2) < 30).sum())


def test_without_a_screen_the_message_names_the_other_ways(out, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(main, ["view", str(out)])
    assert done.exit_code == 2
    assert "--web" in done.output
    assert "--save" in done.output
