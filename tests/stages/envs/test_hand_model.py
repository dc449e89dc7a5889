"""The hand models against facts of the files they come from."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest

from stages.assets.hands.errors import HandError
from stages.assets.hands.load import load_hand
from stages.assets.hands.models import resolve_model
from stages.assets.hands.spec import HandSpec
from stages.envs.mujoco.hand_index import drive_hand, hand_index, set_hand_qpos
from stages.envs.mujoco.hand_model import hand_mjspec

HANDS = ("allegro_right", "panda_gripper")


@pytest.mark.parametrize("name", HANDS)
def test_mass_is_the_sum_of_the_links(name: str) -> None:
    hand = load_hand(name)
    masses = [
        float(mass.get("value", 0))
        for mass in ElementTree.parse(resolve_model(hand.model)).getroot().iter("mass")
    ]
    model = hand_mjspec(hand).compile()
    assert model.body_mass.sum() == pytest.approx(sum(masses), rel=1e-12)


@pytest.mark.parametrize("name", HANDS)
def test_root_is_free_and_joints_are_driven_in_control_order(name: str) -> None:
    hand = load_hand(name)
    model = hand_mjspec(hand).compile()
    index = hand_index(hand, model)
    assert model.nq == 7 + len(hand.joint_names)
    assert model.nu == len(hand.joint_names)
    for i, joint in enumerate(hand.joint_names):
        actuator = int(index.actuators[i])
        assert model.actuator(actuator).name == joint
        assert model.actuator_forcerange[actuator].tolist() == [
            -hand.force_limits[i],
            hand.force_limits[i],
        ]
        assert model.jnt_qposadr[model.joint(joint).id] == index.joint_qpos[i]


@pytest.mark.parametrize("name", HANDS)
def test_hand_reaches_its_pregrasp_and_stays_where_the_mocap_is(name: str) -> None:
    hand = load_hand(name)
    model = hand_mjspec(hand).compile()
    model.opt.timestep = 0.004
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    data = mujoco.MjData(model)
    index = hand_index(hand, model)
    root = [0.1, -0.2, 0.3, 0.0, 1.0, 0.0, 0.0]
    set_hand_qpos(data, index, np.array([*root, *hand.open_qpos]))
    drive_hand(data, index, np.array([*root, *hand.pregrasp_qpos]))
    for _ in range(150):
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.qpos[:3], root[:3], atol=1e-4)
    np.testing.assert_allclose(data.qpos[index.joint_qpos], hand.pregrasp_qpos, atol=5e-3)
    assert np.abs(data.qvel).max() < 0.05


def test_panda_fingers_are_mirror_images_and_meet_at_the_tool_centre() -> None:
    hand = load_hand("panda_gripper")
    model = hand_mjspec(hand).compile()
    data = mujoco.MjData(model)
    index = hand_index(hand, model)
    for q in (0.0, 0.013, 0.04):
        set_hand_qpos(data, index, np.array([0, 0, 0, 1, 0, 0, 0, q, q], float))
        mujoco.mj_forward(model, data)
        left, right = (data.body(name).xpos for name in hand.tip_bodies)
        np.testing.assert_allclose(left * [1, -1, 1], right, atol=1e-12)
    assert hand.opening_width == pytest.approx(2 * 0.04)
    # flange to tool centre point, Franka's own number
    assert hand.T_root_grasp[2] == pytest.approx(0.1034)


def test_allegro_thumb_opposes_the_fingers_along_grasp_y() -> None:
    """The grasp frame lies between thumb and fingers, its +y from thumb to fingers."""
    from schemas.frames import invert, pose_to_matrix, transform_points

    hand = load_hand("allegro_right")
    model = hand_mjspec(hand).compile()
    data = mujoco.MjData(model)
    index = hand_index(hand, model)
    set_hand_qpos(data, index, np.array([0, 0, 0, 1, 0, 0, 0, *hand.pregrasp_qpos]))
    mujoco.mj_forward(model, data)
    tips = np.array([data.body(name).xpos for name in hand.tip_bodies])
    local = transform_points(invert(pose_to_matrix(hand.T_root_grasp)), tips)
    assert (local[:3, 1] > 0.03).all()
    assert local[3, 1] < -0.03
    palm = transform_points(invert(pose_to_matrix(hand.T_root_grasp)), np.zeros((1, 3)))
    assert palm[0, 2] < -0.05


def test_native_dynamics_keep_tendons_and_gains(tmp_path: Path) -> None:
    """Two finger joints on one tendon: its actuator aims at the sum of both targets."""
    model = tmp_path / "two.xml"
    model.write_text(
        '<mujoco><worldbody><body name="palm"><geom size=".02"/>'
        '<body name="near" pos="0 0 .05"><joint name="a" damping=".3"/><geom size=".01"/>'
        '<body name="far" pos="0 0 .05"><joint name="b"/><geom size=".01"/></body></body>'
        '<body name="thumb" pos="0 .05 0"><joint name="c"/><geom size=".01"/></body>'
        "</body></worldbody>"
        '<tendon><fixed name="t"><joint joint="a" coef="1"/><joint joint="b" coef="2"/></fixed>'
        '</tendon><actuator><position name="pull" tendon="t" kp="7"/>'
        '<position name="turn" joint="c" kp="3"/></actuator></mujoco>'
    )
    zeros = (0.0, 0.0, 0.0)
    hand = HandSpec(
        name="two", kind="dexterous", model=str(model), licence="CC0", root_body="palm",
        joint_names=("c", "a", "b"), open_qpos=zeros, pregrasp_qpos=zeros, closed_qpos=zeros,
        squeeze_delta=zeros, kp=(), damping=(), force_limits=(), native_dynamics=True,
        finger_prefixes=("near|far", "thumb"), contact_bodies=("far", "thumb"),
        tip_bodies=("far", "thumb"), T_root_grasp=(0, 0, 0.1, 1, 0, 0, 0),
    )  # fmt: skip
    compiled = hand_mjspec(hand).compile()
    index = hand_index(hand, compiled)
    np.testing.assert_array_equal(index.transmission, [[1, 0, 0], [0, 1, 2]])
    assert [compiled.actuator(int(a)).name for a in index.actuators] == ["turn", "pull"]
    data = mujoco.MjData(compiled)
    drive_hand(data, index, np.array([0, 0, 0, 1, 0, 0, 0, 0.3, 0.1, 0.2]))
    np.testing.assert_allclose(data.ctrl[index.actuators], [0.3, 0.1 + 2 * 0.2])
    assert compiled.dof_damping[index.joint_dof[1]] == pytest.approx(0.3)
    with pytest.raises(HandError, match="kp: native_dynamics takes the model's own"):
        replace(hand, kp=(1.0, 1.0, 1.0))


def two_fingers(model: Path, **changes: object) -> HandSpec:
    zeros = (0.0, 0.0)
    values = dict(
        name="two", kind="dexterous", model=str(model), licence="CC0", root_body="palm",
        joint_names=("a", "c"), open_qpos=zeros, pregrasp_qpos=zeros, closed_qpos=zeros,
        squeeze_delta=zeros, kp=(1.0, 1.0), damping=(0.1, 0.1), force_limits=(1.0, 1.0),
        finger_prefixes=("near|far", "thumb"), contact_bodies=("far", "thumb"),
        tip_bodies=("far", "thumb"), T_root_grasp=(0, 0, 0.1, 1, 0, 0, 0), armature=1e-3,
    ) | changes  # fmt: skip
    return HandSpec(**values)  # type: ignore[arg-type]


ARM_AND_HAND = """<mujoco><compiler angle="radian"/><worldbody><geom type="plane" size="1 1 1"/>
  <body name="arm"><joint name="elbow"/><geom size=".02"/>
    <body name="palm" pos="0 0 .3"><joint name="wrist"/><geom size=".02"/>
      <body name="near" pos="0 0 .05"><joint name="a" range="0 2"/><geom size=".01"/>
        <body name="far" pos="0 0 .05"><joint name="b" ref="0.2"/><geom size=".01"/></body></body>
      <body name="thumb" pos="0 .05 0"><joint name="c"/><geom size=".01"/></body>
    </body></body></worldbody>
  <contact><exclude body1="arm" body2="palm"/><exclude body1="near" body2="thumb"/></contact>
  <equality><joint joint1="b" joint2="a" polycoef="0.1 0.5 0.3 0 0"/></equality>
  <actuator>{actuators}</actuator></mujoco>"""


def test_what_is_above_the_root_goes_with_all_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(
        ARM_AND_HAND.format(
            actuators='<position name="lift" joint="elbow"/><position name="turn" joint="wrist"/>'
            '<position name="pull" joint="a" kp="5"/>'
        )
    )
    model = hand_mjspec(two_fingers(path)).compile()
    names = [model.joint(j).name for j in range(model.njnt)]
    assert names == ["root_free", "a", "b", "c"]
    assert [model.actuator(i).name for i in range(model.nu)] == ["a", "c"]
    bodies = [model.body(b).name for b in range(model.nbody)]
    assert bodies == ["world", "palm", "near", "far", "thumb", "hand_mocap"]
    assert (model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE).all()
    native = hand_mjspec(
        two_fingers(path, native_dynamics=True, kp=(), damping=(), force_limits=())
    ).compile()
    assert [native.actuator(i).name for i in range(native.nu)] == ["pull"]
    assert native.nexclude == 1


def test_a_joint_that_follows_is_put_by_its_equality(tmp_path: Path) -> None:
    """b - ref = 0.1 + 0.5 a + 0.3 a^2, and b moves what a moves: the simulation agrees."""
    path = tmp_path / "arm.xml"
    path.write_text(ARM_AND_HAND.format(actuators=""))
    hand = two_fingers(path)
    model = hand_mjspec(hand).compile()
    data, index = mujoco.MjData(model), hand_index(hand, model)
    set_hand_qpos(data, index, np.array([0, 0, 0, 1, 0, 0, 0, 0.6, 0.0]))
    expected = 0.2 + 0.1 + 0.5 * 0.6 + 0.3 * 0.36
    assert data.joint("b").qpos[0] == pytest.approx(expected)
    model.opt.gravity[:] = 0
    mujoco.mj_step(model, data, 500)
    assert data.joint("a").qpos[0] == pytest.approx(0.6, abs=1e-3)
    assert data.joint("b").qpos[0] == pytest.approx(expected, abs=1e-3)
    assert index.coupled.tolist() == [0, 1]


def test_control_in_other_units_and_what_is_no_servo(tmp_path: Path) -> None:
    """At rest g ctrl + b0 + b1 q = 0."""
    path = tmp_path / "arm.xml"
    general = '<general name="{}" joint="{}" biastype="affine" gainprm="2" biasprm="{}"/>'
    native = dict(native_dynamics=True, kp=(), damping=(), force_limits=())
    path.write_text(
        ARM_AND_HAND.format(
            actuators=general.format("one", "a", "3 -50 -1")
            + '<position name="two" joint="c" kp="4"/>'
        )
    )
    hand = two_fingers(path, **native)
    model = hand_mjspec(hand).compile()
    data, index = mujoco.MjData(model), hand_index(hand, model)
    drive_hand(data, index, np.array([0, 0, 0, 1, 0, 0, 0, 0.4, 0.3]))
    np.testing.assert_allclose(data.ctrl, [(50 * 0.4 - 3) / 2, 0.3])
    path.write_text(ARM_AND_HAND.format(actuators='<motor name="push" joint="a"/>'))
    with pytest.raises(HandError, match="'push' is no position servo"):
        hand_index(hand, hand_mjspec(hand).compile())
