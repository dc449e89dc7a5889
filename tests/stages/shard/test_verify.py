import shutil

import numpy as np
import pytest

from stages.shard.arrays import ShardArrays, cloud_arrays
from stages.shard.check import check_content
from stages.shard.open import read_shard
from stages.shard.verify import verify_dataset


@pytest.fixture
def copy(small_dataset, tmp_path):
    return shutil.copytree(small_dataset, tmp_path / "copy")


TARGETS = [
    "shards/train-00000.zarr/points/c/0/0",
    "shards/train-00000.zarr/points/zarr.json",
    "shards/train-00000.zarr/zarr.json",
    "shards/train-grasps.zarr/labels/jaw/fc/success/c/0",
    "shards/train-grasps.zarr/labels/jaw/fc/zarr.json",
    "shards/val-grasps.zarr.commit.json",
    "dataset.json",
    "dataset.commit.json",
    "index.parquet",
]


@pytest.mark.parametrize("target", TARGETS)
def test_every_kind_of_damage_is_found(copy, target):
    path = copy / target
    good = path.read_bytes()
    assert verify_dataset(copy) == []
    for place in (len(good) // 2, len(good) - 1):
        bad = bytearray(good)
        bad[place] ^= 1
        path.write_bytes(bad)
        assert [p.place for p in verify_dataset(copy)] == [target], f"bit flip at {place}"
    path.write_bytes(good[:-1])
    assert [p.place for p in verify_dataset(copy)] == [target]
    path.unlink()
    problems = verify_dataset(copy)
    assert [p.place for p in problems] == [target]
    assert str(problems[0]).startswith(target)
    path.write_bytes(good)
    assert verify_dataset(copy) == []


def test_extra_files_and_lost_shards(copy):
    (copy / "shards/train-00000.zarr/points/c/0/1").write_bytes(b"x")
    (copy / "shards/train-00009.zarr").mkdir()
    shutil.rmtree(copy / "shards/val-grasps.zarr")
    problems = verify_dataset(copy)
    assert {"extra", "missing"} == {p.kind for p in problems}
    assert {p.place for p in problems if p.kind == "extra"} == {
        "shards/train-00000.zarr/points/c/0/1",
        "shards/train-00009.zarr",
    }


@pytest.fixture
def content(record_maker):
    def make(frame="camera"):
        records = record_maker(frame)
        scenes = [s for s in records.scenes if s.split == "train"]
        return cloud_arrays(scenes, [records.clouds[s.scene_id] for s in scenes], "train")

    return make


def test_content_checks_know_geometry(content):
    assert check_content(content("camera")) == []
    assert check_content(content("world")) == []
    swapped = content("world")
    swapped.groups[""]["frame"] = "camera"  # a cloud in world when the camera frame was promised
    assert any("project outside" in p for p in check_content(swapped))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("scenes/object_pose", lambda a: a * 1.001, "unit norm"),
        ("T_world_cam", lambda a: a * [[[1.001, 1, 1, 1]]], "orthonormal"),
        ("T_world_cam", lambda a: a[:, :, [1, 0, 2, 3]], "right-handed"),
        ("points", lambda a: np.where(np.arange(len(a))[:, None] == 3, np.nan, a), "NaN"),
        ("points", lambda a: a.astype(np.float64), "dtype float32"),
        ("segment", lambda a: a[:-1], "points, but"),
        ("cloud_offsets", lambda a: a[[0, 2, 1, *range(3, len(a))]], "rise"),
        ("scenes/object_mass", lambda a: -a, ">= 0"),
        ("scenes/object_index", lambda a: a + 5, "names"),
        ("view", lambda a: a[1:], "clouds, but"),
    ],
)
def test_content_checks_find_each_fault(content, name, change, message):
    bad = content()
    changed = change(bad.arrays[name])
    bad.arrays[name] = (
        changed
        if name == "points" and changed.dtype == float
        else (changed.astype(bad.arrays[name].dtype))
    )
    assert any(message in problem for problem in check_content(bad)), check_content(bad)


def test_labels_without_all_their_columns_or_rows_are_found(dataset):
    good = read_shard(dataset / "shards" / "train-grasps.zarr")
    assert check_content(good) == []
    lost = ShardArrays(arrays=dict(good.arrays), groups=good.groups)
    del lost.arrays["labels/jaw/fc/rotation"]
    assert check_content(lost) == ["labels/jaw/fc: missing columns ['rotation']"]
    short = ShardArrays(arrays=dict(good.arrays), groups=good.groups)
    short.arrays["labels/jaw/fc/rotation"] = good.arrays["labels/jaw/fc/rotation"][1:]
    assert any("grasps, but" in problem for problem in check_content(short))
