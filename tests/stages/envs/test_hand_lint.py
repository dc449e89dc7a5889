"""Each rule of the check fires on a hand that breaks it, and names what is wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stages.assets.hands.load import load_hand
from stages.envs.mujoco.hand_lint import lint_hand

ALLEGRO_TIPS = ("link_3.0_tip", "link_7.0_tip", "link_11.0_tip", "link_15.0_tip")


@pytest.mark.parametrize(
    ("name", "changes", "level", "what", "text"),
    [
        ("panda_gripper", {"joint_names": ("panda_finger_joint1", "thumb")}, "error", "model",
         "no joint 'thumb'"),
        ("panda_gripper", {"joint_names": ("panda_finger_joint2", "panda_finger_joint1")},
         "warning", "joint_names", "the model has panda_finger_joint1, panda_finger_joint2"),
        ("panda_gripper", {"open_qpos": (0.04, 4.0)}, "error", "open_qpos, panda_finger_joint2",
         "0 to 0.04, the joint's limits, got 4"),
        ("panda_gripper", {"opening_width": 0.1}, "error", "opening_width", "0.0800 m, measured"),
        ("panda_gripper", {"T_root_grasp": (0, 0, 0.1034, 0.70710678, 0, 0, 0.70710678)}, "error",
         "T_root_grasp", "90 degrees off"),
        ("panda_gripper", {"T_root_grasp": (0, 0, 0.5, 1, 0, 0, 0)}, "warning", "T_root_grasp",
         "move there"),
        ("panda_gripper", {"T_root_grasp": (0, 0, 0.1034, 0, 1, 0, 0)}, "warning", "T_root_grasp",
         "z from the palm to the object"),
        ("allegro_right", {"finger_prefixes": ("thumb",)}, "error", "finger_prefixes, thumb",
         "the bodies are base_link"),
        ("allegro_right", {"finger_prefixes": ("link_1", "link_3.", "link_7.", "link_11.")},
         "error", "finger_prefixes, link_11.0", "link_1, link_11."),
        ("allegro_right", {"tip_bodies": (*ALLEGRO_TIPS[:3], "link_3.0")}, "error",
         "tip_bodies, link_3.0", "link_3.0_tip is of that finger too"),
        ("allegro_right", {"contact_bodies": ("palm",)}, "error", "contact_bodies, palm",
         "a shape that collides, got none"),
        ("allegro_right", {"kp": (3000.0,) * 16, "damping": (0.0,) * 16}, "error",
         "motion from open_qpos to pregrasp_qpos", "less kp"),
    ],
)  # fmt: skip
def test_a_broken_hand_is_named(
    name: str, changes: dict[str, Any], level: str, what: str, text: str
) -> None:
    findings = lint_hand(replace(load_hand(name), **changes)).findings
    matching = [f for f in findings if f.what == what]
    assert matching, [str(f) for f in findings]
    assert any(f.level == level and text in str(f) for f in matching), [str(f) for f in matching]


def test_actuators_free_joints_and_mass_of_a_native_model(tmp_path: Path) -> None:
    path = tmp_path / "hand.xml"
    path.write_text(
        '<mujoco><worldbody><body name="palm"><geom size=".2"/>'
        '<body name="left" pos="0 .3 .05"><joint name="a"/><geom size=".01"/></body>'
        '<body name="right" pos="0 -.3 .05"><joint name="b"/><geom size=".01"/></body>'
        '<body name="lid" pos="0 0 -.3"><joint name="hinge"/><geom size=".01"/></body>'
        '</body></worldbody><actuator><position joint="a" kp="5" dampratio="1"/></actuator>'
        "</mujoco>"
    )
    hand = replace(
        load_hand("panda_gripper"), kind="dexterous", model=str(path), root_body="palm",
        joint_names=("a", "b"), open_qpos=(0, 0), pregrasp_qpos=(0, 0), closed_qpos=(0.1, 0.1),
        native_dynamics=True, kp=(), damping=(), force_limits=(), finger_prefixes=("left", "right"),
        contact_bodies=("left", "right"), tip_bodies=("left", "right"),
    )  # fmt: skip
    report = lint_hand(hand)
    said = {f.what: f.level for f in report.findings}
    assert said["joint b"] == "error"
    assert said["joint hinge"] == "warning"
    assert said["mass of the hand"] == "warning"
    assert not report.sound
    assert report.mass > 5
    assert report.joints[0].kp == pytest.approx(5)
