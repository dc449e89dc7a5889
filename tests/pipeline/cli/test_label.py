"""`pipeline label`: published files in, one row a grasp out, and on again after a kill."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pipeline.cli import main
from stages.assets.hands.load import load_hand
from stages.grasp.formats import ImportedGrasps, write_grasps
from tests.solids import jaw_grasps, jaw_row

BOX = (
    "v -.03 -.02 -.03\nv .03 -.02 -.03\nv .03 .02 -.03\nv -.03 .02 -.03\n"
    "v -.03 -.02 .03\nv .03 -.02 .03\nv .03 .02 .03\nv -.03 .02 .03\n"
    "f 1 3 2\nf 1 4 3\nf 5 6 7\nf 5 7 8\nf 1 2 6\nf 1 6 5\nf 2 3 7\nf 2 7 6\nf 3 4 8\nf 3 8 7\n"
    "f 4 1 5\nf 4 5 8\n"
)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A folder of five GraspGen files of a box, each of four grasps: sound, sound, off, far."""
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "box.obj").write_text(BOX)
    (tmp_path / "grasps").mkdir()
    hand = load_hand("panda_gripper")
    for i in range(5):
        grasps = jaw_grasps([jaw_row(0.03), jaw_row(0.035), jaw_row(0.075), jaw_row(0.3)])
        for qpos in (grasps.pregrasp_qpos, grasps.grasp_qpos, grasps.squeeze_qpos):
            qpos[:, 0] += 0.001 * i
            qpos[:, 7:] = hand.open_qpos if qpos is not grasps.squeeze_qpos else hand.closed_qpos
        sets = ImportedGrasps(
            grasps=grasps, scale=1.0, object_file="box.obj",
            success=np.array([True, True, False, False]),
        )  # fmt: skip
        write_grasps(tmp_path / "grasps" / f"{i}.json", "graspgen", [sets], hand)
    return tmp_path


def rows_of(path: Path) -> str:
    """All rows as text, in which NaN equals NaN."""
    return repr(pq.read_table(path).to_pylist())


def arguments(folder: Path, out: str, *more: str) -> list[str]:
    return [
        "label", str(folder / "grasps"), "--format", "graspgen", "--hand", "panda_gripper",
        "--objects", str(folder / "objects"), "--out", str(folder / out), *more,
    ]  # fmt: skip


def test_one_row_a_grasp_with_its_file_and_both_verdicts(published: Path) -> None:
    result = CliRunner().invoke(main, arguments(published, "one.parquet", "--workers", "1"))
    assert result.exit_code == 0, result.output
    assert "agrees with the published success on 20 of 20" in result.output
    rows = pq.read_table(published / "one.parquet").to_pylist()
    assert [(r["file"], r["row"]) for r in rows] == [
        (f"{i}.json", k) for i in range(5) for k in range(4)
    ]
    assert [r["success"] for r in rows] == [r["published_success"] for r in rows]
    assert {r["outcome"] for r in rows} == {"ok", "no_contact"}
    assert {r["object_id"] for r in rows} == {"box"}
    assert {r["protocol"] for r in rows} == {"fc"}
    again = CliRunner().invoke(main, arguments(published, "two.parquet", "--workers", "2"))
    assert again.exit_code == 0, again.output
    assert rows_of(published / "two.parquet") == rows_of(published / "one.parquet")


def test_killed_it_goes_on_where_it_was(published: Path) -> None:
    for i in range(1, 5):  # five objects, so that there are parts to keep
        name = f"box{i}"
        (published / "objects" / f"{name}.obj").write_text(BOX)
        path = published / "grasps" / f"{i}.json"
        path.write_text(path.read_text().replace("box.obj", f"{name}.obj"))
    whole = CliRunner().invoke(main, arguments(published, "whole.parquet"))
    assert whole.exit_code == 0, whole.output
    script = (
        "import sys, time, pipeline.scoring as s; s.BATCH = 1; from pipeline.cli import main\n"
        "if __name__ == '__main__': main(sys.argv[1:])"
    )
    program = published / "run.py"
    program.write_text(script)
    command = [sys.executable, str(program), *arguments(published, "out.parquet", "--workers", "0")]
    parts = published / "out.parquet.parts"
    with subprocess.Popen(command) as process:
        deadline = time.monotonic() + 120
        while len(list(parts.glob("*.npz"))) < 2 and time.monotonic() < deadline:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = list(parts.glob("*.npz"))
    assert 2 <= len(kept) < 5
    assert not (published / "out.parquet").exists()
    result = CliRunner().invoke(main, arguments(published, "out.parquet"))
    assert result.exit_code == 0, result.output
    assert not parts.exists()
    assert rows_of(published / "out.parquet") == rows_of(published / "whole.parquet")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a[:1] + ["nowhere"] + a[2:], "nowhere does not exist"),
        (lambda a: [x.replace("graspgen", "acronym") for x in a], r"no .h5 file under"),
        (lambda a: [x.replace("panda_gripper", "pandda") for x in a], "no hand 'pandda'"),
    ],
)
def test_bad_input_is_one_message(published: Path, change, message: str) -> None:
    result = CliRunner().invoke(main, change(arguments(published, "x.parquet")))
    assert result.exit_code == 2
    assert message in result.output
    assert not (published / "x.parquet").exists()


def test_a_missing_object_is_named(published: Path) -> None:
    (published / "objects" / "box.obj").unlink()
    result = CliRunner().invoke(main, arguments(published, "x.parquet"))
    assert result.exit_code == 2
    assert "object 'box': no mesh under" in result.output
