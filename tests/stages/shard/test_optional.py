"""What a dataset holds only when asked for, and views fused when they are read."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import trimesh
from torch.utils.data import DataLoader

from schemas.distortion import Distortion
from schemas.frames import invert, look_at, pose_to_matrix, transform_points
from schemas.records import Cloud, Scene
from stages.shard.arrays import cloud_arrays
from stages.shard.check import check_content
from stages.shard.config import ShardConfig
from stages.shard.digest import dataset_digest
from stages.shard.errors import ShardConfigError, ShardContentError
from stages.shard.open import load_manifest, read_shard
from stages.shard.read import PointCloudDataset
from stages.shard.verify import verify_dataset
from stages.shard.visibility import grasp_visibility, regions_of
from tests.solids import solid_asset

LENS = Distortion(model="brown_conrady", k1=-0.2, k2=0.05, p1=0.001)


def dressed(records, seed=0):
    """The records with normals, colours and a lens on every cloud."""
    rng = np.random.default_rng(seed)

    def dress(cloud):
        normals = rng.normal(size=cloud.points.shape).astype(np.float32)
        normals /= np.linalg.norm(normals, axis=1, keepdims=True)
        colour = rng.integers(0, 256, cloud.points.shape).astype(np.uint8)
        return replace(cloud, normals=normals, colour=colour, distortion=LENS.to_array())

    clouds = {name: [dress(c) for c in of_scene] for name, of_scene in records.clouds.items()}
    return replace(records, clouds=clouds)


@pytest.fixture(scope="module")
def dressed_records(record_maker):
    return dressed(record_maker())


@pytest.fixture(scope="module")
def dressed_dataset(dressed_records, tmp_path_factory):
    out = tmp_path_factory.mktemp("dressed")
    dressed_records.write(out)
    return out


def test_nothing_is_stored_that_was_not_asked_for(dataset):
    arrays = read_shard(dataset / "shards" / "train-00000.zarr").arrays
    assert not {"normals", "colour", "distortion"} & set(arrays)
    manifest = load_manifest(dataset)
    assert "optional" not in manifest
    assert "normals" not in manifest["fields"]
    item = PointCloudDataset(dataset)[0]
    assert not {"normals", "colour", "distortion", "view_of_point"} & set(item)


def test_normals_colours_and_lenses_come_back(dressed_dataset, dressed_records):
    assert verify_dataset(dressed_dataset) == []
    manifest = load_manifest(dressed_dataset)
    assert manifest["optional"] == ["colour", "distortion", "normals"]
    for frame in ("camera", "world"):
        source = PointCloudDataset(dressed_dataset, frame=frame, points=20)
        whole = PointCloudDataset(dressed_dataset, frame=frame)
        for item in whole:
            cloud = dressed_records.clouds[item["scene_id"]][item["view"]]
            R = cloud.T_world_cam[:3, :3] if frame == "world" else np.eye(3)
            np.testing.assert_allclose(item["normals"].numpy(), cloud.normals @ R.T, atol=1e-6)
            np.testing.assert_array_equal(item["colour"].numpy(), cloud.colour)
            assert Distortion.from_array(item["distortion"].numpy()) == LENS
        batch = next(iter(DataLoader(source, batch_size=4, collate_fn=source.collate)))
        assert batch["normals"].shape == batch["colour"].shape == (4, 20, 3)
        assert batch["distortion"].shape == (4, 6)
        # Sampled rows belong together: each sampled colour is that of its point.
        cloud = dressed_records.clouds[batch["scene_id"][0]][int(batch["view"][0])]
        if frame == "camera":
            pairs = zip(cloud.points.tolist(), cloud.colour.tolist(), strict=True)
            colour_of = {tuple(point): colour for point, colour in pairs}
            for point, colour in zip(batch["points"][0], batch["colour"][0], strict=True):
                assert colour_of[tuple(point.tolist())] == colour.tolist()


def test_optional_arrays_do_not_depend_on_the_cut(dressed_dataset, dressed_records, tmp_path):
    dressed_records.write(tmp_path, config=ShardConfig(scenes_per_shard=1, chunk_points=50))
    assert dataset_digest(tmp_path) == dataset_digest(dressed_dataset)


def test_faults_of_optional_arrays(record_maker, tmp_path):
    records = dressed(record_maker())
    scenes = [s for s in records.scenes if s.split == "train"]
    content = cloud_arrays(scenes, [records.clouds[s.scene_id] for s in scenes], "train")
    assert check_content(content) == []
    content.arrays["normals"][3] *= 1.01
    assert any("unit length" in p for p in check_content(content))
    one = records.clouds[scenes[0].scene_id]
    one[0] = replace(one[0], normals=one[0].normals[:0])
    with pytest.raises(ShardContentError, match="points but 0 normals"):
        records.write(tmp_path)
    with pytest.raises(ShardConfigError, match="contact_radius"):
        ShardConfig(contact_radius=0.0)


def test_two_views_of_a_cube_fuse_on_its_surface(tmp_path, records):
    """Analytic views of opposite corners: fused points lie on all six faces, with their views."""
    half, scene = 0.03, next(s for s in records.scenes if s.object_ids == ("box_a",))
    T_world_object = pose_to_matrix(scene.object_poses[0])
    clouds = []
    for view, corner in enumerate(([0.3, 0.4, 0.5], [-0.3, -0.4, -0.5])):
        eye = transform_points(T_world_object, [corner])[0]
        T_world_cam = look_at(eye, scene.object_poses[0, :3])
        faces = [s * half for s in np.sign(corner)]
        local = np.random.default_rng(view).uniform(-half, half, (90, 3))
        for axis in range(3):
            local[axis::3, axis] = faces[axis]
        points = transform_points(invert(T_world_cam) @ T_world_object, local)
        clouds.append(
            Cloud(
                scene_id=scene.scene_id, view=view, frame="camera",
                points=points.astype(np.float32), segment=np.full(90, 2, np.uint16),
                valid_count=90, intrinsics=np.array([300.0, 300, 160, 120, 320, 240]),
                T_world_cam=T_world_cam,
            )
        )  # fmt: skip
    records.write(tmp_path, scenes=[scene], clouds_of=lambda _: clouds)
    [item] = PointCloudDataset(tmp_path, fuse=True)
    local = transform_points(invert(T_world_object), item["points"].numpy())
    assert np.abs(np.abs(local).max(axis=1) - half).max() < 1e-6
    for side in (local - half, local + half):
        assert ((np.abs(side) < 1e-6).sum(axis=0) >= 30).all()
    assert item["view_of_point"].tolist() == [0] * 90 + [1] * 90
    assert item["view"].tolist() == [0, 1]
    np.testing.assert_array_equal(item["T_world_cam"][1].numpy(), clouds[1].T_world_cam)
    with pytest.raises(ValueError, match="world frame"):
        PointCloudDataset(tmp_path, fuse=True, frame="camera")


def test_fusing_loses_no_point(dressed_dataset):
    single = PointCloudDataset(dressed_dataset, frame="world")
    fused = list(PointCloudDataset(dressed_dataset, fuse=True, hand="jaw", protocol="fc"))
    by_scene = {}
    for item in single:
        by_scene.setdefault(item["scene_id"], []).append(item)
    assert sorted(x["scene_id"] for x in fused) == sorted(by_scene)
    for item in fused:
        parts = by_scene[item["scene_id"]]
        for key in ("points", "normals", "colour", "segment"):
            assert torch.equal(item[key], torch.cat([p[key] for p in parts]))
        assert item["view"].tolist() == [p["view"] for p in parts]
        assert len(item["grasps"]["success"]) == 7 * len(item["object_ids"])
    sampled = PointCloudDataset(dressed_dataset, fuse=True, points=64)
    batch = next(iter(DataLoader(sampled, batch_size=3, collate_fn=sampled.collate)))
    assert batch["points"].shape == (3, 64, 3)
    assert batch["view_of_point"].shape == (3, 64)
    assert len(batch["camera_cloud"]) == len(batch["T_world_cam"]) == len(batch["view"])


CUBE = solid_asset(trimesh.creation.box((0.06, 0.06, 0.06)), "box_a")


def cube_contacts():
    """On +z's middle, on -z's, both, none."""
    top, bottom = np.array([[0, 0, 0.03]]), np.array([[0, 0, -0.03]])
    return [top, bottom, np.concatenate([top, bottom]), np.zeros((0, 3))]


def test_a_grasp_on_the_hidden_face_is_not_visible():
    grid = np.stack(np.meshgrid(*[np.linspace(-0.03, 0.03, 31)] * 2), axis=-1).reshape(-1, 2)
    top = np.column_stack([grid, np.full(len(grid), 0.03)])
    index = np.array([3, 0, 1, 2])  # rows come back sorted by it
    regions = regions_of(CUBE, index, cube_contacts(), 0.01, 0.005)
    assert regions.grasp_index.tolist() == [0, 1, 2, 3]
    share = grasp_visibility(top, regions)
    assert share[3] == 1.0
    assert share[0] == 0.0
    # The places are even to one in a region, and there are some twenty of them.
    assert share[1] == pytest.approx(0.5, abs=0.05)
    assert np.isnan(share[2])
    assert 15 < np.diff(regions.offsets)[0] < 80
    half = grasp_visibility(top[top[:, 0] < -0.005], regions)  # a straight shadow over the middle
    assert half[3] == pytest.approx(0.5, abs=0.12)
    assert np.isnan(grasp_visibility(np.zeros((0, 3)), regions)[2])
    assert grasp_visibility(np.zeros((0, 3)), regions)[3] == 0


def test_visibility_is_stored_when_asked_for_and_joins_the_grasps(tmp_path, records):
    """Contacts made up on two of seven grasps; stored shares against the function itself."""

    def contacts(grasps, asset):
        assert grasps.object_id == asset.object_id
        nothing = [np.zeros((0, 3))] * 5
        return [np.zeros((1, 3)), np.array([[0.0, 0.04, 0.0]]), *nothing]

    config = ShardConfig(scenes_per_shard=3, visibility=True, contact_radius=0.02)
    records.write(tmp_path, config=config, contacts=contacts)
    assert verify_dataset(tmp_path) == []
    assert "visibility/jaw/share" in load_manifest(tmp_path)["optional"]
    group = read_shard(tmp_path / "shards" / "train-00000.zarr").groups["visibility/jaw"]
    assert group == {"contact_radius_m": 0.02, "point_distance_m": 0.005}
    source = PointCloudDataset(tmp_path, hand="jaw", protocol="tabletop")
    some = 0
    for item in source:
        grasps = item["grasps"]
        share = grasps["visibility"].numpy()
        assert share.shape == grasps["grasp_index"].shape
        assert np.isnan(share[grasps["grasp_index"] >= 2]).all()
        some += int((share > 0).sum())
        assert (share[grasps["grasp_index"] < 2] >= 0).all()
    assert some > 0
    batch = next(iter(DataLoader(source, batch_size=4, collate_fn=source.collate)))
    assert len(batch["grasps"]["visibility"]) == len(batch["grasps"]["grasp_cloud"])
    plain = PointCloudDataset(tmp_path)[0]
    assert "grasps" not in plain
    # Everything else is what it was.
    records.write(tmp_path)
    assert verify_dataset(tmp_path) == []
    assert isinstance(records.scenes[0], Scene)


def test_grains_and_buried_fractions_come_back(record_maker, tmp_path):
    """Some scenes of some shards have grains; the others say so with NaN."""
    records = record_maker()
    rng = np.random.default_rng(0)

    def buried(scene):
        if int(scene.scene_id[-1]) % 4:
            return scene
        count = len(scene.object_ids)
        return replace(
            scene, grain_positions=rng.random((5, 3)).astype(np.float32), grain_radius=0.01,
            bin_size=np.ones(3), buried_fraction=rng.random(count), exposed_area=rng.random(count),
        )  # fmt: skip

    records = replace(records, scenes=[buried(scene) for scene in records.scenes])
    records.write(tmp_path)
    assert verify_dataset(tmp_path) == []
    assert "scenes/buried_fraction" in load_manifest(tmp_path)["optional"]
    of = {s.scene_id: s for s in records.scenes}
    known = 0
    for fuse in (False, True):
        data = PointCloudDataset(tmp_path, hand="jaw", protocol="fc", fuse=fuse)
        for item in data:
            scene = of[item["scene_id"]]
            count = len(scene.object_ids)
            expected = scene.buried_fraction if scene.has_grains else np.full(count, np.nan)
            np.testing.assert_array_equal(item["buried_fraction"].numpy(), expected)
            slot = item["grasps"]["object_slot"].numpy()
            np.testing.assert_array_equal(item["grasps"]["buried_fraction"], expected[slot])
            known += int(scene.has_grains)
        batch = data.collate([data[0], data[1]])
        assert len(batch["buried_fraction"]) == len(batch["object_poses"])
    assert known > 0
    shard = read_shard(tmp_path / "shards" / "train-00000.zarr").arrays
    offsets = shard["scenes/grain_offsets"].tolist()
    first = of["tabletop-00000"]
    np.testing.assert_array_equal(shard["scenes/grain_position"][: offsets[1]],
                                  first.grain_positions)  # fmt: skip
    records.write(tmp_path / "cut", config=ShardConfig(scenes_per_shard=1, chunk_points=50))
    assert dataset_digest(tmp_path / "cut") == dataset_digest(tmp_path)
