"""An MJCF hand of the menagerie goes the same way as a URDF hand."""

import os
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from stages.assets.hands.load import hand_digest, load_hand
from stages.envs.mujoco.hand_index import hand_index, set_hand_qpos
from stages.envs.mujoco.hand_model import hand_mjspec
from tests.reference import REFERENCE

MENAGERIE = Path(os.environ.get("MENAGERIE_ROOT") or REFERENCE / "menagerie")


@pytest.mark.skipif(
    not (MENAGERIE / "wonik_allegro").is_dir(), reason=f"no menagerie at {MENAGERIE}"
)
def test_allegro_of_the_menagerie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MENAGERIE_ROOT", str(MENAGERIE))
    fingers = [f"{f}j{i}" for f in ("ff", "mf", "rf", "th") for i in range(4)]
    tips = tuple(f"{f}_tip" for f in ("ff", "mf", "rf", "th"))
    hand = replace(
        load_hand("allegro_right"),
        name="allegro_menagerie",
        model="menagerie://wonik_allegro/right_hand.xml",
        root_body="palm",
        joint_names=tuple(fingers),
        contact_bodies=("palm", *tips),
        tip_bodies=tips,
    )
    assert len(hand_digest(hand)) == 64
    model = hand_mjspec(hand).compile()
    index = hand_index(hand, model)
    assert model.nu == 16  # its own actuators were replaced
    assert model.nq == 7 + 16
    data = mujoco.MjData(model)
    pose = np.array([0.2, 0, 0.1, 1, 0, 0, 0, *hand.pregrasp_qpos])
    set_hand_qpos(data, index, pose)
    model.opt.timestep = 0.004
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for _ in range(100):
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.qpos[:3], pose[:3], atol=1e-4)
    np.testing.assert_allclose(data.qpos[index.joint_qpos], hand.pregrasp_qpos, atol=5e-3)
