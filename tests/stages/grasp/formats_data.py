"""Hands and random grasps for the tests of the formats."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schemas.frames import rotation_angle
from stages.assets.hands.load import load_hand
from stages.assets.hands.spec import HandSpec
from stages.grasp.formats import ImportedGrasps
from stages.grasp.formats.record import new_grasp_set
from stages.grasp.formats.shadow import SHADOW_JOINTS
from tests.dexgraspbench import HAND

QPOS = ("pregrasp_qpos", "grasp_qpos", "squeeze_qpos")


def shadow(folder: Path) -> HandSpec:
    """The Shadow hand's description on a model of one body: no format looks into the model."""
    model = folder / "stub.xml"
    model.write_text('<mujoco><worldbody><body name="rh_palm"/></worldbody></mujoco>')
    joints = len(SHADOW_JOINTS)
    return replace(
        load_hand(HAND),
        model=str(model),
        open_qpos=(0.1,) * joints,
        squeeze_delta=tuple(np.linspace(0, 0.2, joints).tolist()),
    )


def random_qpos(rng: np.random.Generator, joints: NDArray[np.float64]) -> NDArray[np.float64]:
    """Random root poses in front of `joints` (G, J)."""
    q = rng.normal(size=(len(joints), 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    return np.hstack([rng.uniform(-0.3, 0.3, (len(joints), 3)), q * np.sign(q[:, :1]), joints])


def random_set(
    hand: HandSpec, seed: int, count: int = 7, scale: float = 0.08, *, placed: bool = True
) -> ImportedGrasps:
    """Random grasps; of a jaw, with the joints that its formats stand for."""
    rng = np.random.default_rng(seed)
    shape = (count, len(hand.joint_names))
    grasp = random_qpos(rng, rng.uniform(0, 1, shape))
    if hand.kind == "parallel_jaw":
        grasp[:, 7:] = hand.open_qpos
        pregrasp, squeeze = grasp.copy(), grasp.copy()
        squeeze[:, 7:] = hand.closed_qpos
    else:
        pregrasp, squeeze = (random_qpos(rng, rng.uniform(0, 1, shape)) for _ in range(2))
    pose = random_qpos(rng, np.zeros((1, 0)))[0] if placed else [0, 0, 0, 1, 0, 0, 0]
    return ImportedGrasps(
        grasps=new_grasp_set(hand, "thing", pose, pregrasp, grasp, squeeze),
        scale=scale,
        object_file="meshes/thing.obj",
        success=rng.uniform(size=count) < 0.5,
    )


def assert_same_poses(a: NDArray[np.float64], b: NDArray[np.float64]) -> None:
    """qpos (G, 7 + J) equal to 1e-6; q and -q are one."""
    np.testing.assert_allclose(a[:, :3], b[:, :3], rtol=0, atol=1e-6)
    np.testing.assert_allclose(a[:, 7:], b[:, 7:], rtol=0, atol=1e-6)
    for qa, qb in zip(a[:, 3:7], b[:, 3:7], strict=True):
        assert rotation_angle(qa, qb) < 1e-6


def assert_same(a: ImportedGrasps, b: ImportedGrasps) -> None:
    assert (a.scale, a.object_file) == (b.scale, b.object_file)
    assert a.grasps.object_id == b.grasps.object_id
    assert a.grasps.joint_names == b.grasps.joint_names
    assert a.grasps.hand_digest == b.grasps.hand_digest
    np.testing.assert_array_equal(a.grasps.grasp_index, b.grasps.grasp_index)
    if a.success is None:
        assert b.success is None
    else:
        np.testing.assert_array_equal(a.success, b.success)
    assert_same_poses(a.grasps.object_pose[None], b.grasps.object_pose[None])
    for name in QPOS:
        assert_same_poses(getattr(a.grasps, name), getattr(b.grasps, name))
