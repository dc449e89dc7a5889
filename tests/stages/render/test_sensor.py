"""What the sensor models do, against the formulas of their sources and against geometry."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import maximum_filter, minimum_filter

from schemas.camera import Camera, Intrinsics
from schemas.frames import invert, look_at, transform_points
from schemas.records import ObjectAsset, Scene
from stages.crop import CropSpec, crop_depth
from stages.render.backends.embree import EmbreeBackend, PreparedScene
from stages.render.config import RenderConfig
from stages.render.errors import RenderConfigError
from stages.render.sensor import observe
from stages.render.sensor_config import SensorConfig
from stages.render.sensor_presets import SENSORS
from stages.render.stage import render_view
from tests.stages.render.conftest import SPHERE_RADIUS, K

NARROW = Intrinsics(fx=600.0, fy=600.0, cx=160.0, cy=120.0, width=320, height=240)
Prepared = tuple[EmbreeBackend, PreparedScene]


@pytest.fixture(scope="module")
def solids_scene(scene: Scene, solids: list[ObjectAsset]) -> Prepared:
    backend = EmbreeBackend()
    return backend, backend.prepare(scene, solids)


@pytest.fixture(scope="module")
def plane(make_scene: Callable[..., Scene]) -> Prepared:
    backend = EmbreeBackend()
    return backend, backend.prepare(make_scene(np.empty((0, 7)), ()), [])


def depths(made: Prepared, camera: Camera, sensor: SensorConfig, seeds: range) -> np.ndarray:
    """(S, M) float64."""
    return np.stack([observe(*made, camera, None, sensor, s).z for s in seeds]).astype(np.float64)


def above(distance: float) -> Camera:
    return Camera(intrinsics=NARROW, T_world_cam=look_at([0, 0, distance], [0, 0, 0]))


FORMULAS = {
    "d435": lambda z: z**2 * 0.08 / (600 * 0.050),
    "d415": lambda z: z**2 * 0.08 / (600 * 0.055),
    "azure_kinect": lambda z: 0.0008 + 0.0002 * z**2,
    "structured_light": lambda z: 0.0012 + 0.0019 * (z - 0.4) ** 2,
}


@pytest.mark.parametrize("distance", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("preset", sorted(SENSORS))
def test_a_plane_is_as_noisy_as_the_published_formula(
    plane: Prepared, preset: str, distance: float
) -> None:
    others = ("min_range", "lateral", "lateral_grazing", "disparity_step", "depth_step", "flying")
    off = dict.fromkeys((*others, "hole_fraction"), 0.0)
    sensor = SensorConfig(preset=preset, **off)  # type: ignore[arg-type]
    z = depths(plane, above(distance), sensor, range(12)).reshape(12, 240, 320)
    # where the table (1.0 x 0.8 m) and the second imager's band are out of play
    middle = z[:, 90:150, 130:190]
    assert np.isfinite(middle).all()
    assert middle.std() == pytest.approx(FORMULAS[preset](distance), rel=0.08)
    assert middle.mean() == pytest.approx(distance, abs=0.3 * FORMULAS[preset](distance))


@pytest.mark.parametrize("distance", [0.5, 1.0, 2.0])
def test_depth_comes_in_the_steps_of_disparity(plane: Prepared, distance: float) -> None:
    sensor = SensorConfig(baseline=0.05, disparity_step=1 / 8, axial_constant=0.004)
    z = np.unique(depths(plane, above(distance), sensor, range(2)))
    z = z[np.isfinite(z)]
    whole = 600 * 0.05 / z * 8
    np.testing.assert_allclose(whole, np.rint(whole), atol=2e-4)
    # where noise fills every step, steps are as wide as disparity's derivative says
    near = z[np.abs(z - distance) < 0.0085]
    steps = distance**2 / (600 * 0.05) / 8
    assert len(near) >= 1
    if len(near) > 1:
        middles = (near[1:] + near[:-1]) / 2
        np.testing.assert_allclose(np.diff(near), middles**2 / (600 * 0.05) / 8, rtol=0.002)
    assert len(near) == pytest.approx(2 * 0.0085 / steps, abs=1)
    rounded = SensorConfig(depth_step=0.001, axial_constant=0.004)
    z = depths(plane, above(distance), rounded, range(1))
    np.testing.assert_allclose(z / 0.001, np.rint(z / 0.001), atol=2e-4)


def test_dropout_grows_with_the_angle(plane: Prepared) -> None:
    sensor = SensorConfig(grazing_start=60.0, grazing_end=90.0)
    for degrees, width in ((35.0, 0.0), (70.0, 0.015), (80.0, 0.015)):
        a = np.deg2rad(degrees)
        eye = 0.35 * np.array([np.sin(a), 0, np.cos(a)])
        camera = Camera(intrinsics=NARROW, T_world_cam=look_at(eye, [0, 0, 0]))
        exact = plane[0].render(plane[1], camera)
        hit = np.isfinite(exact.z)
        points = transform_points(camera.T_world_cam, ray(camera) * exact.z[:, None])
        towards = points - eye
        angle = np.rad2deg(np.arccos(-towards[:, 2] / np.linalg.norm(towards, axis=1)))
        share = np.clip((angle - 60) / 30, 0, 1) ** 2
        lost = np.isnan(depths(plane, camera, sensor, range(4)))[:, hit]
        assert abs(lost.mean() - share[hit].mean()) <= width
        if degrees == 35.0:
            assert share[hit].max() == 0


def ray(camera: Camera) -> np.ndarray:
    """(M, 3) camera frame, z = 1."""
    k = camera.intrinsics
    column, row = np.meshgrid(np.arange(k.width), np.arange(k.height))
    x, y = (column + 0.5 - k.cx) / k.fx, (row + 0.5 - k.cy) / k.fy
    return np.stack([x, y, np.ones_like(x)], axis=-1).reshape(-1, 3)


def test_a_shifted_ray_sees_the_slope(plane: Prepared) -> None:
    """On a tilted plane a shift of one pixel changes depth by the slope."""
    camera = Camera(intrinsics=NARROW, T_world_cam=look_at([0.3, 0, 0.3], [0, 0, 0]))
    exact = plane[0].render(plane[1], camera).z.reshape(240, 320).astype(np.float64)
    z = depths(plane, camera, SensorConfig(lateral=0.8), range(3)).reshape(3, 240, 320)
    slope = np.gradient(exact, axis=0)  # along y, the table is level along x
    shift = ((z - exact) / slope)[:, 60:180, 60:260]
    assert shift.std() == pytest.approx(0.8, rel=0.03)
    assert np.abs(shift).max() < 3 * 0.8 * 1.05


def test_edges_are_lost_and_fly_only_at_edges(solids_scene: Prepared, camera: Camera) -> None:
    exact = solids_scene[0].render(solids_scene[1], camera)
    z = np.where(np.isnan(exact.z), np.inf, exact.z).reshape(K.height, K.width)
    near, far = minimum_filter(z, 3), maximum_filter(z, 3)
    with np.errstate(invalid="ignore"):
        edge = (far - near > 0.02).reshape(-1)
    sensor = SensorConfig(edge_dropout=0.3, flying=0.4, edge_jump=0.02)
    seen = [observe(*solids_scene, camera, None, sensor, s) for s in range(8)]
    got = np.stack([s.z for s in seen])
    hit = np.isfinite(exact.z)
    lost, moved = np.isnan(got) & hit, np.isfinite(got) & (got != exact.z)
    assert not (lost | moved)[:, ~edge].any()
    assert lost[:, edge & hit].mean() == pytest.approx(0.3, abs=0.02)
    finite = edge & hit & np.isfinite(far.reshape(-1))
    assert moved[:, finite].mean() == pytest.approx(0.4, abs=0.02)
    rows, at = np.nonzero(moved)
    assert (got[rows, at] >= near.reshape(-1)[at] - 1e-6).all()
    assert (got[rows, at] <= far.reshape(-1)[at] + 1e-6).all()
    # The segment of a flying pixel is that of the nearest pixel around it.
    segment = exact.segment.reshape(K.height, K.width)
    for s, p in list(zip(rows, at, strict=True))[:200]:
        r, c = divmod(int(p), K.width)
        window = np.s_[max(r - 1, 0) : r + 2, max(c - 1, 0) : c + 2]
        front = segment[window].reshape(-1)[np.argmin(z[window])]
        assert seen[s].segment[p] == front


def test_the_shadow_is_that_of_the_second_imager(
    solids: list[ObjectAsset], make_scene: Callable[..., Scene]
) -> None:
    scene = make_scene(np.array([[0, 0, 0.15, 1.0, 0, 0, 0]]), ("sphere",))
    made = EmbreeBackend(), EmbreeBackend().prepare(scene, solids[:1])
    camera = Camera(intrinsics=K, T_world_cam=look_at([0.1, 0, 0.6], [0, 0, 0]))
    exact = made[0].render(made[1], camera)
    got = observe(*made, camera, None, SensorConfig(baseline=0.1, shadow=True), 0)
    points = ray(camera) * exact.z[:, None].astype(np.float64)
    eye = np.array([0.1, 0.0, 0.0])
    centre = transform_points(invert(camera.T_world_cam), np.array([[0, 0, 0.15]]))[0]
    along = points - eye
    t = np.clip(((centre - eye) * along).sum(1) / (along**2).sum(1), 0, 1)
    clearance = np.linalg.norm(eye + t[:, None] * along - centre, axis=1)
    band = np.arange(len(points)) % K.width + 0.5 - K.fx * 0.1 / exact.z < 0
    table = (exact.segment == 1) & ~band
    lost = np.isnan(got.z)
    assert (table & lost).sum() > 200
    assert not (lost & table & (clearance > SPHERE_RADIUS + 1e-3)).any()
    assert lost[table & (clearance < SPHERE_RADIUS - 1e-3)].all()
    assert lost[band & np.isfinite(exact.z)].all()


def test_holes_take_their_share(plane: Prepared) -> None:
    for size in (0.0, 6.0):
        sensor = SensorConfig(hole_fraction=0.05, hole_size=size)
        lost = np.isnan(depths(plane, above(0.5), sensor, range(20)))
        assert lost.mean() == pytest.approx(0.05, abs=0.006)


eyes = st.tuples(st.floats(-0.6, 0.6), st.floats(-0.6, 0.6), st.floats(0.02, 0.8), st.floats(-3, 3))


@settings(max_examples=80, deadline=None)
@given(
    eye=eyes,
    preset=st.sampled_from(sorted(SENSORS)),
    box=st.sampled_from([None, ((-0.3, -0.3, -0.01), (0.3, 0.3, 0.3)),
                         ((-0.05, -0.1, 0.01), (0.1, 0.02, 0.08))]),
    box_frame=st.sampled_from(["world", "camera"]),
    frame=st.sampled_from(["world", "camera"]),
    segments=st.sampled_from([("object:*",), ("object:2",), (), ("table", "object:0")]),
    outliers=st.sampled_from([0.0, 0.01]),
    radius=st.integers(1, 3),
    seed=st.integers(0, 2**64 - 1),
)  # fmt: skip
def test_culling_changes_no_bit_of_a_noisy_cloud(
    scene: Scene, solids_scene: Prepared, eye, preset, box, box_frame, frame, segments, outliers,
    radius, seed,
) -> None:  # fmt: skip
    """Only what can survive is cast; every preset with more of the edge effects than it has."""
    if box and box_frame == "camera":
        box = (-0.2, -0.1, 0.2), (0.1, 0.2, 0.7)
    spec = CropSpec(
        extract_segments=segments, box_min=box and box[0], box_max=box and box[1],
        box_frame=box_frame, frame=frame, outlier_cell=outliers, sampling="random", num_points=300,
    )  # fmt: skip
    sensor = SensorConfig(preset=preset, flying=0.4, edge_dropout=0.3, edge_radius=radius)
    camera = Camera(intrinsics=K, T_world_cam=look_at(eye[:3], [0.01, 0.02, 0.03], eye[3]))
    config = RenderConfig(sensor=sensor, crop=spec)
    culled = render_view(*solids_scene, scene, 0, camera, config, seed)
    depth, segment = observe(*solids_scene, camera, None, sensor, seed).dense(K.height, K.width)
    expected = crop_depth(
        depth, K, spec, seed=seed, segment=segment, segment_table=scene.segment_table,
        T_world_cam=camera.T_world_cam, table_pose=scene.table_pose,
    )  # fmt: skip
    assert np.array_equal(culled.points, expected.points)
    assert np.array_equal(culled.segment, expected.segment)
    assert culled.valid_count == expected.valid_count


@pytest.mark.parametrize("preset", sorted(SENSORS))
def test_any_subset_of_pixels_gets_the_bits_of_the_whole(
    solids_scene: Prepared, camera: Camera, preset: str
) -> None:
    sensor = SensorConfig(preset=preset)  # type: ignore[arg-type]
    whole = observe(*solids_scene, camera, None, sensor, 5)
    rng = np.random.default_rng(0)
    for count in (1, 17, 3000):
        some = np.sort(rng.choice(len(whole.pixel), count, replace=False))
        part = observe(*solids_scene, camera, some, sensor, 5)
        assert np.array_equal(part.z, whole.z[some], equal_nan=True)
        assert np.array_equal(part.segment, whole.segment[some])
    other = observe(*solids_scene, camera, None, sensor, 6)
    both = np.isfinite(whole.z) & np.isfinite(other.z)
    assert (whole.z[both] != other.z[both]).mean() > 0.2


def test_off_is_exact_depth(solids_scene: Prepared, camera: Camera) -> None:
    exact = solids_scene[0].render(solids_scene[1], camera)
    for sensor in (SensorConfig(), SensorConfig(baseline=0.05, correlation=8.0, edge_radius=3)):
        assert not sensor.enabled
        assert sensor.reach == 0
        seen = observe(*solids_scene, camera, None, sensor, 1)
        assert np.array_equal(seen.z, exact.z, equal_nan=True)
        assert np.array_equal(seen.segment, exact.segment)


def test_a_preset_gives_way_to_numbers() -> None:
    sensor = SensorConfig(preset="d435", lateral=0.1, shadow=False)
    assert (sensor.baseline, sensor.lateral, sensor.shadow) == (0.05, 0.1, False)
    assert all(v is not None for v in sensor.numbers().values())
    assert SensorConfig(preset="d435").enabled
    with pytest.raises(RenderConfigError, match="choose from d415, d435"):
        SensorConfig(preset="kinect9")  # type: ignore[arg-type]
    with pytest.raises(RenderConfigError, match=r"disparity_step.*expected a baseline") as caught:
        SensorConfig(disparity_step=0.1, flying=1.2, min_range=5.0, max_range=1.0)
    assert "flying: expected a share" in str(caught.value)
    assert "min_range < max_range" in str(caught.value)


def test_a_backend_without_single_rays_is_refused(camera: Camera) -> None:
    class Rasteriser:
        def prepare(self, scene, assets): ...
        def hulls(self, prepared): ...
        def render(self, prepared, camera, pixels=None): ...

    with pytest.raises(RenderConfigError, match="Rasteriser casts no single rays"):
        observe(Rasteriser(), None, camera, None, SensorConfig(preset="d435"), 0)
    assert observe(Rasteriser(), None, camera, None, SensorConfig(), 0) is None
