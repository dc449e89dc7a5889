"""Objects in MuJoCo against closed forms: free fall, exact mass, resting on the table."""

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from schemas.records import ObjectAsset
from stages.assets.hands.load import load_hand
from stages.envs.mujoco.hand_index import hand_index, set_hand_qpos
from stages.envs.mujoco.hand_model import hand_mjspec
from stages.envs.mujoco.object_model import add_object, add_table

MakeBox = Callable[..., ObjectAsset]


def test_mass_and_inertia_are_exact(make_box: MakeBox) -> None:
    spec = mujoco.MjSpec()
    asset = make_box((0.06, 0.04, 0.1))
    add_object(spec, asset, "thing", (0, 0, 1, 1, 0, 0, 0), mass=0.123)
    model = spec.compile()
    body = model.body("thing")
    assert body.mass[0] == 0.123
    np.testing.assert_allclose(
        np.sort(body.inertia), np.sort(np.diag(asset.inertia)) * 0.123 / 0.3, rtol=1e-9
    )


def test_free_fall_follows_g(make_box: MakeBox) -> None:
    spec = mujoco.MjSpec()
    add_object(spec, make_box((0.06, 0.04, 0.1)), "thing", (0, 0, 10, 1, 0, 0, 0))
    spec.option.timestep = 1e-3
    model = spec.compile()
    data = mujoco.MjData(model)
    for _ in range(1000):
        mujoco.mj_step(model, data)
    fall = 0.5 * 9.81 * 1.0**2
    # semi-implicit Euler falls g t dt / 2 further than the parabola
    assert 10 - data.qpos[2] == pytest.approx(fall + 9.81 * 0.5e-3, abs=1e-6)


def test_box_rests_on_a_raised_table_and_the_table_never_touches_the_hand(
    make_box: MakeBox,
) -> None:
    hand = load_hand("panda_gripper")
    spec = hand_mjspec(hand)
    add_table(spec, (0, 0, 0.2, 1, 0, 0, 0))
    add_object(spec, make_box((0.06, 0.04, 0.1)), "thing", (0.3, 0, 0.251, 1, 0, 0, 0))
    model = spec.compile()
    data = mujoco.MjData(model)
    index = hand_index(hand, model)
    # the hand is buried in the table
    set_hand_qpos(data, index, np.array([0, 0, 0.15, 1, 0, 0, 0, *hand.open_qpos]))
    for _ in range(1000):
        mujoco.mj_step(model, data)
        for contact in data.contact:
            assert not set(contact.geom) & set(index.geoms.tolist())
    assert data.body("thing").xpos[2] == pytest.approx(0.25, abs=1e-3)
    weight = np.zeros(6)
    total = 0.0
    for i in range(data.ncon):
        mujoco.mj_contactForce(model, data, i, weight)
        total += weight[0]
    assert total == pytest.approx(0.3 * 9.81, rel=1e-2)
