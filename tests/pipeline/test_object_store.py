"""Outputs on an object store: a real S3 server, the records and datasets of a local run."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import LockedError
from pipeline.files import lock
from scripts import inject_faults
from stages.shard.digest import dataset_digest
from stages.shard.verify import verify_files
from stages.storage import UNREACHABLE, list_files, output_path, read_bytes, write_bytes
from tests.pipeline.shard_faults import write
from tests.pipeline.toy import run_toy
from tests.s3 import forget_connections, new_place, server

pytestmark = pytest.mark.slow

BASE = {"walk": {"count": 6}, "block_size": 2}
CUT = """\
import os, sys
from stages import storage
left = int(sys.argv[2])
def fail(path, data, temporary=None, put=storage.write_bytes):
    global left
    put(path, data, temporary)
    left -= ".lock" not in str(path)
    if left <= 0:
        os._exit(9)
storage.write_bytes = fail
"""
TOY = """\
from tests.pipeline.toy import run_toy
run_toy(storage.output_path(sys.argv[1]), {"walk": {"count": 6}, "block_size": 2})
"""
RUN = """\
from pipeline.cli import main
main(["run", "all", "--config", sys.argv[3], "--out", sys.argv[1], "--workers", "0"])
"""


@pytest.fixture(scope="module", autouse=True)
def s3() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of shards of its own; the convex pieces of the boxes are quick to make again."""
    monkeypatch.setenv("GRASP_CLOUDS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def cut(script: str, *arguments: object) -> int:
    """Exit code of a run that ends, as by kill -9, after the n-th object it put."""
    command = [sys.executable, "-c", CUT + script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_workers_on_a_store_give_the_records_of_a_folder(tmp_path: Path) -> None:
    plain = run_toy(tmp_path / "plain", BASE)[1]
    out = output_path(new_place("run"))
    assert run_toy(out, BASE, workers=2)[1] == plain
    result, digest = run_toy(out, BASE)
    assert (result.did_nothing, digest) == (True, plain)


def test_a_run_killed_after_any_put_goes_on(tmp_path: Path) -> None:
    """16 objects: the version, and of 3 + 5 blocks the data and the marker."""
    plain = run_toy(tmp_path / "plain", BASE)[1]
    for left in (1, 2, 7, 16):
        place = new_place("run")
        assert cut(TOY, place, left) == 9
        assert run_toy(output_path(place), BASE)[1] == plain


def stand_still(out: Path) -> None:
    """Hold the lock, lose it, and go on until the next renewal sees that."""
    with lock(out):
        write_bytes(out / ".lock", b'{"pid": 1, "host": "a", "since": "b"}')
        for _ in range(1200):
            time.sleep(0.05)


def test_who_holds_an_output_is_said_and_the_dead_hold_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = new_place("run")
    script = "import sys, time; from pipeline.files import lock; from stages.storage import "
    script += "output_path\nwith lock(output_path(sys.argv[1])): print('held', flush=True); "
    script += "time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", script, place], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with (
            pytest.raises(LockedError, match=f"in use by process {process.pid} on"),
            lock(output_path(place)),
        ):
            pass
    finally:
        process.kill()
        process.communicate()
    monkeypatch.setattr("pipeline.lease.RENEW_S", 0.5)
    with pytest.raises(LockedError, match="another process took over"):
        stand_still(output_path(place))
    (output_path(place) / ".lock").unlink()
    with lock(output_path(place)):
        assert b"token" in read_bytes(output_path(place) / ".lock")
    assert not (output_path(place) / ".lock").exists()


def test_a_dataset_on_a_store_is_the_one_of_a_folder(tmp_path: Path, cache: Path) -> None:
    """Published, killed while it is published, grown, verified, broken, repaired, loaded."""
    from stages.shard.read import PointCloudDataset

    expected = inject_faults.prepare(tmp_path)
    config = ("--config", tmp_path / "two.yaml")
    place = new_place("boxes/run")
    out = output_path(place)
    # killed among the blocks, and among the files of shards
    puts = sum(p.is_file() for p in (tmp_path / "whole").rglob("*")) - 1  # but for the lock
    for left in (12, puts - 60):
        assert cut(RUN, place, left, tmp_path / "two.yaml") == 9
    run = ("run", "all", *config, "--out", place, "--workers", 0)
    code, text = inject_faults.call(*run)
    assert code == 0, text
    assert inject_faults.digest_of(place) == expected
    shutil.rmtree(cache / "shards")
    assert "Nothing to do" in inject_faults.call(*run)[1]
    assert not (cache / "shards").exists()
    assert "all sound" in inject_faults.call("verify", place)[1]
    assert "dataset: published" in inject_faults.call("status", place)[1]
    assert inject_faults.call("prune", place, "--dry-run")[0] == 0

    there = PointCloudDataset(place, split="train")
    here = PointCloudDataset(tmp_path / "whole", split="train")
    assert len(there) == len(here) == 4
    for i in range(len(here)):
        assert (there[i]["points"] == here[i]["points"]).all()

    victim = out / next(name for name in list_files(out) if "/points/c/" in name)
    victim.write_bytes(victim.read_bytes()[:-1] + b"?")
    assert inject_faults.call("verify", place)[0] == 1
    assert "dropped 2 broken parts" in inject_faults.call("repair", place)[1]
    assert inject_faults.call(*run)[0] == 0
    code, text = inject_faults.call("extend", place, "--scenes", 2, "--workers", 0)
    assert code == 0, text
    assert inject_faults.call("verify", place)[0] == 0
    grown = tmp_path / "grown"
    sets = ("--set", "scene.floating=2", "--set", "scene.tabletop=2")
    assert inject_faults.call("run", "all", *config, "--out", grown, "--workers", 0, *sets)[0] == 0
    assert dataset_digest(grown) == dataset_digest(out)


def test_workers_upload_shards_and_the_conductor_swaps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    out = output_path(new_place("shards"))
    for views in (4, 3):
        write(tmp_path / "folder", workers=1, views=views)
        write(out, workers=2, views=views)
        assert dataset_digest(out) == dataset_digest(tmp_path / "folder")
    assert verify_files(out) == []
    assert not any(scratch.iterdir())


def test_a_store_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = new_place("run")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    forget_connections()
    with pytest.raises(OSError, match="the object store cannot be reached") as caught:
        read_bytes(output_path(place) / "version")
    assert caught.value.errno == UNREACHABLE
    code, text = inject_faults.call("run", "all", "--config", "configs/demo.yaml", "--out", place)
    assert code == 2
    assert "check the address, the credentials" in text
    for wrong, message in (
        ("s3://bucket", "expected a folder in the bucket"),
        ("file:///tmp/out", "is given without a scheme"),
        ("nothing://a/b", "nothing"),
    ):
        code, text = inject_faults.call("status", wrong)
        assert (code, message in text) == (2, True), text
