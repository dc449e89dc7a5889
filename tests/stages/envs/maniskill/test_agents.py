"""Every robot of the table: built, reset, stepped; its controllers do what they say."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from schemas.frames import matrix_to_pose, pose_to_matrix, rotation_angle
from stages.assets.hands.load import load_hand
from stages.envs.errors import EnvConfigError
from stages.envs.maniskill.agent_table import AGENTS, FLOATING, agent_entry, hand_uid
from stages.envs.maniskill.dexgrasp import DexGrasp
from stages.envs.maniskill.robot import Robot, root_offsets
from stages.envs.maniskill.urdf import ROOT_JOINTS
from tests.maniskill_scenes import a_scene

UIDS = [
    pytest.param(uid, marks=pytest.mark.skipif(bool(e.missing), reason=f"{uid} {e.missing}"))
    for uid, e in AGENTS.items()
]


def make(uid: str, mode: str = "pd_joint_pos") -> DexGrasp:
    return DexGrasp(
        scenes=[a_scene(["box"], [(0.0, 0.0, 0.03, 0.0)])], robot_uids=uid, control_mode=mode,
        obs_mode="none", reward_mode="none", sim_backend="cpu", render_backend="none",
        sim_config={"sim_freq": 200, "control_freq": 50},
    )  # fmt: skip


def test_there_are_at_least_21_and_each_that_is_not_here_says_how_to_get_it() -> None:
    assert len(AGENTS) >= 21
    assert [*AGENTS, "none"] == DexGrasp.SUPPORTED_ROBOTS
    away = [entry for entry in AGENTS.values() if entry.missing]
    assert len(AGENTS) - len(away) >= 21  # in the wheel alone
    for entry in away:
        assert "\n" not in entry.missing
        assert "download_asset" in entry.missing
        with pytest.raises(EnvConfigError, match=f"download_asset {entry.download}"):
            make(entry.uid)
    for entry in AGENTS.values():
        if entry.hand and entry.base != "fixed":
            assert entry.uid == entry.hand + (FLOATING if entry.base == "virtual" else "")


@pytest.mark.parametrize("uid", UIDS)
def test_every_agent_is_built_reset_and_stepped(uid: str) -> None:
    env = make(uid)
    try:
        env.reset(seed=1)
        robot = Robot(env)
        start = robot.qpos()
        assert start.shape == (1, 7 + len(robot.joint_names))
        assert {link.name for link in env.agent.robot.links} >= set(env.agent.contact_links)
        for _ in range(5):
            env.control_step(robot, start)
        moved = robot.qpos()
        assert np.isfinite(moved).all()
        # aimed at where it is, it stays: gravity does not act on it, and no order is mixed up
        assert np.abs(moved[:, :3] - start[:, :3]).max() < 0.01
        # coupled joints of ManiSkill's own hands settle on each other
        slack = 0.02 if agent_entry(uid).hand else 0.04
        assert np.abs(moved[:, 7:] - start[:, 7:]).max() < slack
    finally:
        env.close()


@pytest.mark.parametrize("mode", ["pd_joint_delta_pos", "pd_joint_target_delta_pos"])
def test_steps_end_where_they_are_aimed_whatever_they_start_from(mode: str) -> None:
    """ManiSkill adds a step to where the arm is, or to where it was aimed before."""
    env = make("panda", mode)
    try:
        env.reset(seed=1)
        robot = Robot(env)
        target = robot.qpos()
        target[0, 7:9] += 0.08
        for _ in range(3):
            env.control_step(robot, target)
            aimed = env.agent.controller.controllers["arm"]._target_qpos[0, :2].numpy()
            assert np.abs(aimed - target[0, 7:9]).max() < 1e-5
    finally:
        env.close()


@pytest.fixture(scope="module")
def floating() -> Iterator[DexGrasp]:
    env = make("allegro_right_floating_base")
    yield env
    env.close()


def test_virtual_joints_come_first_and_carry_the_hand_to_any_pose(floating: DexGrasp) -> None:
    robot = Robot(floating)
    assert robot.observed[:6] == ROOT_JOINTS
    floating.reset(seed=1)
    start = robot.qpos()
    target = start.copy()
    target[0, :3] += [0.05, -0.04, 0.03]
    turn = pose_to_matrix(_unit(np.array([0, 0, 0, 0.98, 0.1, -0.12, 0.11])))
    target[0] = np.concatenate(
        [matrix_to_pose(pose_to_matrix(_unit(target[0, :7])) @ turn), target[0, 7:]]
    )
    for _ in range(100):
        floating.control_step(robot, target)
    reached = robot.qpos()[0]
    assert np.linalg.norm(reached[:3] - target[0, :3]) < 1e-3
    assert rotation_angle(_unit(reached[:7])[3:], target[0, 3:7]) < 5e-3


def _unit(pose: np.ndarray) -> np.ndarray:
    out = pose.copy()
    out[3:7] /= np.linalg.norm(out[3:7])
    return out


def test_offsets_of_the_virtual_joints_compose_to_the_pose() -> None:
    """R = Rx Ry Rz, written out independently."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, y, z, a, b, c = np.append(rng.uniform(-1, 1, 3), rng.uniform(-1.5, 1.5, 3))
        turns = [
            np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]]),
            np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]]),
            np.array([[np.cos(c), -np.sin(c), 0], [np.sin(c), np.cos(c), 0], [0, 0, 1]]),
        ]
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = turns[0] @ turns[1] @ turns[2], (x, y, z)
        assert np.allclose(root_offsets(T[None])[0], [x, y, z, a, b, c])


