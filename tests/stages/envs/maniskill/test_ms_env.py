"""MsEnv through BaseEnv: grasps carried out, interaction, state, and bad input."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from schemas.records import GraspSet
from stages.contract import Item
from stages.envs.base import BaseEnv, build_env
from stages.envs.config import EnvConfig, MjEnvConfig, MsEnvConfig, RolloutConfig
from stages.envs.errors import EnvConfigError
from stages.envs.maniskill.env import MsEnv
from stages.grasp.config import GraspConfig
from stages.grasp.stage import GraspStage
from tests.maniskill_scenes import a_scene
from tests.solids import box_asset, jaw_grasps, jaw_row

PANDA = "panda_gripper_floating_base"
BOX = box_asset((0.06, 0.04, 0.06))
GOOD, ALSO_GOOD, MISSES = jaw_row(0.03), jaw_row(0.055), jaw_row(0.2)


def ms(agent: str = PANDA, **rollout: object) -> MsEnv:
    config = MsEnvConfig(agent=agent, device="cpu", rollout=RolloutConfig(**rollout))
    env = build_env(EnvConfig(ms_env_config=config))
    assert isinstance(env, MsEnv)
    return env


@pytest.fixture(scope="module")
def env() -> Iterator[MsEnv]:
    with ms() as made:
        yield made


def test_a_box_is_lifted_or_missed_and_every_row_comes_back(env: MsEnv) -> None:
    grasps = jaw_grasps([GOOD, MISSES, ALSO_GOOD])
    done = env.evaluate(grasps, BOX, rollouts=True, scene_id="here")
    assert [r.outcome for r in done.results] == ["ok", "no_contact", "ok"]
    assert done.success.tolist() == [True, False, True]
    assert done.engine.startswith("maniskill ")
    assert done.engine.endswith("cpu")
    held, missed, _ = done.results
    # the hand rises by lift_height, and the box with it
    assert held.lift == pytest.approx(0.2, abs=0.005)
    assert held.contacts_end == 2
    assert held.translation < 0.002
    assert missed.lift == pytest.approx(0.0, abs=1e-3)
    # the hand does not turn, so the box moves in it by the difference of the two paths
    config = RolloutConfig()
    start = round((config.lift_time + config.hold_time) * config.control_freq) + 1
    for result, path in zip(done.results, done.rollouts, strict=True):
        between = (path.obj_pose - path.qpos[:, :7])[-start:, :3]
        slipped = np.linalg.norm(between - between[0], axis=1).max()
        assert result.translation == pytest.approx(slipped, abs=1e-4)
    assert missed.translation == pytest.approx(0.2, abs=0.005)
    rollout = done.rollouts[0]
    assert rollout.grasp_index == 10
    assert rollout.scene_id == "here"
    assert rollout.success
    assert rollout.qpos.shape[1] == 9
    assert rollout.obj_pose.shape == (len(rollout.qpos), 7)
    assert np.abs(np.linalg.norm(rollout.obj_pose[:, 3:], axis=1) - 1).max() < 1e-12
    # the box follows the hand: both rose by the same
    rise = rollout.qpos[-1, 2] - rollout.qpos[0, 2]
    assert rollout.obj_pose[-1, 2] - rollout.obj_pose[0, 2] == pytest.approx(rise, abs=0.003)


def test_a_result_depends_on_nothing_that_ran_before(env: MsEnv) -> None:
    batch = env.evaluate(jaw_grasps([MISSES, ALSO_GOOD, GOOD]), BOX, rollouts=True)
    alone = env.evaluate(jaw_grasps([GOOD]), BOX, rollouts=True)
    with ms() as fresh:
        again = fresh.evaluate(jaw_grasps([GOOD]), BOX, rollouts=True)
    for other in (alone, again):
        assert np.array_equal(other.rollouts[0].obj_pose, batch.rollouts[2].obj_pose)
        assert np.array_equal(other.rollouts[0].qpos, batch.rollouts[2].qpos)


@pytest.mark.parametrize(
    ("friction", "mass", "outcome"),
    [(0.6, 0.8, "ok"), (0.6, 1.4, "no_contact"), (0.3, 0.4, "ok"), (0.3, 0.7, "no_contact")],
)
def test_friction_carries_what_coulomb_says(friction: float, mass: float, outcome: str) -> None:
    """Two pads of 10 N carry 20 N times the friction, in a lift of at most 1.8 m/s^2: 1.03 kg at
    0.6, 0.52 kg at 0.3; at rest 1.22 and 0.61 kg. Pads that kept 0.6 would carry 0.7 kg."""
    with ms(friction=friction, object_mass=mass) as env:
        [result] = env.evaluate(jaw_grasps([GOOD]), BOX).results
    assert result.outcome == outcome


@pytest.mark.parametrize("agent", [PANDA, "panda_gripper"])
def test_a_floating_object_is_held_without_a_lift(agent: str) -> None:
    static = agent == "panda_gripper"
    with ms(agent, floating_object=True, static_base=static) as env:
        done = env.evaluate(jaw_grasps([GOOD, MISSES]), BOX, rollouts=True)
    assert [r.outcome for r in done.results] == ["ok", "no_contact"]
    roots = done.rollouts[0].qpos[:, :3]
    moved = np.abs(roots - roots[0]).max()
    assert (moved == 0.0) if static else (moved < 1e-3)  # a static base is pinned, bit for bit


def test_a_rig_lifts_by_its_arm() -> None:
    """An arm with a hand: closed by the fingers, raised by inverse kinematics, base fixed."""
    config = GraspConfig(hands=("xarm7_ability",), grasps_per_object=2, chunk=2)
    stage, box = GraspStage(), box_asset((0.06, 0.04, 0.08))
    items = stage.plan(config, {"assets": [Item(id="box", tags={"split": "train"})]})
    [found] = stage.run(items, {("assets", "box"): box}, config, {items[0].id: 0})
    with ms("xarm7_ability") as env:
        done = env.evaluate(found.record, box, rollouts=True)
    assert [r.outcome for r in done.results] == ["ok", "ok"]
    for result, rollout in zip(done.results, done.rollouts, strict=True):
        assert result.lift == pytest.approx(0.2, abs=0.01)
        assert np.ptp(rollout.qpos[:, :7], axis=0).max() < 1e-6


def test_bad_rows_are_coded_and_bad_calls_refused(env: MsEnv) -> None:
    broken = GOOD.copy()
    broken[1, 8] = np.nan
    turned = GOOD.copy()
    turned[0, 3:7] *= 1.1
    done = env.evaluate(jaw_grasps([broken, GOOD, turned]), BOX)
    assert [r.outcome for r in done.results] == ["invalid_input", "ok", "invalid_input"]
    assert [r.contact_number for r in done.results] == [-1, -1, -1]
    empty = env.evaluate(_rows(jaw_grasps([GOOD]), 0), BOX)
    assert empty.results == ()
    with pytest.raises(EnvConfigError, match="unknown 'fc'; known: rollout"):
        env.evaluate(jaw_grasps([GOOD]), BOX, "fc")
    with pytest.raises(EnvConfigError, match="the grasps are for object 'box'"):
        env.evaluate(jaw_grasps([GOOD]), replace(BOX, object_id="other"))
    other = replace(jaw_grasps([GOOD]), joint_names=("panda_finger_joint2", "x"))
    with pytest.raises(EnvConfigError, match="reindex the qpos columns"):
        env.evaluate(other, BOX)
    with ms("so100") as arm, pytest.raises(EnvConfigError, match="has no hand file"):
        arm.evaluate(jaw_grasps([GOOD]), BOX)


@pytest.mark.parametrize(
    ("agent", "static", "other"), [("panda_gripper", False, PANDA), (PANDA, True, "panda_gripper")]
)
def test_a_base_that_the_rollout_does_not_drive_is_refused(
    agent: str, static: bool, other: str
) -> None:
    with (
        ms(agent, floating_object=static, static_base=static) as env,
        pytest.raises(EnvConfigError, match=f"use agent: {other}$"),
    ):
        env.evaluate(jaw_grasps([GOOD]), BOX)


def _rows(grasps: GraspSet, count: int) -> GraspSet:
    names = ("pregrasp_qpos", "grasp_qpos", "squeeze_qpos", "grasp_index")
    return replace(grasps, **{name: getattr(grasps, name)[:count] for name in names})


def test_the_hand_is_stepped_where_it_is_sent_and_the_state_comes_back(env: MsEnv) -> None:
    with pytest.raises(EnvConfigError, match="call load"):
        ms().get_qpos()
    env.load([a_scene(["box"], [(0, 0, 0.03, 0)])])
    env.set_qpos(GOOD[:1])
    assert np.allclose(env.get_qpos(), GOOD[:1], atol=1e-5)
    for _ in range(30):
        env.step_qpos(GOOD[2:])
    info = env.get_info()
    assert info["is_strictly_grasped"].tolist() == [True]
    assert info["success"].tolist() == [False]  # not lifted
    state = env.get_state()
    seen: list[np.ndarray] = []
    for _ in range(2):
        env.set_state(state)
        path: list[np.ndarray] = []
        for k in range(20):
            target = GOOD[2:].copy()
            target[0, 2] += 0.006 * (k + 1)
            env.step_qpos(target)
            path.append(env.get_qpos()[0])
        seen.append(np.array(path))
    assert seen[0][-1, 2] > seen[0][0, 2] + 0.05
    assert np.allclose(seen[0], seen[1], atol=1e-4)
    env.reset(seed=3)
    assert env.get_info()["lift"].tolist() == [0.0]


@pytest.mark.gpu
def test_grasps_of_a_batch_on_cuda_are_lifted_or_missed() -> None:
    """Ten grasps in four sub-scenes at once, the last batch filled up."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    rows = [GOOD, MISSES, ALSO_GOOD, GOOD, MISSES] * 2
    config = MsEnvConfig(agent=PANDA, device="cuda", num_envs=4)
    with build_env(EnvConfig(ms_env_config=config)) as env:
        done = env.evaluate(jaw_grasps(rows), BOX, "rollout", rollouts=True)
    assert [r.outcome for r in done.results] == ["ok", "no_contact", "ok", "ok", "no_contact"] * 2
    assert len(done.rollouts) == 10
    assert done.engine.endswith("cuda")


