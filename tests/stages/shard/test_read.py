import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from schemas.frames import pose_to_matrix, transform_points
from stages.shard.config import ShardConfig
from stages.shard.errors import DatasetError, UnknownChoiceError
from stages.shard.grasps import GraspTable
from stages.shard.read import PointCloudDataset, PointCloudLoader


def loader(dataset, workers, start="fork", **more):
    context = start if workers else None
    return DataLoader(
        dataset, batch_size=3, num_workers=workers, multiprocessing_context=context,
        collate_fn=dataset.collate, **more,
    )  # fmt: skip


def seen(batches):
    """(scene, view) -> sum over its points, of every item that came."""
    out = []
    for b in batches:
        for i, scene in enumerate(b["scene_id"]):
            mine = b["points"][b["point_cloud"] == i]
            out.append((scene, int(b["view"][i]), mine.double().sum().item()))
    return out


@pytest.fixture(scope="module")
def expected(records):
    return sorted(
        (c.scene_id, c.view, pytest.approx(float(c.points.astype(float).sum()), abs=1e-9))
        for s in records.scenes
        if s.split == "train"
        for c in records.clouds[s.scene_id]
    )


# Four workers on two cores is what is tested here.
@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker")
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_every_cloud_once_with_any_number_of_workers(dataset, expected, workers):
    source = PointCloudDataset(dataset, split="train")
    assert len(source[0]["points"]) > 0  # the parent has read before it forks
    assert sorted(seen(loader(source, workers))) == expected


def test_fixed_size_resamples_each_epoch_and_repeats_by_seed(dataset):
    source = PointCloudDataset(dataset, points=64, seed=3)
    batch = next(iter(loader(source, 0)))
    assert batch["points"].shape == (3, 64, 3)
    assert batch["segment"].shape == (3, 64)
    full = PointCloudDataset(dataset, min_points=1)
    assert len(source) == len(full)
    for i in range(len(full)):
        cloud, sampled = full[i]["points"], source[i]["points"]
        rows = {tuple(p) for p in cloud.tolist()}
        drawn = [tuple(p) for p in sampled.tolist()]
        assert set(drawn) <= rows
        assert len(set(drawn)) == min(64, len(rows))  # no repeats unless there are too few
    again = PointCloudDataset(dataset, points=64, seed=3)
    assert torch.equal(again[4]["points"], source[4]["points"])
    again.set_epoch(1)
    assert not torch.equal(again[4]["points"], source[4]["points"])


def test_frame_option_really_transforms(dataset, records):
    camera = PointCloudDataset(dataset, split="val", frame="camera")
    world = PointCloudDataset(dataset, split="val", frame="world")
    for one, two in zip(camera, world, strict=True):
        T = one["T_world_cam"].numpy()
        np.testing.assert_allclose(
            transform_points(T, one["points"].numpy()), two["points"].numpy(), atol=1e-6
        )


def test_grasps_lie_in_the_cloud_frame(dataset, records):
    """Against a composition of matrices: hand to object is the same in both worlds."""
    sets = {g.object_id: g for g in records.grasps}
    scenes = {s.scene_id: s for s in records.scenes}
    for frame in ("camera", "world"):
        source = PointCloudDataset(dataset, hand="jaw", protocol="fc", frame=frame)
        for item in source:
            scene, grasps = scenes[item["scene_id"]], item["grasps"]
            assert len(grasps["success"]) == 7 * len(scene.object_ids)
            T_world_cam = item["T_world_cam"].numpy()
            for row in range(len(grasps["success"])):
                slot, index = int(grasps["object_slot"][row]), int(grasps["grasp_index"][row])
                of = sets[scene.object_ids[slot]]
                T_object_hand = np.linalg.inv(pose_to_matrix(of.object_pose)) @ pose_to_matrix(
                    of.squeeze_qpos[index]
                )
                T = pose_to_matrix(scene.object_poses[slot]) @ T_object_hand
                if frame == "camera":
                    T = np.linalg.inv(T_world_cam) @ T
                got = grasps["squeeze_qpos"][row].numpy()
                np.testing.assert_allclose(pose_to_matrix(got), T, atol=1e-12)
                np.testing.assert_array_equal(got[7:], of.squeeze_qpos[index, 7:])


