"""Greenscreen on tasks of ManiSkill's wheel, drawn on this machine."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from mani_skill.envs.tasks.tabletop.pick_cube import PickCubeEnv

from stages.envs.maniskill.dexgrasp import DexGrasp
from stages.envs.maniskill.greenscreen import REAL_SEGMENT, Greenscreen
from stages.robot.errors import OverlayError
from stages.robot.twin import Overlay
from tests.maniskill_scenes import K as SCENE_K
from tests.maniskill_scenes import eye, three
from tests.vulkan import need_vulkan

pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning")
SIZE = 128
ON_CPU = {"num_envs": 1, "sim_backend": "cpu", "render_backend": "cpu"}
RNG = np.random.default_rng(0)
PHOTO = RNG.integers(0, 256, (SIZE, SIZE, 3)).astype(np.uint8)
KEEP = ["cube", "panda"]


class Twin(Greenscreen, PickCubeEnv):
    pass


class DexTwin(Greenscreen, DexGrasp):
    pass


def pictures(env: Any) -> dict[str, np.ndarray]:
    obs, _ = env.reset(seed=3)
    return {k: v.numpy()[0] for k, v in obs["sensor_data"]["base_camera"].items()}


def drawn(**values: Any) -> dict[str, np.ndarray]:
    env = Twin(**({"keep": KEEP, "obs_mode": "rgb+depth+segmentation"} | ON_CPU | values))
    try:
        return pictures(env)
    finally:
        env.close()


@pytest.fixture(scope="module", autouse=True)
def _draws() -> None:
    need_vulkan()


@pytest.fixture(scope="module")
def plain() -> Iterator[dict[str, Any]]:
    """What the environment draws without a twin, and the ids of what is kept."""
    env = PickCubeEnv(obs_mode="rgb+depth+segmentation", **ON_CPU)
    found: dict[str, Any] = pictures(env)
    links = [link for a in env.scene.articulations.values() for link in a.links]
    kept = [o.per_scene_id.tolist()[0] for o in (env.scene.actors["cube"], *links)]
    found["kept"] = np.isin(found["segmentation"][..., 0], kept)
    yield found
    env.close()


def test_what_is_kept_is_the_simulation_s_and_the_rest_the_picture_s(plain: Any) -> None:
    twin = drawn(overlays={"base_camera": Overlay(rgb=PHOTO)})
    kept = plain["kept"]
    assert 0.02 < kept.mean() < 0.5
    np.testing.assert_array_equal(twin["rgb"][kept], plain["rgb"][kept])
    np.testing.assert_array_equal(twin["rgb"][~kept], PHOTO[~kept])
    np.testing.assert_array_equal(twin["segmentation"][kept], plain["segmentation"][kept])
    assert (twin["segmentation"][~kept] == 0).all()
    np.testing.assert_array_equal(twin["depth"][kept], plain["depth"][kept])
    assert (twin["depth"][~kept] == 0).all()


def test_a_real_depth_hides_what_lies_behind_it(plain: Any) -> None:
    """Left of the middle a wall before everything, right of it one behind, a stripe unknown."""
    wall = np.full((SIZE, SIZE), 5.0, np.float32)
    wall[:, : SIZE // 2] = 0.05
    wall[:, :10] = np.nan
    twin = drawn(overlays={"base_camera": Overlay(rgb=PHOTO, depth=wall)})
    shown = plain["kept"] & ~(wall < plain["depth"][..., 0] / 1000)
    assert 0 < shown.sum() < plain["kept"].sum()
    np.testing.assert_array_equal(twin["rgb"], np.where(shown[..., None], plain["rgb"], PHOTO))
    real = np.nan_to_num(np.round(wall * 1000)).astype(int)
    np.testing.assert_array_equal(
        twin["depth"][..., 0], np.where(shown, plain["depth"][..., 0], real)
    )
    ids = np.where(np.isfinite(wall), REAL_SEGMENT, 0)
    np.testing.assert_array_equal(
        twin["segmentation"][..., 0], np.where(shown, plain["segmentation"][..., 0], ids)
    )


def test_a_point_cloud_has_the_real_background(plain: Any) -> None:
    depth = np.full((SIZE, SIZE), 0.9, np.float32)
    depth[:20] = np.nan
    values: dict[str, Any] = {"keep": KEEP, "obs_mode": "pointcloud", **ON_CPU}
    twin = Twin(overlays={"base_camera": Overlay(rgb=PHOTO, depth=depth)}, **values)
    bare = PickCubeEnv(obs_mode="pointcloud", **ON_CPU)
    clouds = []
    for env in (twin, bare):
        obs, _ = env.reset(seed=3)
        cloud = {k: v.numpy()[0] for k, v in obs["pointcloud"].items()}
        params = {k: v.numpy()[0] for k, v in obs["sensor_param"]["base_camera"].items()}
        clouds.append(cloud)
        env.close()
    shown = plain["kept"] & ~(depth < plain["depth"][..., 0] / 1000)
    flat = shown.reshape(-1)
    assert flat.sum() > 200
    np.testing.assert_array_equal(clouds[0]["xyzw"][flat], clouds[1]["xyzw"][flat])
    np.testing.assert_array_equal(clouds[0]["rgb"], np.where(shown[..., None], plain["rgb"], PHOTO)
                                  .reshape(-1, 3))  # fmt: skip
    real = ~flat & np.isfinite(depth).reshape(-1)
    xyzw = clouds[0]["xyzw"][real].astype(float)
    assert (xyzw[:, 3] == 1).all()
    assert (clouds[0]["xyzw"][~flat & ~np.isfinite(depth).reshape(-1), 3] == 0).all()
    # back into the camera by its own matrix, and onto its own pixels by its own K
    camera = np.concatenate([params["extrinsic_cv"], [[0, 0, 0, 1]]]) @ xyzw.T
    np.testing.assert_allclose(camera[2], 0.9, atol=1e-3)
    u, v = (params["intrinsic_cv"] @ camera[:3])[:2] / camera[2]
    row, column = np.divmod(np.flatnonzero(real), SIZE)
    np.testing.assert_allclose(u, column + 0.5, atol=0.15)  # millimetres at 0.9 m
    np.testing.assert_allclose(v, row + 0.5, atol=0.15)


def test_debug_and_none(plain: Any) -> None:
    photo = {"base_camera": Overlay(rgb=PHOTO)}
    debug = drawn(overlays=photo, overlay_mode="debug")
    mean = (plain["rgb"].astype(int) + PHOTO) // 2
    np.testing.assert_array_equal(debug["rgb"], mean)
    np.testing.assert_array_equal(debug["depth"], plain["depth"])
    none = drawn(overlays=photo, overlay_mode="none")
    for key in ("rgb", "depth", "segmentation"):
        np.testing.assert_array_equal(none[key], plain[key])


def test_two_twins_share_nothing(plain: Any) -> None:
    """The peer keeps its pictures on the class, so that the second twin changes the first."""
    other = 255 - PHOTO
    first = Twin(overlays={"base_camera": Overlay(rgb=PHOTO)}, keep=KEEP,
                 obs_mode="rgb+segmentation", **ON_CPU)  # fmt: skip
    second = Twin(overlays={"base_camera": Overlay(rgb=other)}, keep=["cube"],
                  obs_mode="rgb+segmentation", **ON_CPU)  # fmt: skip
    a, b = pictures(first)["rgb"], pictures(second)["rgb"]
    away = ~plain["kept"]
    np.testing.assert_array_equal(a[away], PHOTO[away])
    np.testing.assert_array_equal(b[away], other[away])
    assert (b == other).all(axis=-1).sum() > (a == PHOTO).all(axis=-1).sum()  # keeps less
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"overlays": {"base_camera": "nowhere.png"}}, FileNotFoundError, "overlay nowhere.png"),
        ({"overlays": {}}, OverlayError, "the camera base_camera has none"),
        ({"overlays": {"wrist": Overlay(rgb=PHOTO), "base_camera": None}}, OverlayError,
         "no camera .'wrist'.; cameras: base_camera"),
        ({"obs_mode": "rgb+depth"}, OverlayError, "for example rgb.depth.segmentation"),
        ({"obs_mode": "sensor_data"}, OverlayError, "raw textures cannot be composited"),
        ({"keep": ["cup"]}, OverlayError, "'cup' matches nothing; there are: cube, goal_site"),
        ({"overlay_mode": "green"}, OverlayError, "expected one of background, debug, none"),
        ({"overlays": {"base_camera": [Overlay(rgb=PHOTO)] * 2}}, OverlayError,
         "expected one picture or 1, one for each environment, got 2"),
        ({"overlays": {"base_camera": Overlay(rgb=PHOTO[:64])}}, OverlayError, "another aspect"),
        ({"overlays": {"base_camera": Overlay(rgb=PHOTO, depth=np.ones((SIZE, SIZE), np.float32))},
          "obs_mode": "rgb+segmentation"}, OverlayError, "the z-test needs the simulation's"),
    ],
)  # fmt: skip
def test_mistakes_are_named(values: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        drawn(**({"overlays": {"base_camera": Overlay(rgb=PHOTO)}} | values))


def test_observations_of_states_alone_need_no_picture() -> None:
    env = Twin(overlays={"base_camera": None}, keep=KEEP, obs_mode="state", **ON_CPU)
    obs, _ = env.reset(seed=0)
    assert obs.shape[0] == 1
    env.close()


def test_a_batch_takes_each_environment_s_picture_and_ids() -> None:
    """Two rows with pictures and kept ids of their own, as CUDA has them; ids may differ."""
    env = Twin(overlays={"base_camera": Overlay(rgb=PHOTO)}, keep=["cube"],
               obs_mode="rgb+depth+segmentation", **ON_CPU)  # fmt: skip
    env.close()
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 6, (2, SIZE, SIZE, 1)).astype(np.int16)
    rgb = rng.integers(0, 256, (2, SIZE, SIZE, 3)).astype(np.uint8)
    depth = rng.integers(300, 900, (2, SIZE, SIZE, 1)).astype(np.int16)
    data = {"rgb": rgb, "segmentation": ids, "depth": depth}
    photos = np.stack([PHOTO, 255 - PHOTO])
    env._kept = torch.tensor([[0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 1]], dtype=torch.bool)
    out = env._composited(
        {k: torch.from_numpy(v) for k, v in data.items()}, {"rgb": torch.from_numpy(photos)}
    )
    for i, kept in enumerate(([2], [4, 5])):
        shown = np.isin(ids[i], kept)
        np.testing.assert_array_equal(out["rgb"][i], np.where(shown, rgb[i], photos[i]))
        np.testing.assert_array_equal(out["depth"][i], np.where(shown, depth[i], 0))


def test_dexgrasp_before_a_photograph() -> None:
    """The project's own environment, its camera posed after it was built."""
    rng = np.random.default_rng(0)
    photo = rng.integers(0, 256, (SCENE_K.height, SCENE_K.width, 3)).astype(np.uint8)
    wall = np.full(photo.shape[:2], 0.45, np.float32)
    overlay = Overlay(rgb=photo, depth=wall, intrinsics=SCENE_K)
    env = DexTwin(
        scenes=[three(1)], camera=SCENE_K, overlays={"camera": overlay},
        keep=["object-*-box", "object-*-torus"], obs_mode="rgb+depth+segmentation",
        reward_mode="none", sim_backend="cpu", render_backend="cpu",
    )  # fmt: skip
    env.reset(seed=0)
    env.set_cameras(eye(0)[None])
    env.flush()
    depth, segment = (a[0] for a in env.depth_and_segment())  # as simulated
    twin = {k: v[0].numpy() for k, v in env.get_obs()["sensor_data"]["camera"].items()}
    names = [a.object_id for a in env.grasp_scenes[0].assets]
    kept = np.isin(segment, [2 + names.index("box"), 2 + names.index("torus")])
    shown = kept & (depth <= 450)
    assert 50 < shown.sum() < kept.sum()
    np.testing.assert_array_equal(twin["depth"][..., 0], np.where(shown, depth, 450))
    np.testing.assert_array_equal((twin["rgb"] == photo).all(axis=-1) | shown, True)
    assert (twin["segmentation"][..., 0][~shown] == REAL_SEGMENT).all()
    env.close()
    with pytest.raises(OverlayError, match="give the simulated camera the real one's K"):
        DexTwin(
            scenes=[three(1)], camera=replace(SCENE_K, fx=170.0), overlays={"camera": overlay},
            keep=["*"], obs_mode="rgb+depth+segmentation", reward_mode="none", sim_backend="cpu",
            render_backend="cpu",
        )  # fmt: skip


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_each_environment_has_its_own_picture() -> None:
    pictures = [Overlay(rgb=np.full_like(PHOTO, 40 * i)) for i in range(4)]
    env = Twin(overlays={"base_camera": pictures}, keep=KEEP, obs_mode="rgb+segmentation",
               num_envs=4)  # fmt: skip
    obs, _ = env.reset(seed=0)
    data = obs["sensor_data"]["base_camera"]
    for i in range(4):
        away = data["segmentation"][i, ..., 0] == 0
        assert away.sum() > 1000
        assert (data["rgb"][i][away] == 40 * i).all()
    env.close()