def test_followers_move_with_their_masters() -> None:
    env = make("ability_right")
    try:
        robot = Robot(env)
        target = robot.qpos()
        target[0, 7:] = load_hand("ability_right").pregrasp_qpos
        robot.place(target)
        target[0, 7 + list(robot.joint_names).index("index_q1")] += 0.3
        for _ in range(80):
            env.control_step(robot, target)
        followers = [f for f in env.agent.urdf.followers if f.joint == "index_q2"]
        observed = dict(zip(robot.observed, env.agent.robot.get_qpos()[0].tolist(), strict=True))
        [f] = followers
        assert f.multiplier != 1.0
        assert abs(observed["index_q2"] - f.multiplier * observed["index_q1"] - f.offset) < 0.02
    finally:
        env.close()


@pytest.mark.parametrize("mode", ["pd_ee_pose", "pd_ee_delta_pose"])
def test_an_end_effector_goes_where_it_is_sent(mode: str) -> None:
    env = make("xarm7_ability", mode)
    try:
        env.reset(seed=1)
        link = env.agent.robot.links_map[env.agent.spec.lift_body]
        start = (env.agent.robot.pose.inv() * link.pose).raw_pose[0]
        hand = env.agent.rest_qpos[[i for i, j in enumerate(env.agent.robot.active_joints)
                                    if j.name in env.agent.spec.joint_names[7:]]]  # fmt: skip
        wanted = start[:3] + torch.tensor([0.0, 0.03, 0.04])
        from mani_skill.utils.geometry.rotation_conversions import (
            matrix_to_euler_angles,
            quaternion_to_matrix,
        )

        angles = matrix_to_euler_angles(quaternion_to_matrix(start[3:]), "XYZ")
        for _ in range(60):
            if mode == "pd_ee_pose":
                action = torch.cat([wanted, angles, hand])
            else:
                here = (env.agent.robot.pose.inv() * link.pose).raw_pose[0, :3]
                step = torch.clamp(wanted - here, -0.02, 0.02)
                action = torch.cat([step, torch.zeros(3), hand])
            env.step(action[None])
        reached = (env.agent.robot.pose.inv() * link.pose).raw_pose[0, :3]
        assert torch.linalg.norm(reached - wanted) < 0.005
    finally:
        env.close()


def test_a_passive_hand_gives_way() -> None:
    env = make("allegro_right", "passive")
    try:
        assert env.agent.action_space.shape == (0,)
        stiffness = [joint.stiffness.item() for joint in env.agent.robot.active_joints]
        assert max(stiffness) == 0.0
        env.step(None)
    finally:
        env.close()


def test_a_hand_without_agent_is_named_with_those_that_have_one() -> None:
    with pytest.raises(EnvConfigError, match=r"only MuJoCo can score it.*allegro_right"):
        hand_uid("leap_right")
    assert hand_uid("allegro_left") == "allegro_left_floating_base"
    assert hand_uid("allegro_left", static_base=True) == "allegro_left"
    assert hand_uid("xarm7_ability") == "xarm7_ability"