def test_labels_are_those_of_the_protocol_and_none_is_made_up(dataset, records):
    table = GraspTable(dataset, "train", "jaw", "tabletop")
    found = table.of_scene(["box_b"], np.array([[0, 0, 0, 1.0, 0, 0, 0]]), np.eye(4))
    label = next(x for x in records.labels if (x.object_id, x.protocol) == ("box_b", "tabletop"))
    assert found["grasp_index"].tolist() == label.grasp_index.tolist() == [2, 3, 4, 5, 6]
    assert found["success"].tolist() == label.success.tolist()
    assert [table.outcome_codes[i] for i in found["outcome"]] == label.outcome.tolist()
    assert table.joint_names == ("finger_left", "finger_right")


def test_wrong_choices_name_the_right_ones(dataset, tmp_path):
    with pytest.raises(UnknownChoiceError, match=r"'dev'.*train, val"):
        PointCloudDataset(dataset, split="dev")
    with pytest.raises(UnknownChoiceError, match="choose one of: jaw"):
        PointCloudDataset(dataset, hand="claw")
    with pytest.raises(UnknownChoiceError, match="choose one of: fc, tabletop"):
        PointCloudDataset(dataset, hand="jaw", protocol="lift")
    with pytest.raises(ValueError, match="needs a hand"):
        PointCloudDataset(dataset, protocol="fc")
    with pytest.raises(DatasetError, match="complete dataset"):
        PointCloudDataset(tmp_path)


def test_a_lost_chunk_is_an_error_not_zeros(records, tmp_path):
    records.write(tmp_path)
    (tmp_path / "shards/train-00000.zarr/points/c/0/0").unlink()
    source = PointCloudDataset(tmp_path)
    with pytest.raises(DatasetError, match="verify"):
        source[0]


def test_pickles_without_open_handles(dataset):
    source = PointCloudDataset(dataset)
    first = source.table.read(0, 1)[0]["points"]
    copy = pickle.loads(pickle.dumps(source.table))
    np.testing.assert_array_equal(copy.read(0, 1)[0]["points"], first)


class PointNet(torch.nn.Module):
    """Qi et al. 2017 without the transform nets: shared MLP, maximum, MLP."""

    def __init__(self):
        super().__init__()
        linear, relu = torch.nn.Linear, torch.nn.ReLU
        self.point = torch.nn.Sequential(linear(3, 32), relu(), linear(32, 64), relu())
        self.head = torch.nn.Sequential(linear(64, 32), relu(), linear(32, 1))

    def forward(self, points):
        return self.head(self.point(points).max(dim=1).values)[:, 0]


def test_a_pointnet_trains(tmp_path, record_maker):
    """Two epochs; the target, tall box or flat box, can be seen in the points."""
    torch.manual_seed(0)
    record_maker(train=60, val=0).write(tmp_path, config=ShardConfig())
    source = PointCloudDataset(tmp_path, points=48, frame="world")
    batches = PointCloudLoader(source, 8, block=4, num_workers=1)
    net = PointNet()
    # By hand: torch.optim imports torch's compiler, which takes longer than the training.
    speed = [torch.zeros_like(p) for p in net.parameters()]
    means = []
    for _ in range(2):
        losses = []
        for batch in batches:
            centred = batch["points"] - batch["points"].mean(dim=1, keepdim=True)
            tall = torch.tensor([float("box_b" in ids) for ids in batch["object_ids"]])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(net(centred * 20), tall)
            net.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p, v in zip(net.parameters(), speed, strict=True):
                    v.mul_(0.9).add_(p.grad)
                    p.sub_(v, alpha=0.05)
            losses.append(loss.item())
        means.append(float(np.mean(losses)))
    assert np.isfinite(means).all()
    assert means[1] < 0.8 * means[0]
