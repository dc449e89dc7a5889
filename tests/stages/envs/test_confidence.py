"""Label confidence: repeats under small errors, on a grip whose limit statics gives."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from schemas.frames import pose_to_matrix
from schemas.records import GraspSet, ObjectAsset
from stages.envs.base import GraspResult, build_env
from stages.envs.config import ConfidenceConfig, EnvConfig, MjEnvConfig
from stages.envs.grasp_input import GraspInput
from stages.envs.mujoco.evaluator import Evaluator
from stages.envs.mujoco.perturb import perturbed

REPEATS = 8


def score(
    grasps: GraspSet, box: ObjectAsset, protocol: str = "fc", workers: int = 0, seed: int = 1
) -> list[GraspResult]:
    config = MjEnvConfig(
        hand="panda_gripper", workers=workers, confidence=ConfidenceConfig(repeats=REPEATS)
    )
    with build_env(EnvConfig(mj_env_config=config)) as env:
        return list(env.evaluate(grasps, box, protocol, seed=seed).results)


def grip(make_row: Callable[..., np.ndarray], newton: float) -> np.ndarray:
    row = make_row(0.03)
    row[2, 7:] = 0.02 - newton / 1000  # kp is 1000 N/m
    return row


@pytest.mark.parametrize(("protocol", "limit"), [("fc", 0.9), ("tabletop", 1.0)])
def test_sure_hopeless_and_between(
    protocol: str, limit: float, box: ObjectAsset, make_row: Callable, make_grasps: Callable
) -> None:
    # 1 N (0.98 N of weight, and the lift accelerates) needs 1 / (2 mu) = 0.83 N a finger;
    # friction and mass vary by 20 %
    grasps = make_grasps([grip(make_row, 8.0), make_row(0.3), grip(make_row, limit)])
    sure, hopeless, between = score(grasps, box, protocol)
    assert sure.confidence == 1.0
    assert hopeless.confidence == 0.0
    assert 0.0 < between.confidence < 1.0


def test_it_depends_on_the_seed_and_not_on_workers_or_neighbours(
    box: ObjectAsset, make_row: Callable, make_grasps: Callable
) -> None:
    rows = [grip(make_row, newton) for newton in (0.8, 0.9, 1.0)]
    grasps = make_grasps(rows)
    here = [r.confidence for r in score(grasps, box)]
    assert here == [r.confidence for r in score(grasps, box, workers=2)]
    only_last = replace(make_grasps(rows[2:]), grasp_index=grasps.grasp_index[2:])
    assert score(only_last, box)[0].confidence == here[2]
    assert [r.confidence for r in score(grasps, box, seed=2)] != here


def test_a_faulty_grasp_has_none_and_repeats_leave_the_verdict(
    box: ObjectAsset, make_row: Callable, make_grasps: Callable
) -> None:
    nan = make_row(0.03)
    nan[1, 3] = np.nan
    grasps = make_grasps([nan, make_row(0.03)])
    faulty, good = score(grasps, box)
    assert np.isnan(faulty.confidence)
    with build_env(EnvConfig(mj_env_config=MjEnvConfig(hand="panda_gripper", workers=0))) as env:
        plain = env.evaluate(grasps, box, "fc").results[1]
    assert np.isnan(plain.confidence)
    assert good.translation == plain.translation
    np.testing.assert_array_equal(good.final_object_pose, plain.final_object_pose)


def test_errors_are_as_large_as_stated(box: ObjectAsset, make_row: Callable) -> None:
    config = ConfidenceConfig(repeats=1)
    grasp = Evaluator(MjEnvConfig(hand="panda_gripper"))._model(box, "fc")
    pregrasp, target, squeeze = make_row(0.03)
    row = GraspInput(
        grasp_index=0, object_pose=np.array([0.1, 0, 0.03, 1, 0, 0, 0]), pregrasp_qpos=pregrasp,
        grasp_qpos=target, squeeze_qpos=squeeze,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    shifts, turns, masses, frictions = [], [], [], []
    for _ in range(200):
        model, moved = perturbed(grasp, row, config, rng)
        T = pose_to_matrix(moved.grasp_qpos[:7]) @ np.linalg.inv(pose_to_matrix(target[:7]))
        centre = np.array([0.1, 0, 0.03, 1])
        shifts.append(np.linalg.norm((T @ centre - centre)[:3]))
        turns.append(np.arccos(np.clip((np.trace(T[:3, :3]) - 1) / 2, -1, 1)))
        masses.append(model.mass / grasp.mass)
        frictions.append(model.model.geom_friction[0, 0] / grasp.model.geom_friction[0, 0])
        np.testing.assert_array_equal(moved.grasp_qpos[7:], target[7:])
    assert 0.0018 < max(shifts) <= 0.002 + 1e-9
    assert np.deg2rad(1.9) < max(turns) <= np.deg2rad(2) + 1e-9
    for values in (masses, frictions):
        assert 0.8 <= min(values) < 0.82
        assert 1.18 < max(values) <= 1.2
    assert grasp.mass == 0.1
