"""An output that cannot be used says why, and nothing in it is touched."""

import json
import multiprocessing
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import (
    CorruptBlockError,
    LockedError,
    StorageError,
    VersionError,
)
from pipeline.files import lock
from pipeline.store import Row, Store
from schemas.records import encode
from stages.storage import write_bytes
from tests.pipeline.toy import Walk, planned, run_toy

ROOT = Path(__file__).parents[2]
BASE = {"walk": {"count": 6}, "block_size": 2}


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


def commit(out: Path, ids: list[str]) -> tuple[Store, str]:
    store = Store(out)
    store.open()
    records = [Walk(name=i, points=np.full((3, 2), n, np.float64)) for n, i in enumerate(ids)]
    rows = [Row(id=i, key=f"k{i}", own="o", code="ok", index=n) for n, i in enumerate(ids)]
    rows.append(Row(id="bad", key="kbad", own="o", code="bad_walk", message="why"))
    return store, store.commit(stage="walk", rows=rows, records=records, seconds=0.1).block


def test_records_come_back_bit_for_bit(tmp_path: Path) -> None:
    store, block = commit(tmp_path, ["a", "b"])
    records = store.read("walk", block, Walk)
    assert [records[i].name for i in (0, 1)] == ["a", "b"]
    for name, array in encode(records[1]).items():
        again = encode(store.read("walk", block, Walk)[1])[name]
        assert again.dtype == array.dtype
        assert again.tobytes() == array.tobytes()


def test_equal_commits_write_equal_bytes(tmp_path: Path) -> None:
    (first, block), (second, _) = commit(tmp_path / "a", ["x"]), commit(tmp_path / "b", ["x"])
    one, two = first.npz_path("walk", block), second.npz_path("walk", block)
    assert one.read_bytes() == two.read_bytes()


def test_nothing_in_a_block_is_pickled(tmp_path: Path) -> None:
    store, block = commit(tmp_path, ["a"])
    with np.load(store.npz_path("walk", block), allow_pickle=False) as npz:
        assert {npz[name].dtype.kind for name in npz.files} == {"U", "f"}


def test_a_wrong_byte_is_never_read(tmp_path: Path) -> None:
    store, block = commit(tmp_path, ["a"])
    path = store.npz_path("walk", block)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    with pytest.raises(CorruptBlockError, match="expected sha256"):
        store.read("walk", block, Walk)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_bytes(path, b"old")
    with pytest.raises(TypeError):
        write_bytes(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_another_layout_version_is_refused_untouched(tmp_path: Path) -> None:
    run_toy(tmp_path, BASE)
    (tmp_path / "version").write_text("999\n")
    before = snapshot(tmp_path)
    with pytest.raises(VersionError, match="layout version 999, this program reads 1 and 2"):
        run_toy(tmp_path, BASE | {"seed": 5})
    assert snapshot(tmp_path) == before


def test_a_folder_of_something_else_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StorageError, match="not an output of this program"):
        run_toy(tmp_path, BASE)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("below", ["", "deep/er"])
def test_a_file_where_the_folder_should_be(tmp_path: Path, below: str) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(StorageError, match="cannot be written"):
        run_toy(tmp_path / "out" / below, BASE)
    assert (tmp_path / "out").read_text() == "a file"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    run_toy(tmp_path, BASE)
    for path in [tmp_path, *tmp_path.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with pytest.raises(StorageError, match="cannot be written"):
            run_toy(tmp_path, BASE | {"seed": 1})
    finally:
        for path in [tmp_path, *tmp_path.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def _hold(out: str, ready: Any, stop: Any) -> None:
    with lock(Path(out)):
        ready.set()
        stop.wait(30)


def test_a_second_run_is_told_who_holds_the_output(tmp_path: Path) -> None:
    Store(tmp_path).open()
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path), ready, stop))
    holder.start()
    try:
        assert ready.wait(20)
        with pytest.raises(LockedError, match=rf"in use by process {holder.pid} on .+, since 2"):
            run_toy(tmp_path, BASE)
    finally:
        stop.set()
        holder.join()
    run_toy(tmp_path, BASE)


FULL = """
import resource, sys
from pathlib import Path
from pipeline.errors import UserError
from tests.pipeline.toy import run_toy
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
data = {"walk": {"count": 6, "steps": 50}, "pair": {"gain": float(sys.argv[4])}, "block_size": 2}
data["walk"]["steps"] = int(sys.argv[5])
try:
    run_toy(Path(sys.argv[1]), data, workers=int(sys.argv[3]))
except UserError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_a_full_disk_is_one_message_and_loses_nothing(tmp_path: Path, workers: int) -> None:
    """The kernel refuses to grow a file past a limit (EFBIG), as a full disk would (ENOSPC)."""
    run_toy(tmp_path, BASE)
    before = snapshot(tmp_path)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), "20000", str(workers), "9.0", "5000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert "the disk is full" in done.stdout
    assert "run the same command again" in done.stdout
    after = snapshot(tmp_path)
    assert {k: after[k] for k in before} == before
    assert not list(tmp_path.rglob("*.tmp-*"))
    # With room again, the same run goes through.
    result, _ = run_toy(tmp_path, BASE | {"walk": {"count": 6, "steps": 5000}})
    assert result.summaries[0].done_now == 6


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="needs a device that is always out of space"
)
def test_the_message_of_a_device_without_space() -> None:
    from pipeline.files import storage_error

    with pytest.raises(OSError, match="No space left") as caught:
        Path("/dev/full").write_bytes(b"x")
    assert "the disk is full" in str(storage_error(Path("out"), caught.value))


def test_markers_say_everything_about_failures(tmp_path: Path) -> None:
    run_toy(tmp_path, {"walk": {"count": 6, "fail": ["w001"]}, "block_size": 2})
    plan = planned(BASE)["walk"]
    rows = [
        row
        for path in tmp_path.glob("blocks/walk/*.json")
        for row in json.loads(path.read_text())["rows"]
        if row["code"] != "ok"
    ]
    assert rows == [
        {
            "id": "w001",
            "key": plan.keys["w001"],
            "own": plan.own["w001"],
            "code": "bad_walk",
            "message": "it was asked to fail",
            "index": None,
            "attempt": 0,
        }
    ]
