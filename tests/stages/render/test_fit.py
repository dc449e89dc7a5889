"""Registration, fits and distances against what made the frames."""

from dataclasses import replace

import numpy as np
import pytest
import trimesh

from schemas.camera import Intrinsics
from schemas.frames import invert, look_at, matrix_to_pose, pose_to_matrix, transform_points
from stages.render.backends.embree import EmbreeBackend
from stages.render.closeness import Features, energy_distance, features, scale, statistics
from stages.render.errors import RegistrationError, SensorFitError
from stages.render.fit import fit_sensor, plane_sample, sample_of
from stages.render.register import register
from stages.render.retake import Capture, Retake, find_table, retake
from stages.render.sensor_config import SensorConfig

K = Intrinsics(fx=450.0, fy=450.0, cx=160.0, cy=120.0, width=320, height=240)
OFF = SensorConfig()
Mesh = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    """A box with a knob on one side and a ball on another: no two poses look alike."""
    knob = trimesh.creation.box((0.03, 0.04, 0.03))
    knob.apply_translation([0.05, 0.01, 0.04])
    ball = trimesh.creation.icosphere(4, 0.025)
    ball.apply_translation([-0.01, 0.035, -0.03])
    whole = trimesh.util.concatenate([trimesh.creation.box((0.08, 0.05, 0.12)), knob, ball])
    return np.asarray(whole.vertices), np.asarray(whole.faces)


def placed(eye: tuple[float, float, float]) -> np.ndarray:
    """T_cam_object and the table under the object, as `eye` sees them from the object frame."""
    return invert(look_at(eye, [0, 0, 0], roll=0.2))


def frame(mesh: Mesh, T: np.ndarray, sensor: SensorConfig, seed: int = 0) -> Capture:
    table = T @ np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, -0.06], [0, 0, 0, 1.0]])
    again = Retake(EmbreeBackend(), K, mesh, T, matrix_to_pose(table))
    mask = np.isfinite(again.depth(sensor, seed))
    depth = again.depth(sensor, seed, whole=True)
    return Capture(name=f"{seed}", depth=depth, intrinsics=K, mask=mask)


@pytest.mark.parametrize("eye", [(0.3, 0.25, 0.25), (-0.25, 0.3, 0.1), (0.05, -0.4, 0.3)])
def test_a_scan_finds_its_pose(mesh: Mesh, eye: tuple[float, float, float]) -> None:
    T = placed(eye)
    noisy = frame(mesh, T, SensorConfig(axial_constant=0.0005, correlation=6.0))
    found = register(noisy.points(), *mesh)
    corners = np.stack(np.meshgrid(*[[-0.06, 0.06]] * 3), axis=-1).reshape(-1, 3)
    off = transform_points(found.T_cam_object, corners) - transform_points(T, corners)
    assert np.linalg.norm(off, axis=1).max() < 0.0025
    assert found.median < 0.001


def test_another_object_is_refused(mesh: Mesh) -> None:
    points = frame(mesh, placed((0.3, 0.25, 0.25)), OFF).points()
    wrong = trimesh.creation.icosphere(3, 0.3)
    with pytest.raises(RegistrationError, match=r"mm median distance.*is it this object"):
        register(points, wrong.vertices, wrong.faces)
    with pytest.raises(RegistrationError, match="at least 100 points"):
        register(points[:50], *mesh)


def test_the_table_is_found_where_it_is(mesh: Mesh) -> None:
    T = placed((0.3, 0.25, 0.25))
    pose = find_table(frame(mesh, T, SensorConfig(axial_constant=0.001)))
    assert pose is not None
    normal = pose_to_matrix(pose)[:3, 2]
    assert normal @ T[:3, 2] > np.cos(np.deg2rad(0.3))
    assert normal @ (pose[:3] - (T[:3, 3] - 0.06 * T[:3, 2])) == pytest.approx(0, abs=5e-4)


