"""The renderer: a hand and objects in the picture, bit-equal clouds, and no step of physics."""

from collections.abc import Iterator

import numpy as np
import psutil
import pytest
import torch

from schemas.camera import Intrinsics
from schemas.distortion import Distortion
from schemas.frames import transform_points
from stages.crop import CropSpec, crop_depth
from stages.envs.config import MsEnvConfig, RendererConfig
from stages.envs.errors import EnvConfigError
from stages.envs.maniskill.depth import DEPTH_STEP, depth_metres
from stages.envs.maniskill.env import MsEnv
from stages.envs.maniskill.renderer import Frame, Renderer, View, build_renderer
from tests.maniskill_scenes import K, a_scene, eye, three
from tests.solids import jaw_row
from tests.vulkan import need_vulkan

PANDA = "panda_gripper_floating_base"
HAND = jaw_row(0.12)[:1]


@pytest.fixture(scope="module", autouse=True)
def vulkan() -> None:
    need_vulkan()


@pytest.fixture(scope="module")
def renderer() -> Iterator[Renderer]:
    made = build_renderer(RendererConfig(camera=K, device="cpu"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def with_hand() -> Iterator[Renderer]:
    made = build_renderer(RendererConfig(camera=K, device="cpu", agent=PANDA))
    yield made
    made.close()


def same(a: Frame, b: Frame) -> bool:
    return np.array_equal(a.depth, b.depth, equal_nan=True) and np.array_equal(a.segment, b.segment)


@pytest.mark.parametrize(
    "crop",
    [
        CropSpec(),
        CropSpec(extract_segments=("hand:*", "object:1"), remove_segments=("object:1",)),
        CropSpec(extract_segments=(), remove_segments=("table", "hand:panda_hand")),
        CropSpec(box_min=(-0.1, -0.1, 0.005), box_max=(0.1, 0.1, 0.3), frame="world"),
        CropSpec(box_min=(-0.05, -0.1, 0.2), box_max=(0.2, 0.1, 0.5), box_frame="camera"),
        CropSpec(sampling="random", num_points=200),
    ],
)  # fmt: skip
def test_the_environment_and_the_renderer_give_the_same_points(
    with_hand: Renderer, crop: CropSpec
) -> None:
    """Bit for bit, hand included; `extract_segments` wins over `remove_segments`."""
    scene, T = three(4), eye(1)
    env = MsEnv(MsEnvConfig(agent=PANDA, device="cpu", camera=K, crop=crop))
    try:
        env.load([scene], T[None])
        env.set_qpos(HAND)
        [seen] = env.get_pointcloud(seed=5)
        rgb = env.get_rgb()
    finally:
        env.close()
    assert rgb.shape == (1, K.height, K.width, 3)
    assert rgb.std() > 5
    [frame] = with_hand.render([View(scene=scene, T_world_cam=T, qpos=HAND[0])])
    expected = crop_depth(
        frame.depth, K, crop, seed=5, segment=frame.segment, segment_table=frame.segment_table,
        T_world_cam=T, table_pose=scene.scene.table_pose,
    )  # fmt: skip
    assert len(expected.points) > 100
    assert np.array_equal(seen.points, expected.points)
    assert np.array_equal(seen.segment, expected.segment)
    if "hand:*" in crop.extract_segments:
        names = {n for n, i in frame.segment_table.items() if i in np.unique(seen.segment)}
        assert "object:1" in names
        assert {n for n in names if n.startswith("hand:")} >= {"hand:panda_hand"}
        assert "object:0" not in names


def test_the_hand_is_where_its_qpos_says(with_hand: Renderer) -> None:
    """Points on the fingers lie on the gripper's pads: about the tool centre point."""
    [frame] = with_hand.render([View(scene=three(4), T_world_cam=eye(1), qpos=HAND[0])])
    spec = CropSpec(extract_segments=("hand:panda_*finger",), frame="world")
    cloud = crop_depth(
        frame.depth, K, spec, seed=0, segment=frame.segment, segment_table=frame.segment_table,
        T_world_cam=eye(1), table_pose=np.array([0, 0, 0, 1.0, 0, 0, 0]),
    )  # fmt: skip
    assert len(cloud.points) > 50
    # jaw_row(0.12): palm up at 0.2234 m, pads open by 40 mm either way along y, tips at the bottom
    assert 0.1 < cloud.points[:, 2].min() < 0.125
    assert np.abs(cloud.points[:, 0]).max() < 0.02
    assert 0.035 < np.abs(cloud.points[:, 1]).max() < 0.07
    moved = HAND[0].copy()
    moved[2] += 0.05
    [higher] = with_hand.render([View(scene=three(4), T_world_cam=eye(1), qpos=moved)])
    assert not same(frame, higher)


def test_frames_do_not_depend_on_their_batch(renderer: Renderer) -> None:
    scenes = [three(1), three(2), a_scene(["sphere"], [(0, 0, 0.3, 0)], table=False, name="air")]
    pairs = [View(scene=s, T_world_cam=eye(v)) for s in scenes for v in (0, 3)]
    together = renderer.render(pairs)
    for view, frame in zip(pairs[::-1], together[::-1], strict=True):
        [alone] = renderer.render([view])
        assert same(alone, frame)
    mixed = renderer.render([pairs[k] for k in (4, 1, 3, 0)])
    assert all(same(a, together[k]) for a, k in zip(mixed, (4, 1, 3, 0), strict=True))


def test_scenes_with_the_same_objects_need_no_new_build(renderer: Renderer) -> None:
    places = [(0, 0, 0.03, 0.0), (0.1, 0, 0.04, 0.0)]
    first = a_scene(["box", "sphere"], places, name="first")
    second = a_scene(["box", "sphere"], [(0.05, 0.05, 0.03, 1.0), *places[1:]], name="second")
    [one] = renderer.render([View(scene=first, T_world_cam=eye(0))])
    builds = renderer.builds
    [moved] = renderer.render([View(scene=second, T_world_cam=eye(0))])
    [back] = renderer.render([View(scene=first, T_world_cam=eye(0))])
    assert renderer.builds == builds
    assert not same(one, moved)
    assert same(one, back)


def test_physics_is_not_stepped(renderer: Renderer) -> None:
    """A sphere in mid-air over a table stays there, however often it is looked at."""
    scene = a_scene(["sphere"], [(0, 0, 0.12, 0)], name="high")
    frames = renderer.render([View(scene=scene, T_world_cam=eye(0))] * 3)
    assert same(frames[0], frames[2])
    spec = CropSpec(frame="world")
    cloud = crop_depth(
        frames[2].depth, K, spec, seed=0, segment=frames[2].segment,
        segment_table=frames[2].segment_table, T_world_cam=eye(0),
    )  # fmt: skip
    distance = np.linalg.norm(cloud.points - np.array([0, 0, 0.12]), axis=1)
    # on the sphere of 40 mm: quantised depth, and facets that cut its corners
    assert np.abs(distance - 0.04).max() < DEPTH_STEP + 0.0005


def test_memory_is_flat_over_rebuilds(renderer: Renderer) -> None:
    """The short form of benchmarks/soak_maniskill.py."""
    scenes = [three(seed, table=seed % 2 == 0) for seed in range(2)]
    process = psutil.Process()
    grown: list[int] = []
    builds = renderer.builds
    for i in range(30):
        renderer.render([View(scene=scenes[i % 2], T_world_cam=eye(i))])
        grown.append(process.memory_info().rss)
    assert renderer.builds - builds >= 29
    assert grown[-1] - max(grown[:10]) < 16 * 2**20


def test_depth_is_the_middle_of_a_step() -> None:
    mm = np.array([[0, 1, 500]], np.int16)
    metres = depth_metres(mm)
    assert np.isnan(metres[0, 0])
    assert metres[0, 1:].tolist() == pytest.approx([0.0015, 0.5005])
    assert metres.dtype == np.float32


def test_a_table_of_known_height_is_seen_within_half_a_step(renderer: Renderer) -> None:
    T = eye(0)
    [frame] = renderer.render([View(scene=three(1), T_world_cam=T)])
    rows, columns = np.nonzero(frame.segment == 1)
    x = (columns + 0.5 - K.cx) / K.fx
    y = (rows + 0.5 - K.cy) / K.fy
    rays = np.stack([x, y, np.ones_like(x)], axis=1)
    directions = rays @ T[:3, :3].T
    exact = -T[2, 3] / directions[:, 2]  # where the ray meets z = 0, as z-depth
    error = frame.depth[rows, columns] - exact
    assert len(error) > 5000
    assert np.abs(error).max() <= DEPTH_STEP / 2 + 2e-5
    points = transform_points(T, rays * exact[:, None])
    assert np.abs(points[:, 0]).max() <= 0.5 + 1e-3  # and no table beyond its edge


def test_what_sapien_cannot_draw_is_refused(with_hand: Renderer) -> None:
    lens = Intrinsics.from_array(K.to_array(), Distortion(model="brown_conrady", k1=0.1).to_array())
    with pytest.raises(EnvConfigError, match="no lens distortion"):
        build_renderer(RendererConfig(camera=lens, device="cpu")).render(
            [View(scene=three(1), T_world_cam=eye(0))]
        )
    with pytest.raises(ValueError, match="expected the qpos of the hand"):
        with_hand.render([View(scene=three(1), T_world_cam=eye(0))])


@pytest.mark.gpu
def test_many_sub_scenes_see_what_one_sees() -> None:
    """On CUDA, 8 sub-scenes at once against one at a time."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    pairs = [View(scene=three(i), T_world_cam=eye(v)) for i in range(5) for v in range(3)]
    many = build_renderer(RendererConfig(camera=K, device="cuda", num_envs=8))
    one = build_renderer(RendererConfig(camera=K, device="cuda", num_envs=1))
    for a, b in zip(many.render(pairs), one.render(pairs), strict=True):
        assert (a.segment == b.segment).mean() > 0.999
        both = (a.segment == b.segment) & (a.segment > 0)
        assert np.abs(a.depth[both] - b.depth[both]).max() <= DEPTH_STEP
    many.close()
    one.close()
