"""Scenes with grains: what is stored, what is drawn, what cameras see, and what is refused."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh

from schemas.camera import Camera, Intrinsics
from schemas.frames import look_at, pose_to_matrix, transform_points
from schemas.records import ObjectAsset, Scene, decode, encode
from schemas.validate import problems
from stages.contract import Item
from stages.crop import CropSpec
from stages.render.backends.embree import EmbreeBackend
from stages.render.config import CameraConfig, RenderConfig
from stages.render.errors import RenderConfigError
from stages.render.stage import RenderStage, check_grains, render_view
from stages.scene.config import SceneConfig
from stages.scene.errors import PlacementError, SceneConfigError
from stages.scene.granular.bodies import Body
from stages.scene.granular.config import GrainsConfig
from stages.scene.granular.exposure import exposure
from stages.scene.granular.fill import fill
from stages.scene.granular.method import SimulatorConfig
from stages.scene.granular.observe import Observer, SkyCamera
from stages.scene.granular.sdf import distance_grid
from stages.scene.granular.simulator import Simulator
from stages.scene.stage import SceneStage, scene_item
from stages.shard.arrays import cloud_arrays
from stages.shard.check import check_content
from tests.solids import solid_asset

K = Intrinsics(fx=200.0, fy=200.0, cx=80.0, cy=60.0, width=160, height=120)
GRAINS = GrainsConfig(
    radius=0.008, bin_size=(0.12, 0.12, 0.1), fill_min=0.05, fill_max=0.06, lift_max=0.01,
    knot_spacing=0.004,
)  # fmt: skip
CONFIG = SceneConfig(granular=1, floating=0, tabletop=0, clutter=0, grains=GRAINS)


@pytest.fixture(scope="module")
def brick() -> ObjectAsset:
    return solid_asset(trimesh.creation.box((0.05, 0.04, 0.03)), "brick")


@pytest.fixture(scope="module")
def scene(brick: ObjectAsset) -> Scene:
    item = scene_item("granular-00000", "granular", {"brick": "train"}, CONFIG)
    (outcome,) = SceneStage().run([item], {("assets", "brick"): brick}, CONFIG, {item.id: 5})
    assert outcome.code == "ok", outcome.message
    return outcome.record


def test_grains_lie_in_the_bin_around_the_object(scene: Scene, brick: ObjectAsset) -> None:
    r, x = scene.grain_radius, scene.grain_positions.astype(float)
    assert problems(scene) == []
    assert len(x) > 100
    assert np.abs(x[:, :2]).max() <= 0.06 - 0.95 * r
    assert x[:, 2].min() > 0.95 * r
    apart = np.linalg.norm(x[:, None] - x[None], axis=2) + np.eye(len(x))
    assert apart.min() > 1.9 * r
    mesh = trimesh.Trimesh(brick.vertices, brick.faces)
    T = pose_to_matrix(scene.object_poses[0])
    local = transform_points(np.linalg.inv(T), x)
    inside = trimesh.proximity.signed_distance(mesh, local)  # positive inside
    assert (-inside).min() > 0.85 * r  # the grid rounds the edges of the box
    # a poured bed of equal spheres fills 0.55 to 0.64 of its space, less at the walls
    low = x[:, 2] < np.sort(x[:, 2])[-40]
    volume = 0.12 * 0.12 * x[low, 2].max() - brick.volume
    assert 0.45 < low.sum() * 4 / 3 * np.pi * r**3 / volume < 0.66
    assert 0 < scene.buried_fraction[0] <= 1
    assert 0 <= scene.exposed_area[0] < 2 * (0.05 * 0.04 + 0.05 * 0.03 + 0.04 * 0.03)


def test_the_same_seed_gives_the_same_bits_and_a_record_survives_its_file(
    scene: Scene, brick: ObjectAsset
) -> None:
    item = scene_item("granular-00000", "granular", {"brick": "train"}, CONFIG)
    inputs = {("assets", "brick"): brick}
    (again,) = SceneStage().run([item], inputs, CONFIG, {item.id: 5})
    for name, array in encode(scene).items():
        assert encode(again.record)[name].tobytes() == array.tobytes(), name
    assert decode(Scene, encode(scene)).segment_table == {
        "background": 0, "table": 1, "object:0": 2, "grains": 3, "bin": 4,
    }  # fmt: skip


def test_a_half_buried_box_is_half_hidden() -> None:
    """Of the open directions: the top sees all of the sky, each side half of it, the bottom none.

    Fine grains up to half height hide half of the sides: T + S / 4 is left of T + S / 2.
    """
    asset = solid_asset(trimesh.creation.box((0.06, 0.04, 0.06)), "box")
    pose = np.array([[0, 0, 0.03, 1, 0, 0, 0]], float)
    top, sides = 0.06 * 0.04, 2 * (0.06 + 0.04) * 0.06
    buried, exposed = exposure([asset], pose, np.zeros((0, 3)), 0.002)
    assert buried[0] == 0
    assert exposed[0] == pytest.approx(top + sides, rel=1e-3)
    r = 0.001
    line = np.arange(-0.06, 0.06, 1.6 * r)  # overlapping: no gap to look through
    bed = np.stack(np.meshgrid(line, line, np.arange(0, 0.03, 1.6 * r)), axis=-1).reshape(-1, 3)
    clear = (np.abs(bed[:, 0]) > 0.03 + r) | (np.abs(bed[:, 1]) > 0.02 + r)
    bed = bed[clear]
    level = bed[:, 2].max() + r
    buried, exposed = exposure([asset], pose, bed, r)
    under = sides * level / 0.06
    assert exposed[0] == pytest.approx(top + sides - under, rel=0.07)
    assert buried[0] == pytest.approx(under / 2 / (top + sides / 2), rel=0.07)
    over = np.concatenate([bed + [0, 0, z] for z in (0.0, 0.02, 0.04)])
    lid = np.stack(np.meshgrid(line, line, [0.064]), axis=-1).reshape(-1, 3)
    buried, exposed = exposure([asset], pose, np.concatenate([over, lid]), r)
    assert buried[0] > 0.99
    assert exposed[0] < 0.01 * (top + sides)


def test_rays_meet_grains_where_spheres_are(scene: Scene, brick: ObjectAsset) -> None:
    """Against the equation of the sphere: the mesh of a grain is within 1 % of its radius."""
    camera = Camera(intrinsics=K, T_world_cam=look_at([0.1, 0.05, 0.35], [0, 0, 0.03]))
    backend = EmbreeBackend()
    depth, segment = backend.render(backend.prepare(scene, [brick]), camera).dense(120, 160)
    assert {1, 3, 4} <= set(np.unique(segment).tolist())
    rows, columns = np.nonzero(segment == 3)
    rays = np.stack([(columns + 0.5 - K.cx) / K.fx, (rows + 0.5 - K.cy) / K.fy,
                     np.ones(len(rows))], axis=1)  # fmt: skip
    points = transform_points(camera.T_world_cam, rays * depth[rows, columns][:, None])
    away = np.linalg.norm(points[:, None] - scene.grain_positions[None], axis=2).min(axis=1)
    assert np.abs(away - scene.grain_radius).max() < 0.0105 * scene.grain_radius


def test_the_simulations_own_cameras_agree_with_embree_and_with_heights() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform([-0.05, -0.05, 0.01], [0.05, 0.05, 0.06], (60, 3))
    block = trimesh.creation.box([0.03, 0.03, 0.03])
    asset = solid_asset(block, "block")
    pose = np.array([0.02, 0.01, 0.05, np.cos(0.3), 0, np.sin(0.3), 0])
    grid = distance_grid(block.vertices, block.faces, spacing=0.004, margin=0.01)
    body = Body(grid=grid, position=pose[:3], rotation_wxyz=pose[3:])
    sim = Simulator(x, SimulatorConfig(radius=0.008), bodies=[body], device="cpu")
    observer = Observer(sim, [body])
    camera = Camera(intrinsics=K, T_world_cam=look_at([0.15, 0.1, 0.3], [0, 0, 0.03], 0.4))
    scene = Scene(
        scene_id="s", kind="granular", split="train", object_ids=("block",),
        object_poses=pose[None], object_scales=np.ones(1), object_masses=np.ones(1),
        table_pose=np.array([0, 0, 0, 1.0, 0, 0, 0]), table_size=np.array([3.0, 3.0]),
        settle_time=0.0, grain_positions=x.astype(np.float32), grain_radius=0.008,
        bin_size=np.array([2.0, 2.0, 1e-6]),
    )  # fmt: skip
    backend = EmbreeBackend()
    theirs, segment = backend.render(backend.prepare(scene, [asset]), camera).dense(120, 160)
    mine = observer.ego(camera)
    flat = (segment == 1) | (segment == 2)
    off = np.abs(mine - theirs)
    # silhouettes differ by pixels where the mesh of a grain ends before the sphere
    assert (off[flat] < 1e-5).mean() > 0.99
    assert np.percentile(off[segment == 3], 90) < 0.01 * 0.008 * 1.5
    sky = observer.sky(SkyCamera(half_x=0.1, half_y=0.1, height=0.2, pixel=0.002))
    assert sky.shape == (100, 100)
    alone = Observer(Simulator([[0.031, 0.051, 0.04]], SimulatorConfig(radius=0.008), device="cpu"))
    sky = alone.sky(SkyCamera(half_x=0.1, half_y=0.1, height=0.2, pixel=0.002))
    row, column = np.unravel_index(sky.argmin(), sky.shape)
    assert (row, column) == (24, 65)  # y = 0.1 - 24.5 px, x = -0.1 + 65.5 px
    assert sky.min() == pytest.approx(0.2 - 0.048, abs=1e-6)
    assert sky.max() == pytest.approx(0.2)
    covered = (sky < 0.2 - 1e-6).sum() * 0.002**2
    assert covered == pytest.approx(np.pi * 0.008**2, rel=0.08)


def test_a_cloud_may_keep_grains_and_a_shard_holds_them(scene: Scene, brick: ObjectAsset) -> None:
    config = RenderConfig(
        camera=CameraConfig(preset="", fx=200, fy=200, cx=80, cy=60, width=160, height=120),
        crop=CropSpec(extract_segments=("object:*", "grains")),
    )
    camera = Camera(intrinsics=K, T_world_cam=look_at([0.0, 0.05, 0.4], [0, 0, 0.03]))
    backend = EmbreeBackend()
    prepared = backend.prepare(scene, [brick])
    cloud = render_view(backend, prepared, scene, 0, camera, config, 0)
    only = replace(config, crop=CropSpec())
    bare = render_view(backend, prepared, scene, 1, camera, only, 0)
    assert set(np.unique(cloud.segment)) <= {2, 3}
    assert 3 in cloud.segment
    assert set(np.unique(bare.segment)) <= {2}
    assert (cloud.segment == 2).sum() == len(bare.segment)
    plain = replace(
        scene, scene_id="tabletop-00000", kind="tabletop", grain_positions=np.zeros((0, 3), "f4"),
        grain_radius=0.0, bin_size=np.zeros(0), buried_fraction=np.zeros(0),
        exposed_area=np.zeros(0),
    )  # fmt: skip
    content = cloud_arrays([scene, plain], [[cloud, bare], []], "train", grains=True)
    assert check_content(content) == []
    arrays = content.arrays
    assert arrays["scenes/grain_offsets"].tolist() == [0, len(scene.grain_positions)] + [
        len(scene.grain_positions)
    ]
    assert arrays["scenes/buried_fraction"][0] == scene.buried_fraction[0]
    assert np.isnan(arrays["scenes/buried_fraction"][1])
    assert not any("grain" in name for name in cloud_arrays([plain], [[]], "train").arrays)


# -- bad input ------------------------------------------------------------------------------------


def test_a_backend_that_draws_no_grains_refuses_them() -> None:
    with pytest.raises(RenderConfigError, match="does not draw grains"):
        check_grains("maniskill")
    item = Item(id="granular-00000", params={"kind": "granular"})
    with pytest.raises(RenderConfigError, match=r"scene\.granular: 0"):
        RenderStage().plan(RenderConfig(backend="maniskill"), {"scene": [item], "assets": []})
    check_grains("embree")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"radius": 0.2}, "do not fit into a bin"),
        ({"fill_max": 0.5}, "fill_min <= fill_max"),
        ({"lift_min": 0.1}, "lift_min"),
        ({"timestep": 0.0}, "timestep"),
        ({"friction_wall": float("nan")}, "friction_wall"),
    ],
)
def test_a_config_that_cannot_be_simulated_is_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(SceneConfigError, match=words):
        GrainsConfig(**wrong)  # type: ignore[arg-type]


def test_objects_and_grains_that_cannot_be_placed_are_coded(brick: ObjectAsset) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(PlacementError, match="enlarge the bin") as caught:
        fill([solid_asset(trimesh.creation.box((0.3, 0.3, 0.3)))], GRAINS, rng)
    assert caught.value.code == "no_placement"
    with pytest.raises(PlacementError, match="larger grains") as caught:
        fill([brick], replace(GRAINS, max_grains=10), rng)
    assert caught.value.code == "too_many_grains"
    sheet = replace(
        brick, vertices=np.array([[0, 0, 0], [0.05, 0, 0], [0, 0.05, 0]], np.float32),
        faces=np.array([[0, 1, 2]], np.int32),
    )  # fmt: skip
    with pytest.raises(PlacementError, match="no volume") as caught:
        fill([sheet], GRAINS, rng)
    assert caught.value.code == "no_volume"
    with pytest.raises(PlacementError, match="smaller timestep") as caught:
        fill([brick], replace(GRAINS, timestep=0.05), rng)
    assert caught.value.code == "diverged"
    with pytest.raises(PlacementError, match="still move") as caught:
        fill([brick], replace(GRAINS, max_time=0.12), rng)
    assert caught.value.code == "not_at_rest"


POUR = """
import json, hashlib, numpy as np
from stages.scene.granular.container import Box
from stages.scene.granular.method import SimulatorConfig
from stages.scene.granular.simulator import Simulator
from stages.scene.granular.start import layers
x = layers(40, 0.03, 0.03, 0.0, 0.005, np.random.default_rng(0))
s = Simulator(x, SimulatorConfig(), container=Box(half_x=0.03, half_y=0.03), device="cpu")
s.advance(100)
print(json.dumps(hashlib.sha256(s.positions().tobytes()).hexdigest()))
"""


def test_workers_that_compile_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Two fresh processes and an empty cache; nothing is said on stderr, and the bits agree."""
    env = os.environ | {"WARP_CACHE_PATH": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
    workers = [
        subprocess.Popen([sys.executable, "-c", POUR], env=env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    ]  # fmt: skip
    said = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], said
    assert [err for _, err in said] == ["", ""]
    first, second = (json.loads(out) for out, _ in said)
    assert first == second
