"""Shards written by several processes: the bytes, the errors and the leavings of a single one."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.errors import CorruptBlockError, UserError
from stages.shard.digest import dataset_digest
from stages.shard.errors import ShardContentError
from stages.shard.verify import verify_dataset
from tests.pipeline.shard_faults import VICTIM, readers, write
from tests.program import ROOT
from tests.stages.shard.conftest import make_records


def files(out: Path) -> dict[str, str]:
    """All of a dataset, temporaries included."""
    found = [*out.glob("dataset*"), *out.glob("index*"), *(out / "shards").rglob("*")]
    return {
        p.relative_to(out).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in found
        if p.is_file()
    }


def gone(pids: set[int]) -> bool:
    """Whether these processes end, within seconds."""
    end = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written by one process; read only."""
    out = tmp_path_factory.mktemp("whole")
    write(out, workers=1)
    assert readers(out) == {os.getpid()}
    return out


def test_three_workers_write_the_bytes_of_one(tmp_path: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    write(one, workers=1, visibility=True)
    before = files(one)
    assert write(many, workers=3, visibility=True)["shards_written"] == 7
    assert os.getpid() not in readers(many)
    assert readers(many)
    assert gone(readers(many))
    assert files(many) == before
    assert verify_dataset(many) == []
    # One shard changes: it is swapped for the old one, by the conductor.
    counts = [write(out, workers=n, views=3, visibility=True) for out, n in ((one, 1), (many, 3))]
    assert counts[0] == counts[1]
    assert counts[0]["shards_written"] == 1
    assert files(many) == files(one) != before
    assert dataset_digest(many) == dataset_digest(one)


def test_what_a_worker_raises_is_raised_and_the_dataset_stays(tmp_path: Path) -> None:
    write(tmp_path, workers=1)
    before = files(tmp_path)
    changed = make_records(seed=1)  # so that other shards wait to be swapped meanwhile
    with pytest.raises(ShardContentError, match=rf"{VICTIM}: expected its own.*one per view") as e:
        write(tmp_path, workers=2, fault="twice", records=changed)
    assert "in _check_clouds" in e.value.__notes__[0]
    assert files(tmp_path) == before
    with pytest.raises(OSError, match="File too large") as full:
        write(tmp_path, workers=2, fault="full", records=changed)
    assert full.value.errno == errno.EFBIG
    assert files(tmp_path) == before
    with pytest.raises(CorruptBlockError, match=r"expected .* bytes, got") as corrupt:
        write(tmp_path, workers=2, fault="cut", records=changed)
    assert corrupt.value.path.suffix == ".npz"
    assert files(tmp_path) == before
    assert gone(readers(tmp_path) - {os.getpid()})


def test_a_shard_whose_writer_dies_is_written_again_once(tmp_path: Path, whole: Path) -> None:
    write(tmp_path / "once", workers=2, fault="die once")
    assert files(tmp_path / "once") == files(whole)
    out = tmp_path / "twice"
    with pytest.raises(UserError, match=r"train-00001.zarr: its writer died twice.*signal 9"):
        write(out, workers=2, fault="die")
    assert not list((out / "shards").glob(".tmp-*"))
    assert not list(out.glob("dataset*"))
    write(out, workers=1)
    assert files(out) == files(whole)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_an_ended_conductor_takes_its_workers_along(
    tmp_path: Path, whole: Path, by: signal.Signals
) -> None:
    command = [sys.executable, "-m", "tests.pipeline.shard_faults", str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True)
    try:
        while len(readers(tmp_path)) < 2 and process.poll() is None:
            time.sleep(0.02)
        if by == signal.SIGINT:  # Ctrl-C goes to all processes of a terminal
            os.killpg(process.pid, by)
        else:
            process.kill()
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == -by
    assert len(readers(tmp_path)) == 2
    assert gone(readers(tmp_path))
    if by == signal.SIGINT:
        assert said.decode().count("Traceback") == 1  # the conductor's own
        assert not list((tmp_path / "shards").glob(".tmp-*"))
    write(tmp_path, workers=1)
    assert files(tmp_path) == files(whole)
