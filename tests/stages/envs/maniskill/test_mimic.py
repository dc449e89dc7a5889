"""Joints that follow joints that follow: the same positions in both engines, in any order."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from stages.assets.hands.errors import HandError
from stages.assets.hands.load import load_hand
from stages.envs.maniskill.agent_table import FLOATING
from stages.envs.maniskill.agents import agent_class
from stages.envs.maniskill.robot import Robot
from stages.envs.mujoco.hand_index import drive_hand, hand_index, set_hand_qpos
from stages.envs.mujoco.hand_model import hand_mjspec
from tests.stages.envs.maniskill.test_agents import make
from tests.stages.envs.test_urdf import BODY, hinge

# b = 0.5 a + 0.1; c = -1.5 b + 0.2; e = 0.8 d
JOINTS = {
    "a": ("palm", "a_link", ""),
    "b": ("a_link", "b_link", '<mimic joint="a" multiplier="0.5" offset="0.1"/>'),
    "c": ("b_link", "c_link", '<mimic joint="b" multiplier="-1.5" offset="0.2"/>'),
    "d": ("palm", "d_link", ""),
    "e": ("d_link", "e_link", '<mimic joint="d" multiplier="0.8"/>'),
}


def write_hand(
    folder: Path, order: str, leading: tuple[str, ...] = ("a", "d"), **mimic: str
) -> Path:
    """A hand file of two fingers whose URDF declares the joints in `order`."""
    joints = JOINTS | {name: (*JOINTS[name][:2], text) for name, text in mimic.items()}
    links = "".join(f'<link name="{name}">{BODY}</link>' for name in
                    ("palm", *(f"{j}_link" for j in JOINTS)))  # fmt: skip
    text = "".join(hinge(name, *joints[name]) for name in order)
    (folder / "hand.urdf").write_text(f'<robot name="r">{links}{text}</robot>')
    count = len(leading)
    tips = ["c_link", "e_link"]
    values = {
        "name": "two_fingers", "kind": "dexterous", "model": "hand.urdf", "licence": "MIT",
        "root_body": "palm", "joint_names": list(leading), "open_qpos": [0.0] * count,
        "pregrasp_qpos": [0.2] * count, "closed_qpos": [1.0] * count,
        "squeeze_delta": [0.1] * count, "kp": [3.0] * count, "damping": [0.3] * count,
        "force_limits": [1.0] * count, "armature": 0.001, "finger_prefixes": ["a_|b_|c_", "d_|e_"],
        "contact_bodies": tips, "tip_bodies": tips, "T_root_grasp": [0, 0, 0.1, 1, 0, 0, 0],
    }  # fmt: skip
    (folder / "hand.yaml").write_text(yaml.safe_dump(values))
    return folder / "hand.yaml"


def expected(a: float, d: float) -> dict[str, float]:
    b = 0.5 * a + 0.1
    return {"a": a, "b": b, "c": -1.5 * b + 0.2, "d": d, "e": 0.8 * d}


def at(robot: Robot) -> dict[str, float]:
    found = dict(zip(robot.observed, robot.articulation.get_qpos()[0].tolist(), strict=True))
    return {name: found[name] for name in JOINTS}


@pytest.mark.parametrize("order", ["abcde", "edcba", "cebda"])
def test_a_chain_is_where_its_first_joint_puts_it_in_both_engines(
    tmp_path: Path, order: str
) -> None:
    file = write_hand(tmp_path, order)
    hand = load_hand(file)
    model = hand_mjspec(hand).compile()
    data, index = mujoco.MjData(model), hand_index(hand, model)
    env = make(str(file) + FLOATING)
    try:
        env.reset(seed=1)
        robot = Robot(env)
        assert robot.joint_names == ("a", "d")
        assert at(robot) == pytest.approx(expected(0.0, 0.0), abs=1e-6)  # at rest
        qpos = np.array([0, 0, 0.6, 1.0, 0, 0, 0, 0.9, 0.4])
        robot.place(qpos[None])
        set_hand_qpos(data, index, qpos)
        for place in (at(robot), {name: data.joint(name).qpos[0] for name in JOINTS}):
            assert place == pytest.approx(expected(0.9, 0.4), abs=1e-6)
        qpos[7:] = 0.3, 1.0
        for _ in range(80):
            env.control_step(robot, qpos[None])
        drive_hand(data, index, qpos)
        mujoco.mj_step(model, data, 500)
        for place in (at(robot), {name: data.joint(name).qpos[0] for name in JOINTS}):
            assert place == pytest.approx(expected(0.3, 1.0), abs=0.02)
        # a follower has the rotor of the joint that leads it, in both
        assert {j.name: float(j._objs[0].armature.item()) for j in robot.articulation.active_joints
                if j.name in JOINTS} == pytest.approx(dict.fromkeys(JOINTS, 0.001))  # fmt: skip
        assert model.dof_armature[6:] == pytest.approx([0.001] * 5)
    finally:
        env.close()


def test_a_joint_of_the_grasp_leads_though_it_has_a_mimic(tmp_path: Path) -> None:
    """Here b is commanded: c follows it, wherever a is."""
    file = write_hand(tmp_path, "cbaed", leading=("a", "b", "d"))
    hand = load_hand(file)
    model = hand_mjspec(hand).compile()
    data, index = mujoco.MjData(model), hand_index(hand, model)
    env = make(str(file) + FLOATING)
    try:
        robot = Robot(env)
        qpos = np.array([0, 0, 0.6, 1.0, 0, 0, 0, 0.9, 0.7, 0.4])
        robot.place(qpos[None])
        set_hand_qpos(data, index, qpos)
        wanted = expected(0.9, 0.4) | {"b": 0.7, "c": -1.5 * 0.7 + 0.2}
        for place in (at(robot), {name: data.joint(name).qpos[0] for name in JOINTS}):
            assert place == pytest.approx(wanted, abs=1e-6)
    finally:
        env.close()


@pytest.mark.parametrize(
    ("mimic", "message"),
    [
        ({"b": '<mimic joint="c"/>'}, r"in a circle: b -> c -> b"),
        ({"e": '<mimic joint="e"/>'}, r"in a circle: e -> e"),
        ({"b": '<mimic joint="z"/>'}, r"joint 'b' mimics 'z', which is no joint that moves"),
    ],
)
def test_a_mimic_that_leads_nowhere_is_refused_by_both(
    tmp_path: Path, mimic: dict[str, str], message: str
) -> None:
    file = write_hand(tmp_path, "abcde", **mimic)
    with pytest.raises(HandError, match=message):
        hand_mjspec(load_hand(file))
    with pytest.raises(HandError, match=message):
        agent_class(str(file) + FLOATING)


def test_a_follower_of_a_joint_that_nothing_drives_is_named(tmp_path: Path) -> None:
    file = write_hand(tmp_path, "abcde", leading=("a",))
    with pytest.raises(HandError, match=r"'e' follows 'd', which nothing drives; name 'd' in"):
        agent_class(str(file) + FLOATING)
