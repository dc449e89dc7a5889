import hashlib
import json
import shutil

import numpy as np
import pytest
import zarr

from stages.shard.config import ShardConfig
from stages.shard.digest import dataset_digest
from stages.shard.errors import DatasetError, ShardConfigError, ShardContentError
from stages.shard.index import read_index, read_split
from stages.shard.open import load_manifest, read_shard
from stages.shard.verify import verify_dataset


def files_of(folder):
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.rglob("*")
        if p.is_file()
    }


def test_what_was_written_verifies_and_reads_back(dataset, records):
    assert verify_dataset(dataset) == []
    rows = read_index(dataset / "index.parquet")
    assert len(rows) == sum(map(len, records.clouds.values()))
    for row in rows:
        shard = zarr.open_group(dataset / "shards" / row["shard"], mode="r")
        start, stop = shard["cloud_offsets"][row["row"] : row["row"] + 2]
        cloud = records.clouds[row["scene"]][row["view"]]
        np.testing.assert_array_equal(shard["points"][start:stop], cloud.points)
        np.testing.assert_array_equal(shard["segment"][start:stop], cloud.segment)
        np.testing.assert_array_equal(shard["T_world_cam"][row["row"]], cloud.T_world_cam)
        assert row["points"] == len(cloud.points)


@pytest.mark.parametrize("least", [0, 40])
def test_the_index_of_a_split_is_its_rows(dataset, least):
    rows = read_index(dataset / "index.parquet")
    for split in ("train", "val", "test"):
        mine = [r for r in rows if r["split"] == split and r["points"] >= least]
        found = read_split(dataset / "index.parquet", split, least)
        assert len(found) == len(mine)
        assert found.keys == [(r["scene"], r["view"]) for r in mine]
        assert [found.key(i) for i in range(len(found))] == found.keys
        assert [found.place(i) for i in range(len(found))] == [(r["shard"], r["row"]) for r in mine]
        assert found.points.tolist() == [r["points"] for r in mine]


def test_zarr_python_and_tensorstore_read_the_same(dataset):
    shards = sorted((dataset / "shards").glob("*.zarr"))
    assert shards
    for shard in shards:
        group = zarr.open_group(shard, mode="r")
        content = read_shard(shard)
        names = {n for n, node in group.members(max_depth=None) if isinstance(node, zarr.Array)}
        assert names == set(content.arrays)
        for name, array in content.arrays.items():
            np.testing.assert_array_equal(group[name][...], array)
        assert group.attrs.asdict() == content.groups[""]


def test_units_and_frames_are_attributes(dataset):
    group = zarr.open_group(dataset / "shards" / "train-00000.zarr", mode="r")
    assert group["points"].attrs["unit"] == "m"
    assert group["points"].attrs["frame"] == "camera"
    assert group["scenes/object_pose"].attrs["quaternion_order"] == "wxyz"
    grasps = zarr.open_group(dataset / "shards" / "train-grasps.zarr", mode="r")
    assert grasps["grasps/jaw/grasp_qpos"].attrs["joint_names"] == ["finger_left", "finger_right"]
    assert grasps["labels/jaw/fc"].attrs["engine"] == "mujoco 4.0.0"


@pytest.mark.parametrize("chunk_points", [1, 7, 64, 5000])
def test_ragged_sizes_and_files_longer_than_the_array(tmp_path, records, chunk_points):
    config = ShardConfig(scenes_per_shard=5, chunk_points=chunk_points, chunks_per_file=4)
    records.write(tmp_path, config=config)
    assert verify_dataset(tmp_path) == []


def test_digest_depends_on_content_only(tmp_path, dataset, records):
    expected = dataset_digest(dataset)
    for name, config in {
        "a": ShardConfig(scenes_per_shard=1, chunk_points=50),
        "b": ShardConfig(compression="none"),
    }.items():
        records.write(tmp_path / name, config=config, reverse=True)
        assert dataset_digest(tmp_path / name) == expected
    cloud = records.clouds["tabletop-00000"][0]
    kept = cloud.points[0, 0]
    cloud.points[0, 0] = np.nextafter(kept, np.float32(1))
    records.write(tmp_path / "c")
    cloud.points[0, 0] = kept
    assert dataset_digest(tmp_path / "c") != expected


