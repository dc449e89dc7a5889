"""Shards on an object store: written whole, read through a cache, by any kind of process."""

from collections.abc import Iterator

import pytest

from stages.shard import publish
from stages.shard.digest import dataset_digest
from stages.shard.errors import DatasetError
from stages.shard.read import PointCloudDataset, PointCloudLoader
from stages.shard.verify import verify_files
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
    here = list(PointCloudLoader(PointCloudDataset(tmp_path / "local", points=32), 4, block=4))
    for start in (None, "fork", "spawn"):
        source = PointCloudDataset(place, points=32)
        workers = {"num_workers": 2, "multiprocessing_context": start} if start else {}
        equal(here, list(PointCloudLoader(source, 4, block=4, **workers)))


class Killed(BaseException):
    pass


@pytest.mark.parametrize("left", [3, 70])
def test_a_cut_while_publishing_leaves_no_mixture(tmp_path, record_maker, monkeypatch, left):
    """New shards replace old ones, and the process is gone after `left` of their objects."""
    old, new = (record_maker(seed=seed, train=2, val=1) for seed in (0, 1))
    old.write(tmp_path / "old")
    new.write(tmp_path / "new")
    out = output_path(new_place("set"))
    old.write(out)
    put, count = publish.write_bytes, iter(range(left))

    def some(path, data):
        if next(count, None) is None:
            raise Killed
        put(path, data)

    monkeypatch.setattr(publish, "write_bytes", some)
    with pytest.raises(Killed):
        new.write(out)
    with pytest.raises(DatasetError):  # the commit names what is no more
        dataset_digest(out)
    monkeypatch.setattr(publish, "write_bytes", put)
    new.write(out)
    assert verify_files(out) == []
    assert dataset_digest(out) == dataset_digest(tmp_path / "new")


def first_cloud(out):
    return PointCloudDataset(out)[0]["points"].numpy().tobytes()


def test_other_bytes_are_refused_and_a_cut_copy_is_fetched_again(record_maker):
    out = output_path(new_place("set"))
    record_maker(train=2, val=1).write(out)
    expected = first_cloud(out)
    copy = next(p for p in cache_folder().rglob("c/*") if p.is_file())
    copy.write_bytes(copy.read_bytes()[:-1])
    assert first_cloud(out) == expected
    for path in cache_folder().rglob("*"):
        if path.is_file():
            path.unlink()
    victim = out / next(name for name in list_files(out) if "/points/c/" in name)
    data = victim.read_bytes()
    victim.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DatasetError, match="not the bytes that were written"):
        first_cloud(out)
    assert [p.kind for p in verify_files(out)] == ["checksum"]