def test_a_fit_finds_the_numbers_that_made_the_frames(mesh: Mesh) -> None:
    made = SensorConfig(
        baseline=0.05, disparity_noise=0.12, axial_grazing=0.0001, correlation=6.0, white_share=0.2,
        grazing_start=60.0, grazing_end=90.0, hole_fraction=0.02,
    )  # fmt: skip
    samples = []
    for seed, eye in enumerate([(0.3, 0.25, 0.25), (-0.25, 0.3, 0.1), (0.05, -0.4, 0.3),
                                (0.4, 0.35, 0.2), (-0.2, -0.2, 0.5)]):  # fmt: skip
        T = placed(eye)
        capture = frame(mesh, T, made, seed)
        samples.append(sample_of(capture, retake(EmbreeBackend(), capture, mesh, T).silhouette))
    found = fit_sensor(samples, SensorConfig(preset="d435", shadow=False))
    n = found.numbers
    assert n["disparity_noise"] == pytest.approx(0.12, rel=0.15)
    assert n["axial_grazing"] == pytest.approx(0.0001, rel=0.35)
    assert n["correlation"] == pytest.approx(6.0, abs=1.5)
    assert n["white_share"] == pytest.approx(0.2, abs=0.1)
    assert n["grazing_start"] == pytest.approx(60.0, abs=7.5)
    assert n["hole_fraction"] == pytest.approx(0.02, abs=0.01)
    assert found.sensor.shadow is False
    assert found.sensor.lateral == SensorConfig(preset="d435").lateral


def test_a_plane_tells_its_noise(mesh: Mesh) -> None:
    T = invert(look_at([0.4, 0.1, 0.5], [0, 0, 0]))
    behind = np.eye(4)
    behind[2, 3] = -1.0
    again = Retake(EmbreeBackend(), K, mesh, behind, matrix_to_pose(T))
    sensor = SensorConfig(axial_constant=0.002, correlation=4.0)
    depth = again.depth(sensor, 3, whole=True)
    capture = Capture(name="p", depth=depth, intrinsics=K, mask=np.isfinite(depth))
    fitted = fit_sensor([plane_sample(capture)], SensorConfig())
    assert fitted.numbers["axial_constant"] == pytest.approx(0.002, rel=0.1)
    bumpy = replace(capture, depth=depth + np.random.default_rng(0).normal(0, 0.05, depth.shape))
    with pytest.raises(SensorFitError, match="of the masked points lie on one plane"):
        plane_sample(bumpy)


def test_statistics_of_an_exact_frame_are_geometry(mesh: Mesh) -> None:
    T = placed((0.3, 0.25, 0.25))
    exact = Retake(EmbreeBackend(), K, mesh, T, None)
    values = statistics(exact.depth(OFF, 0), exact.silhouette, K, T)
    assert values["missing"] == 0
    assert values["noise_90_mm"] == 0
    visible = exact.silhouette.area.sum()
    # what a camera sees of it: the three sides of the box, more or less
    assert 0.6 < visible / (0.08 * 0.05 + 0.08 * 0.12 + 0.05 * 0.12) < 1.4
    half = exact.depth(SensorConfig(hole_fraction=0.5, hole_size=2.0), 0)
    lost = statistics(half, exact.silhouette, K, T)
    assert lost["missing"] == pytest.approx(0.5, abs=0.03)
    for a, b in zip(values["density"], lost["density"], strict=True):
        assert b["points_per_cm2"] == pytest.approx(a["points_per_cm2"] / 2, rel=0.15)


def test_energy_distance_has_its_closed_form_and_a_true_null() -> None:
    tile = np.arange(600) // 6
    still = Features(values=np.zeros((600, 3)), tile=tile)
    moved = Features(values=np.tile([3.0, 4.0, 0.0], (600, 1)), tile=tile)
    unit = np.ones(3)
    # two point masses a distance d apart: 2 d
    assert energy_distance(still, moved, unit)["distance"] == pytest.approx(10.0)
    rng = np.random.default_rng(0)
    small = 0
    for _ in range(40):  # alike, and alike within tiles
        a, b = (
            Features(values=np.repeat(rng.normal(size=(100, 3)), 6, axis=0), tile=tile)
            for _ in range(2)
        )
        small += energy_distance(a, b, unit)["p"] < 0.05
        other = Features(values=a.values + [0.8, 0, 0], tile=tile)
        assert energy_distance(b, other, unit)["p"] < 0.01
    assert small <= 6  # binomial(40, 0.05): 6 or more with probability 0.01


def test_frames_of_one_sensor_are_near_and_of_none_are_far(mesh: Mesh) -> None:
    T, sensor = placed((0.3, 0.25, 0.25)), SensorConfig(preset="d435")
    again = Retake(EmbreeBackend(), K, mesh, T, None)
    depths = [again.depth(s, seed) for s, seed in ((sensor, 1), (sensor, 2), (OFF, 1))]
    real, same, none = (features(d, again.silhouette) for d in depths)
    near, far = (energy_distance(real, other, scale(real)) for other in (same, none))
    assert near["p"] > 0.02
    assert far["p"] < 0.01
    assert far["distance"] > 10 * near["distance"]
