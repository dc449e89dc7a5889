"""Candidates of both kinds of hand: free before, in contact at the grasp, distinct, repeatable."""

from dataclasses import fields, replace

import numpy as np
import pytest
import trimesh

from schemas.frames import pose_to_matrix, rotation_angle
from schemas.records import GraspSet, ObjectAsset
from schemas.validate import problems
from stages.assets.hands.load import load_hand
from stages.contract import Item, Outcome
from stages.grasp.backends.closing import HandCloser
from stages.grasp.config import GraspConfig
from stages.grasp.errors import GraspConfigError
from stages.grasp.sampler import Sampler
from stages.grasp.stage import GraspStage
from tests.solids import jaw_row, solid_asset

HANDS = ("allegro_right", "panda_gripper")
CONFIG = GraspConfig(grasps_per_object=8, chunk=4)


@pytest.fixture(scope="module")
def can() -> ObjectAsset:
    return solid_asset(trimesh.creation.cylinder(0.03, 0.1, sections=48), "can")


def run(asset: ObjectAsset, config: GraspConfig, block: int = 99) -> list[Outcome]:
    stage = GraspStage()
    items = stage.plan(config, {"assets": [Item(id=asset.object_id, tags={"split": "val"})]})
    seeds = {item.id: sum(map(ord, item.id)) for item in items}
    inputs = {("assets", asset.object_id): asset}
    outcomes: list[Outcome] = []
    for start in range(0, len(items), block):
        outcomes += stage.run(items[start : start + block], inputs, config, seeds)
    return outcomes


@pytest.fixture(scope="module")
def outcomes(can: ObjectAsset) -> list[Outcome]:
    return run(can, CONFIG)


def test_a_jaw_stops_on_the_faces_of_a_box(box: ObjectAsset) -> None:
    """A box of 40 mm across: each finger stops within a step of 20 mm."""
    closer = HandCloser(load_hand("panda_gripper"), box)
    closer.place_object(np.array([0, 0, 0.03, 1, 0, 0, 0]))
    pregrasp = jaw_row(0.03)[0]
    assert closer.touch(pregrasp).depth == 0.0
    grasp, touch = closer.close(pregrasp, steps=200)
    step = 0.04 / 200
    assert np.abs(grasp[7:] - 0.02).max() <= step + 1e-9
    assert touch.fingers == {0, 1}
    assert 0 <= touch.depth <= step + 1e-9
    assert np.abs(np.abs(touch.normals @ [0, 1, 0]) - 1).max() < 1e-6
    assert (touch.normals @ touch.normals.T).min() == pytest.approx(-1, abs=1e-6)
    # The lowest point of the hand is that of its fingers' collision meshes: near the tip.
    assert 0 < closer.lowest(pregrasp) < 0.03
    lower = pregrasp - np.array([0, 0, 0.01, 0, 0, 0, 0, 0, 0])
    assert closer.lowest(pregrasp) - closer.lowest(lower) == pytest.approx(0.01, abs=1e-6)


def test_every_candidate_keeps_its_promises(outcomes: list[Outcome], can: ObjectAsset) -> None:
    assert [o.code for o in outcomes] == ["ok"] * 4
    for outcome in outcomes:
        record = outcome.record
        assert isinstance(record, GraspSet)
        assert problems(record) == []
        hand = load_hand(record.hand)
        closer = HandCloser(hand, can)
        closer.place_object(record.object_pose)
        low, high = closer.joint_range.T
        for i in range(len(record)):
            pre, grasp, squeeze = (
                record.pregrasp_qpos[i], record.grasp_qpos[i], record.squeeze_qpos[i],
            )  # fmt: skip
            for qpos in (pre, grasp, squeeze):
                assert (qpos[7:] >= low - 1e-9).all()
                assert (qpos[7:] <= high + 1e-9).all()
                assert np.array_equal(qpos[:7], pre[:7])  # the root stays
            assert closer.touch(pre).depth == 0.0
            touch = closer.touch(grasp)
            assert len(touch.fingers) >= 2
            assert 0 < touch.depth <= CONFIG.max_penetration
            assert (touch.normals @ touch.normals.T).min() <= CONFIG.opposition
            assert min(closer.lowest(pre), closer.lowest(grasp)) >= CONFIG.table_clearance
            delta = np.array(hand.squeeze_delta)
            np.testing.assert_allclose(squeeze[7:], np.clip(grasp[7:] + delta, low, high))


