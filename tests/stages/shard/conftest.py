"""A small synthetic dataset: boxes of points seen by pinhole cameras, built with numpy alone."""

from dataclasses import dataclass

import numpy as np
import pytest

from schemas.frames import invert, look_at, pose_to_matrix, transform_points
from schemas.records import Cloud, GraspSet, LabelSet, ObjectAsset, Scene
from stages.shard.config import ShardConfig
from stages.shard.write import write_dataset

SPLITS = {"box_a": "train", "box_b": "train", "box_c": "val"}
INTRINSICS = np.array([300.0, 300.0, 160.0, 120.0, 320.0, 240.0])
TETRAHEDRON = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0], [0, 0, 4]], np.float32) / 100
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], np.int32)
JOINTS = ("finger_left", "finger_right")


def random_pose(rng, spread=0.05):
    q = rng.normal(size=4)
    return np.array(
        [*np.add(rng.uniform(-spread, spread, 3), (0, 0, 0.1)), *(q / np.linalg.norm(q))]
    )


def asset(name):
    z = np.zeros
    return ObjectAsset(
        object_id=name, source=f"test:{name}", licence="CC0-1.0", sha256="0" * 64, scale=1.0,
        vertices=TETRAHEDRON, faces=FACES,
        piece_vertices=z((0, 3), np.float32), piece_faces=z((0, 3), np.int32),
        piece_vertex_offsets=z(1, np.int64), piece_face_offsets=z(1, np.int64),
        volume=1e-4, density=1000.0, mass=0.1, center_of_mass=z(3), inertia=np.eye(3) * 1e-5,
        stable_poses=z((0, 7)), stable_probabilities=z(0), notes="",
    )  # fmt: skip


def scene(rng, name, objects):
    poses = np.stack([random_pose(rng) for _ in objects])
    return Scene(
        scene_id=name, kind="tabletop", split=SPLITS[objects[0]], object_ids=tuple(objects),
        object_poses=poses, object_scales=np.ones(len(objects)),
        object_masses=np.full(len(objects), 0.1), table_pose=np.array([0, 0, 0, 1.0, 0, 0, 0]),
        table_size=np.array([1.0, 1.0]), settle_time=0.4,
    )  # fmt: skip


def cloud(rng, of, view, frame="camera"):
    """A box (one per object) of 2 cm, 30 to 60 points each; a view may be empty."""
    T = look_at(np.add(rng.uniform(-0.3, 0.3, 3), (0, 0, 0.9)), [0, 0, 0.1])
    points, segment = [np.zeros((0, 3))], [np.zeros(0, np.uint16)]
    for slot, pose in enumerate(of.object_poses if view != 2 else []):
        count = int(rng.integers(30, 60))
        local = rng.uniform(-0.02, 0.02, (count, 3)) * (
            1,
            1,
            1 if of.object_ids[slot] == "box_a" else 3,
        )
        points.append(transform_points(pose_to_matrix(pose), local))
        segment.append(np.full(count, 2 + slot, np.uint16))
    world = np.concatenate(points)
    shown = transform_points(invert(T), world) if frame == "camera" else world
    return Cloud(
        scene_id=of.scene_id, view=view, frame=frame, points=shown.astype(np.float32),
        segment=np.concatenate(segment), valid_count=len(shown) * 2, intrinsics=INTRINSICS,
        T_world_cam=T,
    )  # fmt: skip


def grasp_set(rng, name, count=7):
    qpos = [np.stack([np.concatenate([random_pose(rng), rng.uniform(0, 0.04, 2)])
                      for _ in range(count)]) for _ in range(3)]  # fmt: skip
    return GraspSet(
        hand="jaw", hand_digest="abc", object_id=name, joint_names=JOINTS,
        object_pose=random_pose(rng), pregrasp_qpos=qpos[0], grasp_qpos=qpos[1],
        squeeze_qpos=qpos[2], grasp_index=np.arange(count),
    )  # fmt: skip


def label_set(rng, grasps, protocol="fc", skip=0):
    index = grasps.grasp_index[skip:]
    n = len(index)
    success = rng.random(n) < 0.5
    return LabelSet(
        hand=grasps.hand, object_id=grasps.object_id, protocol=protocol, protocol_hash="h1",
        engine="mujoco 4.0.0", grasp_index=index, success=success,
        outcome=np.where(success, "success", "slipped"),
        direction_success=np.repeat(success[:, None], 6, 1),
        final_object_pose=np.stack([random_pose(rng) for _ in range(n)]),
        translation=rng.random(n), rotation=rng.random(n),
        contacts_grasp=np.ones(n, np.int32), contacts_squeeze=np.ones(n, np.int32),
        contacts_end=np.ones(n, np.int32), hand_object_penetration=np.zeros(n),
        self_penetration=np.zeros(n), contact_number=np.ones(n, np.int32),
        contact_distance=rng.random(n) * 1e-3, contact_consistency=rng.random(n),
        qp=rng.random(n), qp_dfc=rng.random(n), q1=rng.random(n), tdg=rng.random(n),
        dfc=rng.random(n), confidence=np.full(n, np.nan), seed=2**63 + 5,
    )  # fmt: skip


@dataclass
class Records:
    scenes: list
    clouds: dict
    grasps: list
    labels: list

    def write(self, out, config=None, reverse=False, **changes):
        step = -1 if reverse else 1
        arguments = {
            "config": config or ShardConfig(scenes_per_shard=3, chunk_points=128),
            "manifest": {"crop": {"box": None}, "crop_digest": "d", "seeds": {"root": 0}},
            "scenes": self.scenes[::step],
            "clouds_of": lambda name: self.clouds[name][::step],
            "grasps": self.grasps[::step],
            "labels": self.labels[::step],
            "assets": {name: asset(name) for name in list(SPLITS)[::step]},
            "splits": SPLITS,
        }
        return write_dataset(out, **(arguments | changes))


def make_records(frame="camera", seed=0, train=8, val=2):
    rng = np.random.default_rng(seed)
    scenes = [
        scene(rng, f"tabletop-{i:05d}", (["box_a"], ["box_b"], ["box_b", "box_a"])[i % 3])
        for i in range(train)
    ] + [scene(rng, f"tabletop-{train + i:05d}", ["box_c"]) for i in range(val)]
    clouds = {s.scene_id: [cloud(rng, s, v, frame) for v in range(4)] for s in scenes}
    grasps = [grasp_set(rng, name) for name in SPLITS]
    labels = [label_set(rng, g, p, skip=2 if (g.object_id, p) == ("box_b", "tabletop") else 0)
              for g in grasps for p in ("fc", "tabletop")]  # fmt: skip
    return Records(scenes, clouds, grasps, labels)


@pytest.fixture(scope="session")
def record_maker():
    return make_records


@pytest.fixture(scope="session")
def records():
    return make_records()


@pytest.fixture(scope="session")
def small_dataset(tmp_path_factory):
    """Three shards; read only."""
    out = tmp_path_factory.mktemp("small")
    make_records(train=1, val=0).write(out)
    return out


@pytest.fixture(scope="session")
def dataset(records, tmp_path_factory):
    """Read only: a test that damages files copies it first."""
    out = tmp_path_factory.mktemp("dataset")
    records.write(out)
    return out
