"""Scene records as actors: grouping, order, mass, gravity, and what counts as a grasp."""

from collections.abc import Iterator
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

from schemas.frames import quaternion_to_matrix
from stages.envs.errors import EnvConfigError
from stages.envs.maniskill.dexgrasp import DexGrasp
from stages.envs.maniskill.judge import judge
from stages.envs.maniskill.meshes import principal_inertia
from stages.envs.maniskill.scenes import GraspScene, Physics, grouped
from stages.envs.maniskill.seeds import scene_seeds
from tests.maniskill_scenes import a_scene, solids, three

QUIET = {"obs_mode": "none", "reward_mode": "none", "sim_backend": "cpu", "render_backend": "none"}


@pytest.fixture(scope="module")
def env() -> Iterator[DexGrasp]:
    made = gymnasium.make("DexGrasp", scenes=[three(1)], num_envs=1, **QUIET)
    assert isinstance(made.unwrapped, DexGrasp)
    yield made.unwrapped
    made.close()


def test_equal_objects_of_all_scenes_are_one_actor_in_sorted_order() -> None:
    pair = a_scene(["sphere", "sphere"], [(0, 0, 0.04, 0), (0.1, 0, 0.04, 0)])
    groups = grouped([three(1), pair, three(2)], Physics())
    assert [g.asset.object_id for g in groups] == ["box", "sphere", "sphere", "torus"]
    where = {g.asset.object_id: g.places for g in groups if g.asset.object_id != "sphere"}
    assert [i for i, _ in where["box"]] == [0, 2]
    first, second = (g.places for g in groups if g.asset.object_id == "sphere")
    assert [i for i, _ in first] == [0, 1, 2]
    assert second == [(1, 1)]  # the second copy of one scene is another actor
    for group in groups:  # every place is that object
        for i, slot in group.places:
            assert [three(1), pair, three(2)][i].assets[slot].object_id == group.asset.object_id


def test_the_order_of_the_objects_in_a_scene_does_not_change_the_build() -> None:
    names, places = ["box", "torus", "sphere"], [(0, 0, 0.03, 0), (0.2, 0, 0, 0), (-0.2, 0, 0, 0)]
    a = grouped([a_scene(names, places)], Physics())
    b = grouped([a_scene(names[::-1], places[::-1])], Physics())
    assert [g.asset.object_id for g in a] == [g.asset.object_id for g in b]


def test_mass_and_inertia_are_the_assets_scaled_to_the_mass_asked_for(env: DexGrasp) -> None:
    for group in env.contents.groups:
        body = group.actor._bodies[0]
        scaled = group.asset.inertia * (0.1 / group.asset.mass)
        R = quaternion_to_matrix(body.cmass_local_pose.q.astype(float))
        assert body.mass == pytest.approx(0.1)
        assert np.allclose(R @ np.diag(body.inertia) @ R.T, scaled, rtol=1e-4, atol=1e-9)
        assert np.allclose(body.cmass_local_pose.p, group.asset.center_of_mass, atol=1e-6)


def test_principal_axes_give_the_inertia_back() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        A = rng.normal(size=(3, 3))
        inertia = A @ A.T + np.eye(3)
        quaternion, moments = principal_inertia(inertia)
        R = quaternion_to_matrix(quaternion)
        assert np.allclose(R @ np.diag(moments) @ R.T, inertia)


def test_a_dropped_sphere_falls_as_it_must_and_rests_on_the_table() -> None:
    scene = a_scene(["sphere"], [(0, 0, 0.34, 0)])
    env = DexGrasp(scenes=[scene], sim_config={"sim_freq": 1000, "control_freq": 100}, **QUIET)
    try:
        for _ in range(20):
            env.step(None)
        fallen = 0.34 - env.target_pose()[0, 2]
        assert fallen == pytest.approx(9.81 * 0.2**2 / 2, rel=0.01)
        for _ in range(80):
            env.step(None)
        assert env.target_pose()[0, 2] == pytest.approx(0.04, abs=1e-3)  # its radius
    finally:
        env.close()


@pytest.mark.parametrize("how", ["floating_object", "floating scene"])
def test_a_floating_object_has_neither_table_nor_weight(how: str) -> None:
    scene = a_scene(["box"], [(0, 0, 0.2, 0)], table=how == "floating_object")
    env = DexGrasp(scenes=[scene], floating_object=how == "floating_object", **QUIET)
    try:
        assert env.contents.tables == []
        for _ in range(10):
            env.step(None)
        assert np.allclose(env.target_pose()[0, :3], [0, 0, 0.2], atol=1e-6)
    finally:
        env.close()


