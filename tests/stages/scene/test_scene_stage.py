"""Start poses by their distributions, settling by statics and energy."""

from dataclasses import fields, replace

import numpy as np
import pytest
import trimesh

from schemas.frames import pose_to_matrix, rotation_angle, transform_points
from schemas.records import ObjectAsset, Scene
from schemas.validate import problems
from stages.contract import Item
from stages.scene.backends.settle import settle, settle_model
from stages.scene.config import SceneConfig
from stages.scene.errors import PlacementError, SceneConfigError
from stages.scene.sample import clutter_poses, floating_pose, resting_pose, uniform_quaternion
from stages.scene.stage import ON_TABLE, SceneStage
from tests.solids import solid_asset

CONFIG = SceneConfig()


@pytest.fixture(scope="module")
def solids() -> dict[str, ObjectAsset]:
    wedge = trimesh.convex.convex_hull(
        np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.06, 0], [0.1, 0.06, 0], [0, 0, 0.05]])
    )
    return {
        "brick": solid_asset(trimesh.creation.box((0.08, 0.05, 0.03)), "brick"),
        "ball": solid_asset(trimesh.creation.icosphere(3, 0.03), "ball"),
        "can": solid_asset(trimesh.creation.cylinder(0.03, 0.1, sections=48), "can"),
        "wedge": solid_asset(wedge, "wedge"),
    }


def lowest(asset: ObjectAsset, pose: np.ndarray) -> float:
    return float(transform_points(pose_to_matrix(pose), asset.vertices)[:, 2].min())


def centre(asset: ObjectAsset, pose: np.ndarray) -> np.ndarray:
    return transform_points(pose_to_matrix(pose), asset.center_of_mass[None])[0]


def test_rotations_are_uniform() -> None:
    """Haar measure: the angle has density (1 - cos) / pi, and any axis is as likely."""
    rng = np.random.default_rng(0)
    qs = np.array([uniform_quaternion(rng) for _ in range(4000)])
    angle = np.sort([rotation_angle([1, 0, 0, 0], q) for q in qs])
    expected = (angle - np.sin(angle)) / np.pi
    gap = np.abs(expected - np.arange(1, 4001) / 4000).max()
    assert gap < 1.63 / np.sqrt(4000)  # Kolmogorov-Smirnov, 1 %
    np.testing.assert_allclose(np.cov(qs.T, bias=True) + np.outer(qs.mean(0), qs.mean(0)),
                               np.eye(4) / 4, atol=0.02)  # fmt: skip


def test_a_floating_object_turns_about_its_centre_of_mass(solids: dict[str, ObjectAsset]) -> None:
    for seed in range(20):
        pose = floating_pose(solids["wedge"], CONFIG, np.random.default_rng(seed))
        np.testing.assert_allclose(centre(solids["wedge"], pose), [0, 0, 0.3], atol=1e-9)


def test_a_resting_object_starts_just_above_the_table(solids: dict[str, ObjectAsset]) -> None:
    radii = []
    for seed in range(300):
        pose = resting_pose(solids["wedge"], CONFIG, np.random.default_rng(seed))
        assert lowest(solids["wedge"], pose) == pytest.approx(CONFIG.clearance, abs=1e-6)
        radii.append(np.linalg.norm(centre(solids["wedge"], pose)[:2]))
    assert max(radii) <= CONFIG.workspace_radius
    # Uniform over a disk: the mean of r^2 is R^2 / 2, sd R^2 / sqrt(12).
    share = np.mean(np.square(radii)) / CONFIG.workspace_radius**2
    assert share == pytest.approx(0.5, abs=4 * 0.289 / np.sqrt(300))


def test_boxes_do_not_overlap_at_the_start(solids: dict[str, ObjectAsset]) -> None:
    tight = replace(CONFIG, workspace_radius=0.06)  # so that some must be stacked
    stacked = 0
    for seed in range(30):
        assets = list(solids.values())
        poses = clutter_poses(assets, tight, np.random.default_rng(seed))
        boxes = []
        for asset, pose in zip(assets, poses, strict=True):
            placed = transform_points(pose_to_matrix(pose), asset.vertices)
            boxes.append((placed.min(axis=0), placed.max(axis=0)))
            assert placed[:, 2].min() >= tight.clearance - 1e-6
        stacked += sum(low[2] > 2 * tight.clearance for low, _ in boxes)
        for i, (low, high) in enumerate(boxes):
            for other_low, other_high in boxes[:i]:
                assert ((low >= other_high - 1e-6) | (other_low >= high - 1e-6)).any()
    assert stacked > 5


def test_a_brick_comes_to_rest_on_its_face(solids: dict[str, ObjectAsset]) -> None:
    brick = solids["brick"]
    start = np.array([[0.02, 0.03, 0.2, 1, 0, 0, 0]])
    poses, seconds = settle([brick], start, ON_TABLE, CONFIG)
    # Free fall of 185 mm takes sqrt(2 h / g).
    assert seconds > np.sqrt(2 * 0.185 / 9.81)
    assert centre(brick, poses[0])[2] == pytest.approx(0.015, abs=1e-3)
    np.testing.assert_allclose(poses[0, :2], [0.02, 0.03], atol=3e-3)
    up = pose_to_matrix(poses[0])[:3, 2]
    assert up[2] == pytest.approx(1.0, abs=1e-4)
    assert lowest(brick, poses[0]) > -1e-3


