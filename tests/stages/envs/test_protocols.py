"""Both protocols on a box in a jaw, where statics says what must happen."""

from collections.abc import Callable
from dataclasses import replace

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.records import GraspSet, ObjectAsset
from stages.envs.base import GraspResult, build_env
from stages.envs.config import EnvConfig, FcConfig, MjEnvConfig, PhysicsConfig, TabletopConfig
from stages.envs.grasp_input import GraspInput
from stages.envs.mujoco.evaluator import Evaluator
from stages.envs.mujoco.protocols.fc import hold_against
from stages.envs.mujoco.protocols.trial import Trial

Row = NDArray[np.float64]
MakeRow = Callable[..., Row]
MakeGrasps = Callable[..., GraspSet]
PROTOCOLS = ("fc", "tabletop")


def score(
    grasps: GraspSet, asset: ObjectAsset, protocol: str, **config: object
) -> tuple[GraspResult, ...]:
    settings = MjEnvConfig(hand="panda_gripper", workers=0, **config)  # type: ignore[arg-type]
    with build_env(EnvConfig(mj_env_config=settings)) as env:
        return env.evaluate(grasps, asset, protocol).results


def same(a: GraspResult, b: GraspResult) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name), equal_nan=name not in ("outcome",))
        for name in (
            "outcome",
            "direction_success",
            "final_object_pose",
            "translation",
            "rotation",
            "contacts_grasp",
            "contacts_squeeze",
            "contacts_end",
            "contact_distance",
            "hand_object_penetration",
        )
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_centred_antipodal_grasp_holds(
    protocol: str, box: ObjectAsset, make_row: MakeRow, make_grasps: MakeGrasps
) -> None:
    (result,) = score(make_grasps([make_row(0.03)]), box, protocol)
    assert result.outcome == "ok"
    assert result.contacts_grasp > 0
    assert result.contacts_end > 0
    assert result.contact_distance < 1e-4
    assert result.hand_object_penetration < 1e-4
    assert result.direction_success.sum() == (6 if protocol == "fc" else 1)
    if protocol == "tabletop":  # lifted by 0.2 m with the hand
        assert result.final_object_pose[2] == pytest.approx(0.23, abs=2e-3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bad_grasps_are_coded(
    protocol: str, box: ObjectAsset, make_row: MakeRow, make_grasps: MakeGrasps
) -> None:
    nan = make_row(0.03)
    nan[1, 3] = np.nan
    unnormalised = make_row(0.03)
    unnormalised[2, 3:7] *= 2
    rows = [make_row(0.3), make_row(-0.01), make_row(0.03, width=0.005), nan, unnormalised]
    codes = [result.outcome for result in score(make_grasps(rows), box, protocol)]
    assert codes == [
        "no_contact",
        "initial_penetration",
        "initial_penetration",
        "invalid_input",
        "invalid_input",
    ]


def test_without_friction_the_box_slides_out(
    box: ObjectAsset, make_row: MakeRow, make_grasps: MakeGrasps
) -> None:
    grasps = make_grasps([make_row(0.03)])
    slick = PhysicsConfig(friction=(0.0, 0.0, 0.0))
    (fc,) = score(grasps, box, "fc", physics=slick)
    assert fc.outcome == "dropped_+x"
    # along y the jaw itself is in the way, along +z the palm 9 mm above, friction or not
    assert fc.direction_success.tolist() == [False, False, True, True, True, False]
    (lift,) = score(grasps, box, "tabletop", physics=slick)
    assert lift.outcome == "slipped"


@pytest.mark.parametrize("friction", [0.3, 0.6])
def test_coulomb_limit_of_a_two_pad_grip(
    friction: float, box: ObjectAsset, make_row: MakeRow, make_grasps: MakeGrasps
) -> None:
    """A jaw of grip force N holds a tangential force F iff F <= 2 mu N; within 10 %."""
    physics = PhysicsConfig(friction=(friction, 0.02, 0.0001))
    evaluator = Evaluator(MjEnvConfig(hand="panda_gripper", workers=0, physics=physics))
    grasp = evaluator._model(box, "fc")
    pregrasp, target, squeeze = make_row(0.03)
    row = GraspInput(
        grasp_index=0,
        object_pose=np.array([0, 0, 0.03, 1, 0, 0, 0], float),
        pregrasp_qpos=pregrasp,
        grasp_qpos=target,
        squeeze_qpos=squeeze,
    )
    trial = Trial(grasp=grasp, row=row, deadline=np.inf)
    config = FcConfig(hold_time=1.0, settled_move=0.0)
    assert trial.close_hand(config.closing).outcome == ""
    wrench = np.zeros(6)
    normal = 0.0
    for i in range(grasp.data.ncon):
        mujoco.mj_contactForce(grasp.model, grasp.data, i, wrench)
        normal += wrench[0]
    grip = normal / 2
    # the grip is what the position servo gives: kp * (q - target)
    assert grip == pytest.approx(1000 * 0.01, rel=0.15)
    start, origin = trial.save(), trial.object_start()
    limit = 2 * friction * grip
    for axis in ([1, 0, 0], [-1, 0, 0], [0, 0, -1]):  # along +z the palm is in the way
        trial.restore(start)
        assert not hold_against(trial, 0.9 * limit * np.array(axis, float), config, origin).failed
        trial.restore(start)
        assert hold_against(trial, 1.1 * limit * np.array(axis, float), config, origin).failed


def test_a_lift_needs_the_grip_that_newton_asks_for(
    box: ObjectAsset, make_row: MakeRow, make_grasps: MakeGrasps
) -> None:
    """Slips iff 2 mu N < m (g + a), a the peak of the minimum-jerk rise, 5.77 h / T^2."""
    config = TabletopConfig()
    peak = 10 / np.sqrt(3) * config.lift_height / config.lift_time**2
    limit = 0.1 * (config.gravity + peak) / (2 * 0.6)
    rows = []
    for share in (0.9, 1.1, 8.0):
        row = make_row(0.03)
        row[2, 7:] = 0.02 - share * limit / 1000  # kp is 1000 N/m
        rows.append(row)
    weak, enough, strong = score(make_grasps(rows), box, "tabletop")
    assert weak.outcome == "slipped"
    assert enough.outcome == strong.outcome == "ok"
    assert strong.translation < 1e-3
    assert strong.final_object_pose[2] == pytest.approx(0.23, abs=1e-3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_q_and_minus_q_are_one_pose(
    protocol: str, box: ObjectAsset, make_row: MakeRow, make_grasps: MakeGrasps
) -> None:
    flipped = make_row(0.03)
    flipped[1:, 3:7] *= -1
    grasps = make_grasps([make_row(0.03), flipped])
    a, b = score(grasps, box, protocol)
    assert same(a, b)
    (c, _) = score(
        replace(grasps, object_pose=grasps.object_pose * [1, 1, 1, -1, -1, -1, -1]), box, protocol
    )
    assert same(a, c)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_grasp_does_not_depend_on_the_ones_before_it(
    protocol: str, box: ObjectAsset, make_row: MakeRow, make_grasps: MakeGrasps
) -> None:
    rows = [make_row(0.03), make_row(0.3), make_row(0.045), make_row(0.02, width=0.019)]
    together = score(make_grasps(rows), box, protocol)
    alone = [score(make_grasps([row]), box, protocol)[0] for row in rows]
    assert all(same(a, b) for a, b in zip(together, alone, strict=True))


def test_early_decision_agrees_with_the_full_hold(
    box: ObjectAsset, make_row: MakeRow, make_grasps: MakeGrasps
) -> None:
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(8):
        row = make_row(0.03 + rng.uniform(0, 0.03), width=0.02)
        row[:, 0] += rng.uniform(-0.03, 0.03)
        row[2, 7:] = 0.02 - rng.uniform(0.0002, 0.002)  # grips near the limit
        rows.append(row)
    grasps = make_grasps(rows)
    early = score(grasps, box, "fc", fc=FcConfig())
    full = score(grasps, box, "fc", fc=FcConfig(settled_move=0.0))
    assert {r.outcome for r in full} > {"ok"}  # both kinds occur
    for a, b in zip(early, full, strict=True):
        assert a.outcome == b.outcome
        assert a.direction_success.tolist() == b.direction_success.tolist()
