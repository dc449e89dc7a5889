"""MjEnv as a service: workers, crashes, time limits, rollouts, refusals."""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.records import GraspSet, ObjectAsset
from stages.envs.base import build_env
from stages.envs.config import EnvConfig, FcConfig, MjEnvConfig
from stages.envs.errors import EnvConfigError, NotInteractiveError
from stages.envs.mujoco.env import MjEnv

MakeRow = Callable[..., NDArray[np.float64]]
MakeGrasps = Callable[..., GraspSet]


@pytest.fixture
def grasps(make_row: MakeRow, make_grasps: MakeGrasps) -> GraspSet:
    return make_grasps([make_row(0.03), make_row(0.3), make_row(0.045), make_row(-0.01)])


def test_pool_of_any_size_equals_the_calling_process(grasps: GraspSet, box: ObjectAsset) -> None:
    answers = []
    for workers in (0, 1, 2):
        env = MjEnv(MjEnvConfig(hand="panda_gripper", workers=workers))
        with env:
            answers.append(env.evaluate(grasps, box, "fc").results)
    for rows in answers[1:]:
        assert len(rows) == len(grasps)
        for a, b in zip(answers[0], rows, strict=True):
            assert a.outcome == b.outcome
            assert np.array_equal(a.final_object_pose, b.final_object_pose, equal_nan=True)
            assert np.array_equal(a.translation, b.translation, equal_nan=True)


def test_a_dead_worker_costs_one_row(box: ObjectAsset, grasps: GraspSet) -> None:
    # Long holds, so that the worker is surely busy when it is killed.
    config = MjEnvConfig(
        hand="panda_gripper", workers=1, fc=FcConfig(hold_time=60.0, settled_move=0.0)
    )
    with MjEnv(config) as env:
        assert isinstance(env, MjEnv)
        warm = replace(
            grasps,
            pregrasp_qpos=grasps.pregrasp_qpos[1:2],
            grasp_qpos=grasps.grasp_qpos[1:2],
            squeeze_qpos=grasps.squeeze_qpos[1:2],
            grasp_index=grasps.grasp_index[1:2],
        )
        env.evaluate(warm, box, "fc")  # the worker has started
        assert env._pool is not None
        (worker,) = env._pool._workers
        pid = worker.process.pid
        assert pid is not None

        def kill_when_busy() -> None:
            while worker.task is None:
                time.sleep(0.01)
            time.sleep(0.3)
            os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_when_busy)
        killer.start()
        # One long grasp, then three that end at once.
        rows = [0, 1, 3, 1]
        some = replace(
            grasps,
            pregrasp_qpos=grasps.pregrasp_qpos[rows],
            grasp_qpos=grasps.grasp_qpos[rows],
            squeeze_qpos=grasps.squeeze_qpos[rows],
            grasp_index=np.arange(4),
        )
        results = env.evaluate(some, box, "fc").results
        killer.join()
    assert [r.outcome for r in results] == [
        "crashed",
        "no_contact",
        "initial_penetration",
        "no_contact",
    ]
    assert "-9" in results[0].message


def test_time_limit_is_a_code(grasps: GraspSet, box: ObjectAsset) -> None:
    config = MjEnvConfig(
        hand="panda_gripper",
        workers=0,
        timeout_s=1e-6,
    )
    with MjEnv(config) as env:
        results = env.evaluate(grasps, box, "fc").results
    assert [r.outcome for r in results] == [
        "timed_out",
        "timed_out",
        "timed_out",
        "initial_penetration",
    ]


def test_rollout_shows_the_lift(grasps: GraspSet, box: ObjectAsset) -> None:
    with MjEnv(MjEnvConfig(hand="panda_gripper", workers=0)) as env:
        evaluation = env.evaluate(grasps, box, "tabletop", rollouts=True, scene_id="s1")
    first = evaluation.rollouts[0]
    assert (first.scene_id, first.success, first.grasp_index) == ("s1", True, 10)
    assert first.qpos.shape == (len(first.obj_pose), 9)
    assert first.qpos[-1, 2] - first.qpos[0, 2] == pytest.approx(0.2, abs=1e-3)
    assert first.obj_pose[-1, 2] - first.obj_pose[0, 2] == pytest.approx(0.2, abs=2e-3)


def test_interactive_methods_say_why_not() -> None:
    env = MjEnv(MjEnvConfig(hand="panda_gripper"))
    for call in (env.reset, env.get_qpos, env.get_info, env.get_rgb, env.get_pointcloud):
        with pytest.raises(NotInteractiveError, match="only scores grasp poses"):
            call()


def test_build_env_without_mujoco_is_refused_with_the_reason() -> None:
    with pytest.raises(EnvConfigError, match="ms_env_config for ManiSkill"):
        build_env(EnvConfig())


def test_wrong_joint_order_is_refused(grasps: GraspSet, box: ObjectAsset) -> None:
    with (
        MjEnv(MjEnvConfig(hand="panda_gripper", workers=0)) as env,
        pytest.raises(EnvConfigError, match="reindex"),
    ):
        env.evaluate(replace(grasps, joint_names=grasps.joint_names[::-1]), box, "fc")


def test_empty_set_gives_no_rows(grasps: GraspSet, box: ObjectAsset) -> None:
    none = replace(
        grasps,
        pregrasp_qpos=np.zeros((0, 9)),
        grasp_qpos=np.zeros((0, 9)),
        squeeze_qpos=np.zeros((0, 9)),
        grasp_index=np.zeros(0, np.int64),
    )
    for workers in (0, 2):
        with MjEnv(MjEnvConfig(hand="panda_gripper", workers=workers)) as env:
            assert env.evaluate(none, box, "fc").results == ()


def test_a_diverged_grasp_is_coded_and_leaves_no_log(
    box: ObjectAsset,
    make_row: MakeRow,
    make_grasps: MakeGrasps,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    far = make_row(0.03)
    far[1:, 0] += 1e6  # the root would have to jump by 1000 km
    with MjEnv(MjEnvConfig(hand="panda_gripper", workers=0)) as env:
        results = env.evaluate(make_grasps([far, make_row(0.03)]), box, "fc").results
    assert [r.outcome for r in results] == ["diverged", "ok"]
    assert list(tmp_path.iterdir()) == []
