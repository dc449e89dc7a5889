"""Copies of shards on this machine: which stay, which make room, and who waits for whom."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stages.shard import cache
from stages.shard.clouds import CloudTable
from stages.shard.errors import DatasetError
from stages.storage import cache_folder, output_path
from tests.program import ROOT
from tests.s3 import new_place, server

READ = """
import hashlib, sys
from stages.shard.clouds import CloudTable
for place in sys.argv[1:]:
    table, digest = CloudTable(out=place, split="train"), hashlib.sha256()
    for i in range(len(table)):
        digest.update(table.read(i, i + 1)[0]["points"].tobytes())
    print(digest.hexdigest())
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRASP_CLOUDS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "shards"


def start(*places: str) -> "subprocess.Popen[str]":
    """A process that reads every cloud of datasets, and ends."""
    return subprocess.Popen(
        [sys.executable, "-c", READ, *places], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def read(*places: str) -> list[str]:
    """Digests of the datasets' points, read in another process."""
    process = start(*places)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return said.split()


def copies(folder: Path) -> dict[str, int]:
    return {path.name: cache._size(path) for path in folder.iterdir() if path.is_dir()}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def places(s3: str, record_maker) -> list[str]:
    """Three datasets of one shard of clouds each."""
    found = [new_place(f"set{i}") for i in range(3)]
    for seed, place in enumerate(found):
        record_maker(seed=seed, train=2, val=0).write(output_path(place))
    return found


@pytest.mark.slow
def test_the_longest_unused_makes_room(
    places: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    for place in places[:2]:
        read(place)
        names += [name for name in copies(folder) if name not in names]
    assert len(names) == 2
    size = max(copies(folder).values())
    monkeypatch.setenv("GRASP_CLOUDS_CACHE_GB", str(2.5 * size / 1e9))
    first = read(places[0])  # used again, so the second is now the longest unused
    read(places[2])
    assert names[0] in copies(folder)
    assert names[1] not in copies(folder)
    assert len(copies(folder)) == 2
    assert read(places[0], places[1])[0] == first[0]


@pytest.mark.slow
def test_what_a_process_has_open_stays(
    places: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are mapped when they are first read: all of a shard stays, mapped or not."""
    monkeypatch.setenv("GRASP_CLOUDS_CACHE_GB", "0")
    table = CloudTable(out=output_path(places[0]), split="train")
    table.about(0)  # opens the shard, maps no points
    [mine] = copies(folder)
    read(places[1], places[2])
    assert len(copies(folder)) == 3  # the reader had both others open
    read(places[1])
    assert mine in copies(folder)
    assert len(copies(folder)) == 3  # nothing was fetched, so nothing had to go
    expected = CloudTable(out=output_path(places[0]), split="train").read(0, 1)[0]["points"]
    assert table.read(0, 1)[0]["points"].tobytes() == expected.tobytes()
    assert expected.any()


@pytest.mark.slow
def test_processes_that_take_each_others_copies_away_read_the_same(
    places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(*places)
    assert len(set(expected)) == 3
    monkeypatch.setenv("GRASP_CLOUDS_CACHE_GB", "0")
    for turn in range(3):
        orders = [places[i:] + places[:i] for i in (turn % 3, (turn + 1) % 3)] * 2
        running = [(order, start(*order)) for order in orders]
        for order, process in running:
            said, _ = process.communicate(timeout=120)
            assert process.returncode == 0
            assert said.split() == [expected[places.index(place)] for place in order]


def test_a_copy_that_is_being_taken_away_is_waited_for(folder: Path) -> None:
    copy = cache.copy_folder("ab" * 32)
    (copy / "shard").mkdir(parents=True)
    (folder / cache.LOCKS).touch()
    with open(folder / cache.LOCKS, "r+b") as file:
        cache._lock(file.fileno(), copy, cache.fcntl.F_WRLCK, cache.fcntl.F_OFD_SETLK)
        waiting = threading.Thread(target=cache.hold, args=(copy,))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
    waiting.join(30)
    assert not waiting.is_alive()
    assert not cache._take_away(copy)  # held by this process now
    assert cache._take_away(cache.copy_folder("cd" * 32)) is False  # is not there
    assert copy.is_dir()


@pytest.mark.parametrize("value", ["much", "-1", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRASP_CLOUDS_CACHE_GB", value)
    with pytest.raises(DatasetError, match="GRASP_CLOUDS_CACHE_GB: expected gigabytes >= 0"):
        cache.limit_bytes()
    monkeypatch.delenv("GRASP_CLOUDS_CACHE_GB")
    assert cache.limit_bytes() == 100 * 10**9
    assert str(cache_folder()) in str(cache.copy_folder("ab"))