def test_the_target_is_the_object_that_the_scene_names(env: DexGrasp) -> None:
    one = three(1)
    other = GraspScene(scene=one.scene, assets=one.assets, target=2)
    env.rebuild([other])
    assert np.allclose(env.target_pose()[0, :3], one.scene.object_poses[2, :3], atol=1e-6)
    env.rebuild([one])
    assert np.allclose(env.target_pose()[0, :3], one.scene.object_poses[0, :3], atol=1e-6)


def test_what_cannot_be_built_is_refused() -> None:
    one = three(1)
    with pytest.raises(EnvConfigError, match="expected the assets of"):
        GraspScene(scene=one.scene, assets=one.assets[::-1])
    with pytest.raises(EnvConfigError, match="target 3 of 3"):
        GraspScene(scene=one.scene, assets=one.assets, target=3)
    grains = replace(one.scene, grain_positions=np.zeros((1, 3), np.float32), grain_radius=0.01)
    with pytest.raises(EnvConfigError, match=f"scene '{grains.scene_id}': holds grains"):
        GraspScene(scene=grains, assets=one.assets)
    with pytest.raises(EnvConfigError, match="expected 2 scenes, got 1"):
        DexGrasp(scenes=[one], num_envs=2, **QUIET)
    with pytest.raises(EnvConfigError, match="no ManiSkill agent 'nobody'; known: "):
        DexGrasp(scenes=[one], robot_uids="nobody", **QUIET)


def forces(*links: tuple[float, float, float]) -> torch.Tensor:
    return torch.tensor(links, dtype=torch.float32)[:, None]


@pytest.mark.parametrize(
    ("pushes", "lift", "grasped", "strictly", "success", "floating"),
    [
        (((0, 1, 0), (0, -1, 0)), 0.2, True, True, True, True),
        (((0, 1, 0), (0, -1, 0)), 0.05, True, True, False, True),  # not lifted far enough
        (((0, 1, 0), (0, -0.4, 0)), 0.2, False, False, False, False),  # one push is too weak
        (((0, 1, 0),), 0.2, False, False, False, False),
        (((0, 0, 1), (0, 0.2, 1)), 0.2, True, False, False, True),  # a tray
        (((0, 0, 0), (0, 0, 0)), 0.2, False, False, False, False),
    ],
)  # fmt: skip
def test_two_links_must_push_and_against_each_other(
    pushes: tuple[tuple[float, float, float], ...],
    lift: float, grasped: bool, strictly: bool, success: bool, floating: bool,
) -> None:  # fmt: skip
    made = judge(forces(*pushes), torch.tensor([lift]), target_lift_dist=0.1, floating=False)
    assert made["is_grasped"].tolist() == [grasped]
    assert made["is_strictly_grasped"].tolist() == [strictly]
    assert made["success"].tolist() == [success]
    alone = judge(forces(*pushes), torch.tensor([0.0]), target_lift_dist=0.1, floating=True)
    assert alone["success"].tolist() == [floating]


def test_seeds_come_from_the_scene_and_not_from_its_place() -> None:
    a, b, c = scene_seeds(7, ["a", "b", "c"])
    assert scene_seeds(7, ["c", "a"]) == [c, a]
    assert len({a, b, c, *scene_seeds(8, ["a"])}) == 4
    assert scene_seeds(7, ["a"]) == [a]


def test_an_object_is_moved_by_its_own_scenes_random_numbers() -> None:
    one = a_scene(["box"], [(0, 0, 0.03, 0)], name="one")
    env = DexGrasp(scenes=[one], object_jitter=0.02, **QUIET)
    try:
        env.reset(seed=scene_seeds(1, ["one"]))
        first = env.target_pose()[0, :2]
        env.reset(seed=scene_seeds(1, ["two"]))
        assert not np.allclose(env.target_pose()[0, :2], first)
        env.reset(seed=scene_seeds(1, ["one"]))
        assert np.array_equal(env.target_pose()[0, :2], first)
        assert 0 < np.abs(first).max() <= 0.02
    finally:
        env.close()


@pytest.mark.gpu
def test_a_scene_of_a_batch_is_the_scene_alone() -> None:
    """On CUDA: poses after a second of physics, and every scene's own objects."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    scenes = [three(i) for i in range(4)]
    cuda = QUIET | {"sim_backend": "cuda"}
    env = DexGrasp(scenes=scenes, **cuda)
    for _ in range(20):
        env.step(None)
    batch = env.target_pose()
    env.close()
    for i, scene in enumerate(scenes):
        alone = DexGrasp(scenes=[scene], **cuda)
        for _ in range(20):
            alone.step(None)
        assert np.allclose(alone.target_pose()[0], batch[i], atol=1e-4)
        alone.close()


def test_the_solids_of_these_tests_are_what_they_seem() -> None:
    assert solids()["sphere"].volume == pytest.approx(4 / 3 * np.pi * 0.04**3, rel=0.02)