def test_which_environment_is_built() -> None:
    with pytest.raises(EnvConfigError, match="set mj_env_config"):
        build_env(EnvConfig())
    both = EnvConfig(
        mj_env_config=MjEnvConfig(hand="panda_gripper", workers=0),
        ms_env_config=MsEnvConfig(agent=PANDA),
    )
    with build_env(both) as env:
        assert type(env).__name__ == "MjEnv"
        assert env.engine.startswith("mujoco ")
    assert issubclass(MsEnv, BaseEnv)


def test_configs_that_cannot_be_carried_out() -> None:
    with pytest.raises(ValueError, match="a pinned hand cannot lift"):
        RolloutConfig(static_base=True)
    with pytest.raises(ValueError, match="multiple of control_freq"):
        RolloutConfig(sim_freq=210)
    with pytest.raises(ValueError, match="target_lift_dist"):
        RolloutConfig(target_lift_dist=0.3)
    with pytest.raises(ValueError, match="one scene on the CPU"):
        MsEnvConfig(agent=PANDA, num_envs=2, device="cpu")
    with ms() as env:
        env.load([a_scene(["box"], [(0, 0, 0.03, 0)])])
        with pytest.raises(EnvConfigError, match="no camera"):
            env.get_rgb()
    with pytest.raises(EnvConfigError, match="no ManiSkill agent 'nobody'"):
        MsEnv(MsEnvConfig(agent="nobody"))
