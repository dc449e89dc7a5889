"""Every hand of the repository finds grasps on a box, and physics agrees with some of them."""

from dataclasses import replace

import numpy as np
import pytest
import trimesh

from schemas.records import ObjectAsset
from stages.assets.hands.load import load_hand
from stages.assets.hands.spec import PARALLEL_JAW
from stages.envs.base import GraspResult
from stages.envs.config import MetricsConfig, MjEnvConfig
from stages.envs.grasp_input import GraspInput
from stages.envs.mujoco.evaluator import Evaluator
from stages.grasp.backends.closing import HandCloser
from stages.grasp.config import GraspConfig
from stages.grasp.sampler import Candidate, Sampler
from tests.hands import hand_params
from tests.solids import solid_asset

COUNT = 6
QUICK = MetricsConfig(analytic=False)


@pytest.fixture(scope="module")
def pillar() -> ObjectAsset:
    """50 x 50 x 120 mm."""
    return solid_asset(trimesh.creation.box((0.05, 0.05, 0.12)), "pillar")


def candidates(name: str, asset: ObjectAsset, pose: np.ndarray) -> list[Candidate]:
    sampler = Sampler(load_hand(name), asset, GraspConfig(chunk=COUNT))
    return sampler.chunk(0, pose, np.random.default_rng(0))[0]


def label(
    name: str, asset: ObjectAsset, pose: np.ndarray, found: list[Candidate], protocol: str
) -> list[GraspResult]:
    evaluator = Evaluator(MjEnvConfig(hand=name, workers=0, metrics=QUICK))
    rows = [
        GraspInput(
            grasp_index=i,
            object_pose=pose,
            pregrasp_qpos=c.pregrasp,
            grasp_qpos=c.grasp,
            squeeze_qpos=c.squeeze,
        )
        for i, c in enumerate(found)
    ]
    return [evaluator.evaluate(row, asset, protocol) for row in rows]


@pytest.mark.parametrize("name", hand_params())
def test_some_grasps_of_a_box_hold(name: str, pillar: ObjectAsset) -> None:
    pose = max(pillar.stable_poses, key=lambda p: p[2])  # on end
    found = candidates(name, pillar, pose)
    assert len(found) == COUNT
    held = sum(r.success for r in label(name, pillar, pose, found, "fc"))
    assert held >= (4 if load_hand(name).kind == PARALLEL_JAW else 1)


@pytest.mark.parametrize("name", hand_params("xarm7_ability", "bimanual_panda"))
def test_a_rig_reaches_grasps_and_lifts(name: str) -> None:
    """The arm is moved to the hand's place, its base and what it does not carry stay."""
    hand = load_hand(name)
    ball = solid_asset(trimesh.creation.icosphere(3, 0.03), "ball")
    pose = ball.stable_poses[0]
    found = candidates(name, ball, pose)
    closer = HandCloser(hand, ball)
    arm = np.isin(hand.joint_names, hand.ik_joints)
    for c in found:
        for row in (c.pregrasp, c.grasp, c.squeeze):
            assert row[:7].tolist() == list(hand.base_pose)
        assert np.array_equal(c.pregrasp[7:][arm], c.grasp[7:][arm])  # closing moves fingers only
        assert closer.touch(c.pregrasp).depth == 0.0
        np.testing.assert_allclose(closer.placed(c.grasp)[:3], c.placed[:3], atol=1e-3)
    lifted = [r for r in label(name, ball, pose, found, "tabletop") if r.success]
    assert lifted
    for result in lifted:
        assert result.final_object_pose[2] == pytest.approx(pose[2] + 0.2, abs=0.03)


def test_what_the_arm_cannot_reach_is_counted() -> None:
    far = replace(load_hand("bimanual_panda"), base_pose=(-5.0, 0, 0, 1, 0, 0, 0))
    ball = solid_asset(trimesh.creation.icosphere(2, 0.03), "ball")
    config = GraspConfig(chunk=1, tries_per_grasp=6)
    found, rejected = Sampler(far, ball, config).chunk(
        0, ball.stable_poses[0], np.random.default_rng(0)
    )
    assert found == []
    assert set(rejected) <= {"out of reach", "not antipodal"}
    assert rejected["out of reach"] > 0
