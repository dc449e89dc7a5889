"""Inverse kinematics of a rig's arm, against MuJoCo's own forward kinematics and a planar arm."""

from collections.abc import Callable
from dataclasses import replace

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.records import ObjectAsset
from stages.assets.hands.load import load_hand
from stages.assets.hands.spec import HandSpec
from stages.envs.config import PhysicsConfig, TabletopConfig
from stages.envs.errors import StoppedError
from stages.envs.grasp_input import GraspInput
from stages.envs.mujoco.grasp_model import GraspModel, build_grasp_model
from stages.envs.mujoco.hand_index import set_hand_qpos
from stages.envs.mujoco.ik import TOLERANCE
from stages.envs.mujoco.protocols.tabletop import run_tabletop
from stages.envs.mujoco.protocols.trial import Trial

Float = NDArray[np.float64]


@pytest.fixture(scope="module")
def rig(request: pytest.FixtureRequest) -> GraspModel:
    box: ObjectAsset = request.getfixturevalue("box")
    return build_grasp_model(load_hand("xarm7_ability"), box, PhysicsConfig())


def carried(rig: GraspModel, qpos: Float) -> Float:
    """Pose (7,) of the carried body, by forward kinematics alone."""
    set_hand_qpos(rig.data, rig.index, qpos)
    mujoco.mj_kinematics(rig.model, rig.data)
    return rig.body_pose(rig.index.carrier)


def test_poses_that_some_joints_reach_are_reached(rig: GraspModel) -> None:
    assert rig.arm is not None
    hand = rig.hand
    rng = np.random.default_rng(0)
    start = np.array([*hand.base_pose, *hand.pregrasp_qpos])
    arm = 7 + rig.arm.columns
    reached = 0
    for _ in range(20):
        other = start.copy()
        other[arm] += rng.uniform(-0.4, 0.4, len(arm))
        target = carried(rig, other)
        qpos, error = rig.arm.reach(start, target)
        if error < TOLERANCE:
            reached += 1
            pose = carried(rig, qpos)
            assert np.linalg.norm(pose[:3] - target[:3]) < TOLERANCE
            assert abs(pose[3:] @ target[3:]) > 1 - TOLERANCE**2
        untouched = np.setdiff1d(np.arange(len(qpos)), arm)
        np.testing.assert_array_equal(qpos[untouched], start[untouched])
    assert reached >= 19  # one start near a joint's limit may end there


def test_out_of_reach_says_how_far(rig: GraspModel) -> None:
    assert rig.arm is not None
    start = np.array([*rig.hand.base_pose, *rig.hand.pregrasp_qpos])
    target = carried(rig, start)
    target[:3] = np.array(rig.hand.base_pose[:3]) + [3.0, 0.0, 0.3]
    qpos, error = rig.arm.reach(start, target)
    assert error > 1.0  # an xArm7 reaches 0.7 m
    joints = [int(np.flatnonzero(rig.model.jnt_qposadr == a)[0]) for a in rig.index.joint_qpos]
    low, high = rig.model.jnt_range[joints].T
    arm = rig.arm.columns
    assert (qpos[7:][arm] >= low[arm] - 1e-9).all()
    assert (qpos[7:][arm] <= high[arm] + 1e-9).all()


def test_a_lift_beyond_the_arm_is_coded(rig: GraspModel) -> None:
    """The rig closes on a box beside it, so only the arm's reach can stop the lift."""
    hand = rig.hand
    qpos = np.array([*hand.base_pose, *hand.pregrasp_qpos])
    place = carried(rig, qpos)
    row = GraspInput(
        grasp_index=0, object_pose=np.array([*place[:3], 1, 0, 0, 0]), pregrasp_qpos=qpos,
        grasp_qpos=qpos, squeeze_qpos=qpos,
    )  # fmt: skip
    trial = Trial(grasp=rig, row=row, deadline=np.inf)
    config = TabletopConfig(lift_height=2.0)
    closing = replace(config.closing, max_pene=1.0)
    with pytest.raises(StoppedError, match="short of") as stopped:
        run_tabletop(trial, replace(config, closing=closing))
    assert stopped.value.code == "out_of_reach"


def planar(tmp_path, lengths: tuple[float, float]) -> HandSpec:
    a, b = lengths
    model = tmp_path / "planar.xml"
    model.write_text(
        '<mujoco><worldbody><body name="base"><geom size=".02"/>'
        '<body name="upper"><joint name="shoulder" axis="0 0 1" range="-180 180"/>'
        f'<geom size=".02"/><body name="lower" pos="{a} 0 0">'
        '<joint name="elbow" axis="0 0 1" range="-180 180"/><geom size=".02"/>'
        f'<body name="hand" pos="{b} 0 0"><joint name="wrist" axis="0 0 1" range="-180 180"/>'
        '<geom size=".02"/></body></body></body></body></worldbody></mujoco>'
    )
    joints = ("shoulder", "elbow", "wrist")
    zeros = (0.0, 0.0, 0.0)
    return HandSpec(
        name="planar", kind="dexterous", model=str(model), licence="CC0", root_body="base",
        joint_names=joints, open_qpos=zeros, pregrasp_qpos=(0.1, 0.2, 0.0), closed_qpos=zeros,
        squeeze_delta=zeros, kp=(10.0,) * 3, damping=(1.0,) * 3, force_limits=(10.0,) * 3,
        finger_prefixes=("hand",), contact_bodies=("hand",), tip_bodies=("hand",),
        T_root_grasp=(0, 0, 0.1, 1, 0, 0, 0), mocap=False, lift_body="hand", ik_joints=joints,
    )  # fmt: skip


def test_a_planar_arm_against_the_law_of_cosines(tmp_path, box: ObjectAsset) -> None:
    a, b = 0.4, 0.3
    rig = build_grasp_model(planar(tmp_path, (a, b)), box, PhysicsConfig())
    assert rig.arm is not None
    start = np.array([0.0, 0, 0, 1, 0, 0, 0, 0.1, 0.2, 0.0])
    for x, y in ((0.5, 0.2), (0.3, 0.3), (0.2, -0.4), (0.6, 0.0)):
        target = np.array([x, y, 0.0, 1, 0, 0, 0])  # the hand keeps the world's axes
        qpos, error = rig.arm.reach(start, target)
        assert error < TOLERANCE
        elbow = np.arccos((x * x + y * y - a * a - b * b) / (2 * a * b))
        assert abs(qpos[8]) == pytest.approx(elbow, abs=1e-3)
        assert qpos[7:10].sum() == pytest.approx(0, abs=1e-3)
    reach = np.array([1.0, 0.0, 0.0, 1, 0, 0, 0])
    assert rig.arm.reach(start, reach)[1] == pytest.approx(1.0 - a - b, abs=2e-3)


def test_a_rig_needs_a_fixed_top_body(tmp_path, make_box: Callable) -> None:
    hand = planar(tmp_path, (0.4, 0.3))
    from stages.assets.hands.errors import HandError

    with pytest.raises(HandError, match=r"root of a rig .* must be a top body"):
        build_grasp_model(
            replace(hand, root_body="upper"), make_box((0.1, 0.1, 0.1)), PhysicsConfig()
        )
