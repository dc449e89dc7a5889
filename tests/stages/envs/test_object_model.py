"""Objects in MuJoCo against closed forms: free fall, exact mass, resting on the table."""

import mujoco
import numpy as np
import pytest
import trimesh

from schemas.records import ObjectAsset
from stages.assets.hands.load import load_hand
from stages.envs.mujoco.hand_model import hand_index, hand_mjspec, set_hand_qpos
from stages.envs.mujoco.object_model import add_object, add_table


def box_asset(extents: tuple[float, float, float], mass: float = 0.3) -> ObjectAsset:
    """A solid box cut in two overlapping convex pieces, so that shapes alone give a wrong mass."""
    x, y, z = extents
    whole = trimesh.creation.box(extents)
    left = trimesh.creation.box(
        (0.6 * x, y, z), trimesh.transformations.translation_matrix([-0.2 * x, 0, 0])
    )
    right = trimesh.creation.box(
        (0.6 * x, y, z), trimesh.transformations.translation_matrix([0.2 * x, 0, 0])
    )
    inertia = mass / 12 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
    return ObjectAsset(
        object_id="box",
        source="box.obj",
        licence="CC0",
        sha256="0" * 64,
        scale=1.0,
        vertices=whole.vertices.astype(np.float32),
        faces=whole.faces.astype(np.int32),
        piece_vertices=np.concatenate([left.vertices, right.vertices]).astype(np.float32),
        piece_faces=np.concatenate([left.faces, right.faces]).astype(np.int32),
        piece_vertex_offsets=np.array([0, 8, 16]),
        piece_face_offsets=np.array([0, 12, 24]),
        volume=x * y * z,
        density=mass / (x * y * z),
        mass=mass,
        center_of_mass=np.zeros(3),
        inertia=inertia,
        stable_poses=np.array([[0, 0, z / 2, 1, 0, 0, 0]], float),
        stable_probabilities=np.ones(1),
        notes="",
    )


def test_mass_and_inertia_are_exact() -> None:
    spec = mujoco.MjSpec()
    asset = box_asset((0.06, 0.04, 0.1))
    add_object(spec, asset, "thing", (0, 0, 1, 1, 0, 0, 0), mass=0.123)
    model = spec.compile()
    body = model.body("thing")
    assert body.mass[0] == 0.123
    np.testing.assert_allclose(
        np.sort(body.inertia), np.sort(np.diag(asset.inertia)) * 0.123 / 0.3, rtol=1e-9
    )


def test_free_fall_follows_g() -> None:
    spec = mujoco.MjSpec()
    add_object(spec, box_asset((0.06, 0.04, 0.1)), "thing", (0, 0, 10, 1, 0, 0, 0))
    spec.option.timestep = 1e-3
    model = spec.compile()
    data = mujoco.MjData(model)
    for _ in range(1000):
        mujoco.mj_step(model, data)
    fall = 0.5 * 9.81 * 1.0**2
    # semi-implicit Euler falls g t dt / 2 further than the parabola
    assert 10 - data.qpos[2] == pytest.approx(fall + 9.81 * 0.5e-3, abs=1e-6)


def test_box_rests_on_a_raised_table_and_the_table_never_touches_the_hand() -> None:
    hand = load_hand("panda_gripper")
    spec = hand_mjspec(hand)
    add_table(spec, (0, 0, 0.2, 1, 0, 0, 0))
    add_object(spec, box_asset((0.06, 0.04, 0.1)), "thing", (0.3, 0, 0.251, 1, 0, 0, 0))
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