def test_candidates_of_a_chunk_are_distinct(outcomes: list[Outcome]) -> None:
    for record in [outcome.record for outcome in outcomes]:
        for i in range(len(record)):
            for j in range(i):
                a, b = record.grasp_qpos[i], record.grasp_qpos[j]
                assert (
                    np.linalg.norm(a[:3] - b[:3]) >= CONFIG.dedup_distance
                    or rotation_angle(a[3:7], b[3:7]) >= CONFIG.dedup_angle
                )


def test_hands_come_from_all_sides(can: ObjectAsset) -> None:
    config = GraspConfig(hands=("panda_gripper",), grasps_per_object=64, chunk=4)
    approach = []
    for record in [outcome.record for outcome in run(can, config)]:
        R = pose_to_matrix(record.object_pose)[:3, :3]
        approach += [R.T @ (row[:3] - record.object_pose[:3]) for row in record.grasp_qpos]
    approach = np.array(approach) / np.linalg.norm(approach, axis=1, keepdims=True)
    assert len(approach) == 64
    assert np.linalg.norm(approach.mean(axis=0)) < 0.4
    assert len({tuple(octant) for octant in approach > 0}) == 8


def test_same_seed_same_grasps_whatever_the_block(
    outcomes: list[Outcome], can: ObjectAsset
) -> None:
    again = run(can, CONFIG, block=1)
    more = run(can, replace(CONFIG, grasps_per_object=12))
    by_id = {o.id: o for o in more}
    assert len(more) == 6
    for outcome, other in zip(outcomes, again, strict=True):
        for twin in (other, by_id[outcome.id]):
            for field in fields(GraspSet):
                a, b = getattr(outcome.record, field.name), getattr(twin.record, field.name)
                assert np.array_equal(a, b), field.name
    indices = [i for o in more if o.record.hand == HANDS[1] for i in o.record.grasp_index]
    assert len(set(indices)) == len(indices)


def test_a_face_too_wide_gives_way_to_another_pose() -> None:
    """100 x 100 x 30 mm: flat on the table no jaw of 80 mm fits from above, on its edge one does.

    Lying down it is the likelier pose, so the sampler must have moved on from it.
    """
    plate = solid_asset(trimesh.creation.box((0.1, 0.1, 0.03)), "plate")
    assert abs(plate.stable_poses[0, 2] - 0.015) < 1e-6
    config = GraspConfig(hands=("panda_gripper",), grasps_per_object=16, chunk=4)
    found = run(plate, config)
    assert [o.code for o in found] == ["ok"] * 4
    upright = [o.record.object_pose[2] > 0.04 for o in found]
    assert sum(upright) >= 3


def test_what_no_pose_allows_is_coded_with_its_reasons() -> None:
    block = solid_asset(trimesh.creation.box((0.2, 0.2, 0.2)), "block")
    config = GraspConfig(hands=("panda_gripper",), grasps_per_object=4, chunk=4)
    [outcome] = run(block, config)
    assert outcome.code == "no_candidates"
    assert "in all of 6 stable poses" in outcome.message
    assert "not antipodal" in outcome.message


def test_stable_poses_are_drawn_by_their_probability(can: ObjectAsset) -> None:
    """First draws follow the probabilities, as in drawing without replacement."""
    from stages.grasp.stage import _by_probability

    two = replace(
        can,
        stable_poses=can.stable_poses[:2],
        stable_probabilities=np.array([0.8, 0.2]),
    )
    rng = np.random.default_rng(0)
    first = [_by_probability(two, rng)[0] for _ in range(4000)]
    assert np.mean(first) == pytest.approx(0.2, abs=5 * np.sqrt(0.16 / 4000))


def test_chunks_start_from_different_points(can: ObjectAsset) -> None:
    sampler = Sampler(load_hand("panda_gripper"), can, CONFIG)
    pose = can.stable_poses[0]
    first, _ = sampler.chunk(0, pose, np.random.default_rng(0))
    second, _ = sampler.chunk(1, pose, np.random.default_rng(0))
    assert not np.array_equal(first[0].grasp, second[0].grasp)


def test_two_hands_of_one_name_are_refused(tmp_path) -> None:
    import yaml

    from stages.assets.hands.load import HANDS_DIR

    copy = tmp_path / "mine.yaml"
    copy.write_text(yaml.safe_dump(yaml.safe_load((HANDS_DIR / "panda_gripper.yaml").read_text())))
    with pytest.raises(GraspConfigError, match="both named 'panda_gripper'"):
        GraspStage().plan(GraspConfig(hands=("panda_gripper", str(copy))), {"assets": []})
