"""Shards on an object store: written whole, read through a cache, by any kind of process."""

import contextlib
from collections.abc import Iterator

import pytest

from stages.shard import publish
from stages.shard.digest import dataset_digest
from stages.shard.errors import DatasetError
from stages.shard.read import PointCloudDataset, PointCloudLoader
from stages.shard.verify import verify_dataset
from stages.storage import cache_folder, list_files, output_path
from tests.s3 import new_place, server
from tests.stages.shard.test_loader import equal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def s3() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRASP_CLOUDS_CACHE", str(tmp_path / "cache"))


def test_a_dataset_is_read_as_from_a_folder_by_any_process(tmp_path, record_maker):
    place = new_place("set")
    record_maker(train=2, val=1).write(output_path(place))
    record_maker(train=2, val=1).write(tmp_path / "local")
    assert dataset_digest(place) == dataset_digest(tmp_path / "local")
    assert verify_dataset(place) == []
    here = list(PointCloudLoader(PointCloudDataset(tmp_path / "local", points=32), 4, block=4))
    for start in (None, "fork", "spawn"):
        source = PointCloudDataset(place, points=32)
        workers = {"num_workers": 2, "multiprocessing_context": start} if start else {}
        equal(here, list(PointCloudLoader(source, 4, block=4, **workers)))


def test_a_cut_while_publishing_leaves_the_old_dataset_or_none(record_maker, monkeypatch):
    """New shards replace old ones: whatever object was the last, nobody reads a mixture."""
    old, new = record_maker(seed=0, train=2, val=1), record_maker(seed=1, train=2, val=1)
    digests = set()
    for records in (old, new):
        out = output_path(new_place("set"))
        records.write(out)
        digests.add(dataset_digest(out))
    out = output_path(new_place("set"))
    old.write(out)

    class Killed(BaseException):
        pass

    put = publish.write_bytes
    for left in (5, 70):
        count = iter(range(left))

        def some(path, data, count=count):
            if next(count, None) is None:
                raise Killed
            put(path, data)

        monkeypatch.setattr(publish, "write_bytes", some)
        with pytest.raises(Killed):
            new.write(out)
        with contextlib.suppress(DatasetError):
            assert dataset_digest(out) in digests
        assert not list(out.glob("shards/.tmp-*"))
    monkeypatch.setattr(publish, "write_bytes", put)
    new.write(out)
    assert verify_dataset(out) == []


def test_other_bytes_are_refused_and_a_cut_copy_is_fetched_again(record_maker):
    out = output_path(new_place("set"))
    record_maker(train=2, val=1).write(out)
    expected = dataset_digest(out)
    copy = next(p for p in cache_folder().rglob("c/*") if p.is_file())
    copy.write_bytes(copy.read_bytes()[:-1])
    assert dataset_digest(out) == expected
    for path in cache_folder().rglob("*"):
        if path.is_file():
            path.unlink()
    victim = out / next(name for name in list_files(out) if "/points/c/" in name)
    data = victim.read_bytes()
    victim.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DatasetError, match="not the bytes that were written"):
        dataset_digest(out)
    assert [p.kind for p in verify_dataset(out)] == ["checksum"]