def test_bytes_are_deterministic_and_unchanged_shards_stay(tmp_path, dataset, records):
    summary = records.write(tmp_path, reverse=True)
    assert files_of(tmp_path) == files_of(dataset)
    assert summary["shards_kept"] == 0
    times = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    assert records.write(tmp_path)["shards_written"] == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.name != "shards"} == {
        p: t for p, t in times.items() if p.name != "shards"
    }
    # Another friction: labels change, clouds are not written again.
    labels = records.labels[1:]
    assert records.write(tmp_path, labels=labels)["shards_written"] == 1
    assert verify_dataset(tmp_path) == []


def test_a_failed_update_leaves_the_published_dataset(tmp_path, records):
    records.write(tmp_path)
    before = files_of(tmp_path)

    def clouds_of(name):
        if name == "tabletop-00007":
            raise OSError(28, "No space left on device")
        return records.clouds[name][:2]

    with pytest.raises(OSError, match="No space"):
        records.write(tmp_path, clouds_of=clouds_of)
    assert files_of(tmp_path) == before
    records.write(tmp_path)
    assert files_of(tmp_path) == before


def test_a_damaged_shard_is_written_again(tmp_path, records):
    records.write(tmp_path)
    before = files_of(tmp_path)
    shutil.rmtree(tmp_path / "shards" / "train-00001.zarr" / "points")
    assert records.write(tmp_path)["shards_written"] == 1
    assert files_of(tmp_path) == before


def test_a_smaller_dataset_leaves_no_old_shards(tmp_path, records):
    records.write(tmp_path)
    (tmp_path / "shards" / "notes.txt").write_text("mine")
    records.write(tmp_path, scenes=records.scenes[:2] + records.scenes[-1:])
    names = sorted(p.name for p in (tmp_path / "shards").glob("*.zarr"))
    assert names == ["train-00000.zarr", "train-grasps.zarr", "val-00000.zarr", "val-grasps.zarr"]
    assert (tmp_path / "shards" / "notes.txt").exists()


def test_manifest_holds_splits_crop_statistics(dataset):
    manifest = load_manifest(dataset)
    assert manifest["splits"] == {"train": ["box_a", "box_b"], "val": ["box_c"]}
    assert manifest["crop_digest"] == "d"
    assert manifest["statistics"]["train"]["clouds"] == 32
    assert manifest["objects"]["box_a"]["licence"] == "CC0-1.0"


def test_another_schema_version_is_refused(tmp_path, dataset, monkeypatch, records):
    monkeypatch.setattr("stages.shard.write.SCHEMA_VERSION", 99)
    records.write(tmp_path)
    monkeypatch.undo()
    with pytest.raises(DatasetError, match=r"schema version 99.*reads version 1"):
        load_manifest(tmp_path)
    assert [p.kind for p in verify_dataset(tmp_path)] == ["version"]


def test_records_that_do_not_belong_together(tmp_path, records):
    with pytest.raises(ShardContentError, match=r"tabletop-00002 is in train.*box_a.*val"):
        records.write(tmp_path, splits={"box_a": "val", "box_b": "train", "box_c": "val"})
    with pytest.raises(ShardContentError, match="comes twice"):
        records.write(tmp_path, grasps=records.grasps + records.grasps[:1])
    with pytest.raises(ShardContentError, match="labelled twice"):
        records.write(tmp_path, labels=records.labels + records.labels[:1])
    with pytest.raises(ShardContentError, match="without grasps"):
        records.write(tmp_path, grasps=records.grasps[1:])
    assert not list(tmp_path.glob("dataset*"))


def test_config_names_every_problem():
    with pytest.raises(ShardConfigError, match=r"scenes_per_shard.*compression"):
        ShardConfig(scenes_per_shard=0, compression="lzma")


def test_labels_follow_their_grasps(dataset, records):
    content = read_shard(dataset / "shards" / "train-grasps.zarr")
    labels = content.arrays["labels/jaw/tabletop/labelled"]
    names = np.array(content.groups[""]["object_ids"])[content.arrays["grasps/jaw/object_index"]]
    assert labels[names == "box_a"].all()
    assert labels[names == "box_b"].tolist() == [False] * 2 + [True] * 5
    label = next(x for x in records.labels if (x.object_id, x.protocol) == ("box_b", "tabletop"))
    np.testing.assert_array_equal(
        content.arrays["labels/jaw/tabletop/translation"][names == "box_b"][2:], label.translation
    )
    assert json.loads(json.dumps(content.groups["labels/jaw/tabletop"]["seeds"]))["box_b/2"] == (
        2**63 + 5
    )
