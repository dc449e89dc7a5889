"""DexGraspNet's published grasps touch their objects, so the frames and joints are understood."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from schemas.frames import quaternion_to_matrix
from stages.assets.hands.load import load_hand
from stages.assets.hands.spec import HandSpec
from stages.assets.published import published_asset
from stages.envs.config import PhysicsConfig
from stages.envs.mujoco.grasp_model import build_grasp_model
from stages.envs.mujoco.hand_model import set_hand_qpos
from stages.grasp.formats import ImportedGrasps, read_grasps, write_grasps
from stages.grasp.formats.dexgraspnet import OPPOSITE
from tests.dexgraspbench import HAND
from tests.reference import REFERENCE
from tests.stages.grasp.formats_data import assert_same

ROOT = REFERENCE / "dexgraspnet"
FILES = sorted(ROOT.glob("*.npy"))
Float = NDArray[np.float64]
EVERY = 12  # of the grasps, to save time

pytestmark = [
    pytest.mark.skipif(not FILES, reason=f"no DexGraspNet files at {ROOT}"),
    pytest.mark.skipif(
        not (REFERENCE / "menagerie" / "shadow_hand").is_dir(), reason=f"no Shadow at {REFERENCE}"
    ),
]


@pytest.fixture(scope="module")
def hand() -> HandSpec:
    """The reference's copy of the menagerie's Shadow hand, which starts at the palm."""
    return load_hand(HAND)


def distances(
    hand: HandSpec, file: Path, sets: list[ImportedGrasps], move: Callable[[Float], None]
) -> tuple[Float, Float]:
    """(G, 5) m of each fingertip to the object, negative inside, and (G,) m deepest penetration."""
    tips: list[list[float]] = []
    depths: list[float] = []
    for one in sets:
        asset = published_asset(ROOT / "meshdata", file.stem, one.scale)
        m = build_grasp_model(hand, asset, PhysicsConfig())
        geoms_of = [np.flatnonzero(m.model.geom_bodyid == b) for b in m.index.tip_bodies]
        shapes = [int(o) for o in np.flatnonzero(m.is_object)]
        pairs = [
            [(int(g), o) for g in geoms if m.hand_geoms[g] for o in shapes] for geoms in geoms_of
        ]
        for row in one.grasps.grasp_qpos[::EVERY].copy():
            move(row)
            m.data.qpos[m.object_qpos : m.object_qpos + 7] = one.grasps.object_pose
            set_hand_qpos(m.data, m.index, row, drive=False)
            mujoco.mj_kinematics(m.model, m.data)
            mujoco.mj_comPos(m.model, m.data)
            mujoco.mj_collision(m.model, m.data)
            tips.append(
                [
                    min(mujoco.mj_geomDistance(m.model, m.data, g, o, 0.2, None) for g, o in finger)
                    for finger in pairs
                ]
            )
            geoms, dist = m.data.contact.geom, m.data.contact.dist
            mine = m.hand_geoms[geoms].any(axis=1) & m.is_object[geoms].any(axis=1)
            depths.append(max(0.0, -dist[mine].min(initial=0.0)))
    return np.array(tips), np.array(depths)


def shifted(z: float) -> Callable[[Float], None]:
    """Move the root along the palm's z."""

    def move(row: Float) -> None:
        row[:3] += quaternion_to_matrix(row[3:7]) @ [0.0, 0.0, z]

    return move


def turned_round(hand: HandSpec, *joints: str) -> Callable[[Float], None]:
    """Take the axes of `joints` the other way."""

    def move(row: Float) -> None:
        for joint in joints:
            row[7 + hand.joint_names.index(joint)] *= -1

    return move


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_fingertips_lie_on_the_object(hand: HandSpec, file: Path) -> None:
    sets = read_grasps(file, "dexgraspnet", hand)
    tips, depths = distances(hand, file, sets, lambda row: None)
    assert np.median(np.abs(tips), axis=0).max() < 0.0035  # every finger
    assert np.median(np.abs(tips)) < 0.002
    assert np.mean(np.abs(tips) < 0.005) > 0.85
    assert np.percentile(depths, 90) < 0.0045  # their fingers are thinner than the menagerie's

    for z in (-0.034, -0.005, 0.005, 0.034):
        wrong, _ = distances(hand, file, sets, shifted(z))
        assert np.median(np.abs(wrong)) > 1.4 * np.median(np.abs(tips)), z
    for joint in (*OPPOSITE, "rh_RFJ4", "rh_LFJ4", "rh_THJ5"):
        wrong, _ = distances(hand, file, sets, turned_round(hand, joint))
        finger = ("FF", "MF", "RF", "LF", "TH").index(joint[3:5])
        of_finger = [np.percentile(np.abs(d[:, finger]), 75) for d in (tips, wrong)]
        assert of_finger[1] > 1.2 * of_finger[0], joint


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_reference_files_come_back(hand: HandSpec, file: Path, tmp_path: Path) -> None:
    sets = read_grasps(file, "dexgraspnet", hand)
    assert [one.scale for one in sets] == sorted(one.scale for one in sets)
    assert len(sets) == 5
    assert sum(len(one.grasps) for one in sets) in (205, 246)
    write_grasps(tmp_path / file.name, "dexgraspnet", sets, hand)
    for a, b in zip(sets, read_grasps(tmp_path / file.name, "dexgraspnet", hand), strict=True):
        assert_same(a, b)
    with pytest.raises(ValueError, match="expected the Shadow's"):
        read_grasps(file, "dexgraspnet", replace(hand, joint_names=("x", *hand.joint_names[1:])))
