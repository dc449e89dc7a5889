"""Every hand of the repository: sound by its own check, and at rest open and closed."""

import mujoco
import numpy as np
import pytest

from stages.assets.hands.load import load_hand
from stages.assets.hands.spec import PARALLEL_JAW
from stages.envs.config import PhysicsConfig
from stages.envs.mujoco.grasp_model import configure_options
from stages.envs.mujoco.hand_index import drive_hand, hand_index, set_hand_qpos
from stages.envs.mujoco.hand_lint import lint_hand
from stages.envs.mujoco.hand_model import hand_mjspec
from tests.hands import hand_params


@pytest.mark.parametrize("name", hand_params())
def test_the_check_finds_nothing(name: str) -> None:
    assert [str(finding) for finding in lint_hand(load_hand(name)).findings] == []


@pytest.mark.parametrize("name", hand_params())
def test_the_free_hand_closes_and_comes_to_rest(name: str) -> None:
    """At 4 ms a step. Fingers that meet one another stop short of closed_qpos, the others not."""
    hand = load_hand(name)
    built = hand_mjspec(hand)
    configure_options(built, PhysicsConfig())
    model = built.compile()
    data, index = mujoco.MjData(model), hand_index(hand, model)
    root = np.array(hand.base_pose)
    start, end = (np.r_[root, joints] for joints in (hand.open_qpos, hand.closed_qpos))
    set_hand_qpos(data, index, start)
    for i in range(100):
        drive_hand(data, index, start + (end - start) * (i + 1) / 100)
        mujoco.mj_step(model, data)
    mujoco.mj_step(model, data, 250)
    assert np.abs(data.qvel).max() < 0.3
    met = set(index.finger_of_body[model.geom_bodyid[data.contact.geom.reshape(-1, 2)]].ravel())
    if hand.kind == PARALLEL_JAW:
        met = set()  # that is what closed means
    finger = index.finger_of_body[model.jnt_bodyid[index.joint_ids]]
    free = ~np.isin(finger, list(met))
    assert free.any()
    off = np.abs(data.qpos[index.joint_qpos] - hand.closed_qpos)[free]
    assert off.max() < 0.03


@pytest.mark.parametrize("name", hand_params("shadow_right", "shadow_left"))
def test_forearm_and_wrist_are_gone(name: str) -> None:
    hand = load_hand(name)
    model = hand_mjspec(hand).compile()
    joints = {model.joint(j).name for j in range(model.njnt)}
    assert joints == {"root_free", *hand.joint_names}
    assert model.nu == 18  # 22 joints, of which four pairs hang on one tendon each
    assert model.nexclude == 1  # thumb; that of wrist and forearm went with them
    assert model.body_mass.sum() == pytest.approx(3.794 - 3.0 - 0.1)


@pytest.mark.parametrize("name", hand_params("ability_right"))
def test_second_joints_follow_the_first(name: str) -> None:
    """The URDF's `mimic`: q2 = 1.05851325 q1 + 0.72349796, when put and when driven."""
    hand = load_hand(name)
    model = hand_mjspec(hand).compile()
    data, index = mujoco.MjData(model), hand_index(hand, model)
    assert len(index.followers.qpos) == 4
    row = np.array([0, 0, 0, 1, 0, 0, 0, *hand.pregrasp_qpos])
    set_hand_qpos(data, index, row)
    for finger, q1 in zip(
        ("index", "middle", "ring", "pinky"), hand.pregrasp_qpos[2:], strict=True
    ):
        assert data.joint(f"{finger}_q2").qpos[0] == pytest.approx(1.05851325 * q1 + 0.72349796)
    row[7:] = hand.open_qpos
    drive_hand(data, index, row)
    mujoco.mj_step(model, data, 500)
    for finger in ("index", "middle", "ring", "pinky"):
        q1, q2 = (data.joint(f"{finger}_q{i}").qpos[0] for i in (1, 2))
        assert q1 == pytest.approx(0.05, abs=0.01)
        assert q2 == pytest.approx(1.05851325 * q1 + 0.72349796, abs=0.01)


@pytest.mark.parametrize("name", hand_params("robotiq_2f85"))
def test_the_control_of_a_gripper_is_in_its_own_unit(name: str) -> None:
    """0 to 255 for 0 to 0.8 rad: the model's own comment, scale = 0.8 * 100 / 255."""
    hand = load_hand(name)
    model = hand_mjspec(hand).compile()
    data, index = mujoco.MjData(model), hand_index(hand, model)
    joints = np.array(hand.closed_qpos)
    joints[[0, 4]] = 0.4
    drive_hand(data, index, np.r_[0, 0, 0, 1, 0, 0, 0, joints])
    assert data.ctrl == pytest.approx([0.4 / 0.8 * 255], abs=0.01)
    assert set(index.coupled.tolist()) == {0}  # one jaw
