"""The report: in a real browser, with every alarm raised by the fault that it is for."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pipeline.cli import main
from pipeline.registry import Registry
from pipeline.report.after_run import REPORT, report_after_run
from pipeline.report.alarms import alarms
from pipeline.report.charts import histogram
from pipeline.report.drawn import Pictures
from pipeline.report.facts import Facts, StageWork, gather, spread
from pipeline.report.page import page
from stages.shard.read import PointCloudDataset
from stages.storage import output_path, write_bytes
from tests.browser import chromium
from tests.panda_dataset import panda_records
from tests.s3 import new_place, server


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    sound_records().write(folder)
    return folder


def sound_records():
    """Without the empty views and the constant column that other tests want."""
    records = panda_records(grasps=20)
    rng = np.random.default_rng(2)
    records.labels = [
        replace(x, hand_object_penetration=rng.random(len(x.success)) / 1000)
        for x in records.labels
    ]
    for name, clouds in records.clouds.items():
        records.clouds[name] = [c for c in clouds if c.view != 2]
    return records


def report(*arguments):
    return CliRunner().invoke(main, ["report", *map(str, arguments)], catch_exceptions=False)


def test_a_browser_shows_it_without_an_error_on_a_desk_and_on_a_phone(out):
    made = report(out)
    assert made.exit_code == 0, made.output
    assert "0 alarms" in made.output
    url = (out / "report.html").as_uri()
    with chromium() as tab:
        for width, mobile in ((1200, False), (390, True)):
            tab.size(width, 800, mobile=mobile)
            tab.open(url)
            assert tab.value("document.documentElement.scrollWidth") <= width
        assert tab.problems == []
        assert {u.split(":")[0] for u in tab.requests} == {"file", "data"}
        images = tab.value("[...document.images].map(i => [i.complete, i.naturalWidth, i.alt])")
        # four scenes, three crops before and after, and four of each verdict and protocol
        assert len(images) == 4 + 2 * 3 + 2 * 2 * 4
        assert all(complete and wide >= 200 and alt for complete, wide, alt in images)
        titles = tab.value("[...document.querySelectorAll('h2')].map(h => h.textContent)")
        assert titles[:3] == ["Alarms", "Outcomes and failures", "Scenes"]
        assert tab.value("document.querySelectorAll('.sound').length") == 1
        text = tab.value("document.body.innerText")
    clouds = [len(PointCloudDataset(out, split=s)) for s in ("train", "val")]
    assert re.search(rf"^{sum(clouds)}\s+clouds", text, re.MULTILINE)
    assert "of 60 grasps: panda_gripper, fc" in text.replace("\n", " ")


def changed(tmp_path, change):
    records = sound_records()
    change(records)
    records.write(tmp_path)
    return alarms(gather(tmp_path, Registry()))


def nobody_holds(records):
    records.labels = [
        replace(x, success=np.zeros_like(x.success), outcome=np.full(len(x.success), "no_contact"))
        for x in records.labels
    ]


def everybody_holds(records):
    records.labels = [replace(x, success=np.ones_like(x.success)) for x in records.labels]


def cameras_look_away(records):
    for name, clouds in records.clouds.items():
        records.clouds[name] = [
            replace(c, points=c.points[:0], segment=c.segment[:0], valid_count=0) for c in clouds
        ]


def one_camera(records):
    for name, clouds in records.clouds.items():
        records.clouds[name] = [replace(c, T_world_cam=clouds[0].T_world_cam) for c in clouds]


def nothing_moves(records):
    records.labels = [replace(x, translation=np.zeros_like(x.translation)) for x in records.labels]


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (nobody_holds, "success", "0.0% of 60 grasps of panda_gripper succeed under fc"),
        (everybody_holds, "success", "100.0% of 60 grasps of panda_gripper"),
        (cameras_look_away, "empty", "12 of 12 clouds are empty"),
        (one_camera, "cameras", "8 views repeat another camera"),
        (nothing_moves, "constant", "translation of panda_gripper under fc is the same in all 60"),
    ],
)
def test_each_fault_raises_its_alarm_and_no_other(tmp_path, change, kind, words):
    found = changed(tmp_path, change)
    assert {a.kind for a in found} == {kind}
    assert words in found[0].what
    assert all(a.do for a in found)


def test_sound_data_raise_none_and_a_mesh_in_millimetres_does(tmp_path):
    assert changed(tmp_path, lambda records: None) == []
    facts = gather(tmp_path, Registry())
    assert facts.extents["box_a"] == pytest.approx(0.04)
    facts.extents["box_a"] *= 1000
    [alarm] = alarms(facts)
    assert alarm.kind == "scale"
    assert "box_a is 40 m long" in alarm.what


def test_distances_and_cameras_are_those_of_the_dataset(out):
    facts = gather(out, Registry())
    rows = {(row.scene, row.view): row for row in facts.clouds}
    for split in ("train", "val"):
        for item in PointCloudDataset(out, split=split, min_points=0):
            row = rows.pop((item["scene_id"], item["view"]))
            eye = np.asarray(item["T_world_cam"])[:3, 3]
            middle = np.asarray(item["object_poses"])[:, :3].mean(axis=0)
            assert row.distance == pytest.approx(np.linalg.norm(eye - middle))
            assert row.points == len(item["points"])
    assert not rows


def test_bars_are_as_tall_as_the_counts():
    text = histogram("t", np.array([0.0, 0, 0, 10, np.nan, np.inf]), "m", bins=2)
    tall = [float(h) for h in re.findall(r'height="([\d.]+)" fill', text)]
    assert tall[0] == pytest.approx(3 * tall[1], rel=0.01)
    assert "4 values from 0 to 10 m" in text
    assert "nothing to show" in histogram("t", np.zeros(0))
    assert histogram("one", np.full(5, 2.0)).count("fill=") == 1


def test_names_and_messages_cannot_become_markup(tmp_path):
    evil = "<script>alert(1)</script>"
    work = StageWork(name="assets", examples={"bad_mesh": [(evil, evil)]})
    work.codes["bad_mesh"] = 1
    facts = Facts(out=tmp_path / "x", work=[work], notes=[evil], run_config={"a": evil})
    text = page(facts, [], Pictures(scenes=[("data:,", evil)], crops=[], grasps={}, notes=[]))
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 6


def test_spread_keeps_the_ends():
    assert spread(list(range(100)), 5) == [0, 24, 49, 74, 99]
    assert spread([1, 2], 5) == [1, 2]


def test_a_damaged_dataset_is_said_and_the_rest_is_shown(out, tmp_path):
    import shutil

    copy = tmp_path / "torn"
    shutil.copytree(out, copy, ignore=shutil.ignore_patterns("report.html"))
    marker = next((copy / "shards").glob("*-00000.zarr.commit.json"))
    marker.write_text("{}")
    made = report(copy)
    assert made.exit_code == 0, made.output
    text = (copy / "report.html").read_text()
    assert "the dataset cannot be read" in text
    assert "No cloud to draw" in text


def test_what_is_no_output_is_one_message(tmp_path: Path) -> None:
    made = report(tmp_path)
    assert made.exit_code == 2
    assert "holds neither blocks nor a dataset" in made.output


@pytest.mark.slow
def test_the_report_of_a_dataset_on_an_object_store_lies_beside_it(out, tmp_path, monkeypatch):
    """The same page as of the folder, and a picture of the same cloud."""
    monkeypatch.setenv("GRASP_CLOUDS_CACHE", str(tmp_path / "cache"))
    with server():
        place = output_path(new_place("demo"))
        for path in sorted(p for p in out.rglob("*") if p.is_file() and p.name != REPORT):
            write_bytes(place / path.relative_to(out).as_posix(), path.read_bytes())
        said: list[str] = []
        report_after_run(place, said.append)
        assert said == [f"report: {place / REPORT}, 0 alarms"]
        here = tmp_path / "here.html"
        assert report(out, "--to", here).exit_code == 0
        there = (place / REPORT).read_text(encoding="utf-8")
        body = '<h2 id="alarms">'  # above it stand the name of the output and notes with its place
        assert there.split(body)[1] == here.read_text().split(body)[1]
        target = tmp_path / "cloud.png"
        drawn = CliRunner().invoke(main, ["view", str(place), "--save", str(target)])
        assert drawn.exit_code == 0, drawn.output
        assert target.stat().st_size > 1000
