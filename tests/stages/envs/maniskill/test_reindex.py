"""Joint orders: names decide, both ways, and a bimanual robot is not scrambled."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.envs.errors import JointOrderError
from stages.envs.maniskill.dexgrasp import DexGrasp
from stages.envs.maniskill.reindex import JointOrders, columns, joint_orders
from tests.maniskill_scenes import a_scene

names = st.lists(
    st.text("abcdef_123", min_size=1, max_size=6), min_size=1, max_size=24, unique=True
)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), observed=names, batch=st.integers(0, 3))
def test_both_directions_undo_each_other_and_keep_names(
    data: st.DataObject, observed: list[str], batch: int
) -> None:
    orders = JointOrders(
        observation=tuple(observed), action=tuple(data.draw(st.permutations(observed)))
    )
    values = np.arange(batch * len(observed), dtype=float).reshape(batch, len(observed))
    assert np.array_equal(orders.to_observation(orders.to_action(values)), values)
    assert np.array_equal(orders.to_action(orders.to_observation(values)), values)
    # a value goes with its name: what is named n in one order is named n in the other
    named = np.array(observed)
    assert orders.to_action(named).tolist() == list(orders.action)
    tensor = torch.as_tensor(values)
    assert torch.equal(orders.to_observation(orders.to_action(tensor)), tensor)


def test_orders_of_different_robots_are_refused() -> None:
    with pytest.raises(JointOrderError, match="not the same joints"):
        JointOrders(observation=("a", "b"), action=("a", "c"))
    with pytest.raises(JointOrderError, match="z missing"):
        columns(["a", "b"], ["b", "z"])
    with pytest.raises(JointOrderError, match="twice"):
        columns(["a", "a"], ["a"])


def test_the_arms_of_a_bimanual_robot_go_where_each_was_sent() -> None:
    """Its arms alternate in observations and follow each other in actions."""
    env = DexGrasp(
        scenes=[a_scene((), ())], robot_uids="bimanual_panda", control_mode="pd_joint_pos",
        obs_mode="none", reward_mode="none", sim_backend="cpu", render_backend="none",
    )  # fmt: skip
    try:
        orders = joint_orders(env.agent)
        assert orders.observation != orders.action
        right = [name for name in orders.action if name.startswith("right")]
        assert list(orders.action[: len(right)]) == right
        assert orders.observation[:2] == ("right_panda_joint1", "left_panda_joint1")
        start = env.agent.robot.get_qpos()
        wanted = start.clone()
        for i, name in enumerate(orders.observation):
            arm, step = name.split("_")[0], 0.02 * (i % 5 + 1)
            if "finger" not in name:
                wanted[:, i] += step if arm == "left" else -step
        for _ in range(60):
            env.step(orders.to_action(wanted))
        reached = env.agent.robot.get_qpos()
        assert torch.abs(reached - wanted).max() < 0.005
        assert torch.abs(start - wanted).max() > 0.05  # the wrong order would be far off
    finally:
        env.close()
