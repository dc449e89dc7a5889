"""Cameras stand and look where the config says; lenses and sizes change no geometry."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.camera import Camera, Intrinsics
from schemas.distortion import Distortion
from schemas.frames import invert, look_at, pose_to_matrix, transform_points
from schemas.records import ObjectAsset, Scene
from stages.assets.hands.errors import HandNotFoundError
from stages.assets.hands.load import load_hand
from stages.contract import Item
from stages.crop import CropSpec, crop_depth
from stages.render.backends.embree import EmbreeBackend, PreparedScene
from stages.render.cameras import sample_camera
from stages.render.config import CameraConfig, RenderConfig
from stages.render.cull import surviving_pixels
from stages.render.errors import RenderConfigError
from stages.render.stage import RenderStage, render_view
from tests.stages.render.conftest import SPHERE_RADIUS, K, cropped_full_cast

ALL = CropSpec(extract_segments=())
LENSES = [
    Distortion(model="brown_conrady", k1=-0.28, k2=0.09, p1=0.004, p2=-0.003, k3=-0.01),
    Distortion(model="brown_conrady", k1=0.3, p2=0.01),
    Distortion(model="brown_conrady", k1=-1.2),  # folds back inside the image
    Distortion(model="kannala_brandt", k1=0.05, k2=-0.01, k3=0.003, k4=-0.0005),
]


def test_look_at_stays_in_its_box_and_aims_at_its_target(scene: Scene) -> None:
    config = CameraConfig(kind="look_at", eye=(0.4, 0, 0.5), eye_box=(0.1, 0, 0.05))
    poses = np.array([sample_camera(config, scene, 0, s).T_world_cam for s in range(400)])
    off = poses[:, :3, 3] - config.eye
    assert (np.abs(off) <= config.eye_box).all()
    assert np.ptp(off[:, 0]) > 0.19
    # How far the optical axis passes by the target: two of three normal errors of 20 mm.
    to_target = config.target - poses[:, :3, 3]
    along = (to_target * poses[:, :3, 2]).sum(axis=1, keepdims=True)
    miss = np.linalg.norm(to_target - along * poses[:, :3, 2], axis=1)
    assert np.sqrt((miss**2).mean() / 2) == pytest.approx(config.target_jitter, rel=0.15)
    still = replace(config, eye_box=(0, 0, 0), target_jitter=0.0, roll_jitter=0.0)
    np.testing.assert_allclose(
        sample_camera(still, scene, 0, 5).T_world_cam, look_at(config.eye, config.target)
    )


@pytest.mark.parametrize("hand", ["panda_gripper", "allegro_right"])
def test_wrist_cameras_ride_on_a_hand_that_comes_down_to_an_object(scene: Scene, hand: str) -> None:
    mount = (0.05, -0.02, 0.03, np.cos(0.1), np.sin(0.1), 0, 0)
    config = CameraConfig(kind="wrist", hand=hand, T_hand_cam=mount, target_jitter=0.0)
    T_root_grasp = pose_to_matrix(load_hand(hand).T_root_grasp)
    chosen = set()
    for seed in range(60):
        T_world_cam = sample_camera(config, scene, 0, seed).T_world_cam
        T_world_grasp = T_world_cam @ invert(pose_to_matrix(mount)) @ T_root_grasp
        places = transform_points(invert(T_world_grasp), scene.object_poses[:, :3])
        off_axis = np.hypot(places[:, 0], places[:, 1])
        nearest = int(off_axis.argmin())
        assert off_axis[nearest] < 1e-9  # straight ahead of the grasp centre
        assert config.standoff_min <= places[nearest, 2] <= config.standoff_max
        assert -T_world_grasp[2, 2] >= np.cos(np.deg2rad(config.approach_tilt)) - 1e-9
        chosen.add(nearest)
    assert chosen == {0, 1, 2}


def test_wrist_cameras_see_an_object_and_the_hand_is_in_the_key(
    scene: Scene, solids: list[ObjectAsset]
) -> None:
    config = RenderConfig(views=6, camera=CameraConfig(kind="wrist"))
    objects = tuple(("assets", name) for name in scene.object_ids)
    stage = RenderStage()
    items = stage.plan(config, {"scene": [Item(id="s", inputs=objects)]})
    assert len(items[0].params["T_root_grasp"]) == 7
    inputs = {("scene", "s"): scene} | {("assets", a.object_id): a for a in solids}
    outcomes = stage.run(items, inputs, config, {item.id: i for i, item in enumerate(items)})
    assert [o.code for o in outcomes] == ["ok"] * 6
    with pytest.raises(HandNotFoundError, match="no hand 'claw'"):
        stage.plan(RenderConfig(camera=CameraConfig(kind="wrist", hand="claw")), {"scene": []})


def test_bad_cameras_say_all_that_is_wrong() -> None:
    with pytest.raises(RenderConfigError, match=r"eye_box.*standoff.*approach_tilt.*unit.*resize"):
        CameraConfig(
            eye_box=(-1, 0, 0), standoff_min=0.3, standoff_max=0.2, approach_tilt=100,
            T_hand_cam=(0, 0, 0, 1, 1, 0, 0), resize=(0, 10),
        )  # fmt: skip


@pytest.mark.parametrize("lens", [Distortion(), *LENSES], ids=lambda d: f"{d.model}{d.k1}")
def test_a_distorted_sphere_is_still_a_sphere(
    solids: list[ObjectAsset], make_scene: Callable[..., Scene], lens: Distortion
) -> None:
    """Rendered through a lens and cropped as a robot would: points on the surface, pixels right."""
    centre = np.array([0.05, -0.04, 0.3])
    scene = make_scene(np.array([[*centre, 1, 0, 0, 0]]), ("sphere",), table=False)
    camera = Camera(intrinsics=replace(K, distortion=lens), T_world_cam=np.eye(4))
    backend = EmbreeBackend()
    hits = backend.render(backend.prepare(scene, solids[:1]), camera)
    depth, _ = hits.dense(K.height, K.width)
    cloud = crop_depth(depth, camera.intrinsics, ALL, seed=0)
    assert len(cloud.points) > 800
    distance = np.linalg.norm(cloud.points - centre, axis=1) - SPHERE_RADIUS
    assert distance.min() > -1e-4  # the facets' sagitta
    assert distance.max() < 1e-6
    row, column = np.divmod(cloud.pixel, K.width)
    back = camera.intrinsics.project(cloud.points)
    np.testing.assert_allclose(back, np.stack([column, row], axis=1) + 0.5, atol=1e-3)


def test_a_ray_that_the_lens_does_not_have_hits_nothing(
    scene: Scene, solids: list[ObjectAsset]
) -> None:
    camera = Camera(
        intrinsics=replace(K, distortion=LENSES[2]),
        T_world_cam=look_at([0, 0, 0.3], [0, 0, 0]),
    )
    backend = EmbreeBackend()
    depth, segment = backend.render(backend.prepare(scene, solids), camera).dense(120, 160)
    assert np.isnan(depth[0, 0])
    assert segment[0, 0] == 0
    assert np.isfinite(depth[60, 80])
    full = np.full((120, 160), 0.5, np.float32)  # a sensor that has a value there all the same
    cloud = crop_depth(full, camera.intrinsics, ALL, seed=0)
    assert np.isfinite(cloud.points).all()
    assert 0 not in cloud.pixel


@pytest.fixture(scope="module")
def prepared_scene(scene: Scene, solids: list[ObjectAsset]) -> tuple[EmbreeBackend, PreparedScene]:
    backend = EmbreeBackend()
    return backend, backend.prepare(scene, solids)


eyes = st.tuples(st.floats(-0.6, 0.6), st.floats(-0.6, 0.6), st.floats(0.02, 0.8), st.floats(-3, 3))


@settings(max_examples=80, deadline=None)
@given(eye=eyes, lens=st.sampled_from(LENSES), boxed=st.booleans(), wide=st.booleans())
def test_culling_behind_a_lens_changes_no_bit(
    scene: Scene,
    prepared_scene: tuple[EmbreeBackend, PreparedScene],
    eye: tuple[float, ...],
    lens: Distortion,
    boxed: bool,
    wide: bool,
) -> None:
    box = {"box_min": (-0.05, -0.1, 0.01), "box_max": (0.1, 0.02, 0.08)} if boxed else {}
    spec = CropSpec(**box)
    intrinsics = replace(K, distortion=lens)
    if wide:
        intrinsics = replace(intrinsics, fx=60.0, fy=55.0, cx=71.3)
    camera = Camera(intrinsics=intrinsics, T_world_cam=look_at(eye[:3], [0.01, 0.02, 0.03], eye[3]))
    backend, prepared = prepared_scene
    culled = render_view(backend, prepared, scene, 0, camera, RenderConfig(crop=spec), seed=1)
    expected = cropped_full_cast(backend, prepared, scene, camera, spec, seed=1)
    assert np.array_equal(culled.points, expected.points)
    assert np.array_equal(culled.segment, expected.segment)


def test_few_rays_are_cast_behind_a_lens(scene: Scene, solids: list[ObjectAsset]) -> None:
    pose = look_at([0.35, -0.3, 0.5], [0, 0, 0.03])
    camera = Camera(intrinsics=replace(K, distortion=LENSES[0]), T_world_cam=pose)
    backend = EmbreeBackend()
    prepared = backend.prepare(scene, solids)
    spec = CropSpec(extract_segments=("object:0",))
    pixels = surviving_pixels(scene, backend.hulls(prepared), camera, spec)
    seen = (backend.render(prepared, camera).segment == 2).sum()
    assert seen < len(pixels) < 1.5 * seen + 400


@pytest.mark.parametrize("lens", [Distortion(), LENSES[0]], ids=["ideal", "distorted"])
def test_k_is_rescaled_with_the_image(
    solids: list[ObjectAsset], make_scene: Callable[..., Scene], lens: Distortion
) -> None:
    """A turned box at both sizes: the same planes and extents."""
    numbers = {"preset": "", "fx": 150, "fy": 150, "cx": 83, "cy": 57, "width": 160, "height": 120}
    large = CameraConfig(**numbers, distortion=lens)
    small = replace(large, resize=(80, 40))
    k = small.intrinsics
    assert (k.width, k.height, k.fx, k.fy, k.cx, k.cy) == (80, 40, 75.0, 50.0, 41.5, 19.0)
    assert k.distortion == lens
    scene = make_scene(np.array([[0, 0, 0.06, 0.9689124, 0, 0, 0.2474040]]), ("box",), table=False)
    pose = look_at([0.25, 0.2, 0.35], [0, 0, 0.05])
    backend = EmbreeBackend()
    prepared = backend.prepare(scene, solids[1:2])
    for K_ in (large.intrinsics, k):
        camera = Camera(intrinsics=K_, T_world_cam=pose)
        config = RenderConfig(crop=CropSpec(frame="world"))
        cloud = render_view(backend, prepared, scene, 0, camera, config, seed=0)
        local = transform_points(invert(pose_to_matrix(scene.object_poses[0])), cloud.points)
        off = (np.abs(local) - (0.04, 0.025, 0.06)).max(axis=1)
        assert np.abs(off).max() < 1e-6  # on a face of the box, at either size
        # Three faces are seen, each to within a pixel of its edges.
        for axis, half in enumerate((0.04, 0.025, 0.06)):
            assert np.abs(local[:, axis]).max() == pytest.approx(half, abs=1e-6)
        step = 0.45 / min(K_.fx, K_.fy) * 2
        assert np.ptp(local, axis=0) == pytest.approx([0.08, 0.05, 0.12], abs=2 * step)
    point = np.array([[0.03, -0.02, 0.4]])
    np.testing.assert_allclose(k.project(point), large.intrinsics.project(point) * (0.5, 1 / 3))
    assert isinstance(k, Intrinsics)
