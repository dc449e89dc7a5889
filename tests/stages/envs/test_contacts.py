"""Contacts at a grasp pose, where the pads of a jaw are."""

from collections.abc import Callable

import numpy as np

from schemas.records import GraspSet, ObjectAsset
from stages.assets.hands.load import load_hand
from stages.envs.mujoco.contacts import grasp_contacts


def test_pads_touch_the_sides_that_they_close_on(
    box: ObjectAsset, make_row: Callable[..., np.ndarray], make_grasps: Callable[..., GraspSet]
) -> None:
    """A box 40 mm wide along the closing direction, its middle 30 mm above the table."""
    closed, wide, off = make_row(0.03), make_row(0.03, 0.035), make_row(0.04)
    touching = grasp_contacts(
        load_hand("panda_gripper"), make_grasps([closed, wide, off]), box, threshold=0.005
    )
    assert [len(points) for points in touching] == [2, 0, 2]
    for points in (touching[0], touching[2]):
        np.testing.assert_allclose(np.sort(points[:, 1]), [-0.02, 0.02], atol=1e-3)
        assert np.abs(points[:, 0]).max() < 5e-3
    # Object frame: the box lies at z = 30 mm, so a grasp 10 mm higher touches 10 mm above it.
    rise = touching[2][:, 2].mean() - touching[0][:, 2].mean()
    assert 0.004 < rise < 0.011