def test_from_any_start_it_ends_on_a_stable_face(solids: dict[str, ObjectAsset]) -> None:
    """The heights of rest are the statics': those of `stable_poses`, found without physics."""
    for name in ("brick", "can", "wedge"):
        asset = solids[name]
        heights = [centre(asset, pose)[2] for pose in asset.stable_poses]
        for seed in range(6):
            rng = np.random.default_rng(seed)
            start = floating_pose(asset, replace(CONFIG, floating_height=0.12), rng)[None]
            poses, _ = settle([asset], start, ON_TABLE, CONFIG)
            gap = np.abs(centre(asset, poses[0])[2] - heights).min()
            assert gap < 1.5e-3, (name, seed, gap)


def test_settled_clutter_is_at_rest_and_apart(solids: dict[str, ObjectAsset]) -> None:
    import mujoco

    assets = [*solids.values(), solids["brick"]]
    rng = np.random.default_rng(3)
    poses, _ = settle(assets, clutter_poses(assets, CONFIG, rng), ON_TABLE, CONFIG)
    model = settle_model(assets, poses, ON_TABLE, CONFIG)
    assert float(model.body_mass[1:].sum()) == pytest.approx(sum(a.mass for a in assets))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert min((c.dist for c in data.contact), default=0) > -CONFIG.max_penetration
    # A second of simulation later nothing has moved to speak of.
    for _ in range(round(1.0 / CONFIG.timestep)):
        mujoco.mj_step(model, data)
    moved = data.qpos.reshape(-1, 7)
    assert np.linalg.norm(moved[:, :3] - poses[:, :3], axis=1).max() < 2e-3
    for a, b in zip(moved, poses, strict=True):
        assert rotation_angle(a[3:] / np.linalg.norm(a[3:]), b[3:]) < np.deg2rad(2)
    # The table carries the weight: contact forces sum to m g.
    total = np.zeros(3)
    force = np.zeros(6)
    for i, contact in enumerate(data.contact):
        if 0 in model.geom_bodyid[contact.geom]:
            mujoco.mj_contactForce(model, data, i, force)
            world = contact.frame.reshape(3, 3).T @ force[:3]
            total += world if model.geom_bodyid[contact.geom[0]] == 0 else -world
    weight = sum(a.mass for a in assets) * 9.81
    assert abs(total[2]) == pytest.approx(weight, rel=0.02)
    assert np.abs(total[:2]).max() < 0.02 * weight


@pytest.mark.parametrize(
    ("start", "change", "code"),
    [
        ([0.7, 0.0, 0.05, 1, 0, 0, 0], {}, "fell_off"),
        ([0.0, 0.0, 0.5, 1, 0, 0, 0], {"max_time": 0.3}, "not_at_rest"),
        ([0.0, 0.0, 0.014, 1, 0, 0, 0], {"max_penetration": 1e-9}, "interpenetration"),
    ],
)
def test_what_does_not_come_to_rest_is_coded(
    solids: dict[str, ObjectAsset], start: list[float], change: dict[str, float], code: str
) -> None:
    with pytest.raises(PlacementError) as error:
        settle([solids["brick"]], np.array([start], float), ON_TABLE, replace(CONFIG, **change))
    assert error.value.code == code


def test_scenes_do_not_depend_on_their_block(solids: dict[str, ObjectAsset]) -> None:
    config = SceneConfig(floating=2, tabletop=2, clutter=2, clutter_max=4)
    stage = SceneStage()
    assets = [Item(id=name, tags={"split": "train"}) for name in solids]
    items = stage.plan(config, {"assets": assets})
    inputs = {("assets", name): asset for name, asset in solids.items()}
    seeds = {item.id: 1000 + i for i, item in enumerate(items)}
    together = stage.run(items, inputs, config, seeds)
    for item, outcome in zip(items, together, strict=True):
        assert outcome.code == "ok", outcome.message
        scene = outcome.record
        assert isinstance(scene, Scene)
        assert problems(scene) == []
        assert scene.has_table == (scene.kind != "floating")
        assert list(scene.object_ids) == item.params["objects"]
        assert scene.object_masses.tolist() == [solids[o].mass for o in scene.object_ids]
        [alone] = stage.run([item], inputs, config, seeds)
        for field in fields(scene):
            assert np.array_equal(getattr(scene, field.name), getattr(alone.record, field.name))


def test_a_failed_scene_says_in_how_many_attempts(solids: dict[str, ObjectAsset]) -> None:
    config = SceneConfig(floating=0, tabletop=1, clutter=0, max_time=0.21, attempts=2)
    stage = SceneStage()
    items = stage.plan(config, {"assets": [Item(id="ball", tags={"split": "train"})]})
    inputs = {("assets", "ball"): solids["ball"]}
    [outcome] = stage.run(items, inputs, config, {items[0].id: 0})
    assert outcome.code == "not_at_rest"
    assert "last of 2 attempts" in outcome.message


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(SceneConfigError, match="leaves no rim"):
        SceneConfig(table_size=(0.3, 0.3))
    with pytest.raises(SceneConfigError, match="clutter_min <= clutter_max"):
        SceneConfig(clutter_min=5, clutter_max=3)
