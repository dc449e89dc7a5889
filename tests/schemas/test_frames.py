"""Rotations against scipy, cameras against the pinhole model, records against the disk."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from schemas.camera import Camera, Intrinsics
from schemas.errors import FrameError, SchemaError
from schemas.frames import (
    check_quaternion,
    check_transform,
    invert,
    look_at,
    matrix_to_pose,
    matrix_to_quaternion,
    pose_to_matrix,
    quaternion_to_matrix,
    rotation_angle,
    transform_points,
)

quaternions = st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(
    lambda q: np.linalg.norm(q) > 0.1
)


def unit(q: list[float]) -> np.ndarray:
    return np.array(q) / np.linalg.norm(q)


@settings(deadline=None)
@given(quaternions, quaternions)
def test_rotations_agree_with_scipy(a: list[float], b: list[float]) -> None:
    qa, qb = unit(a), unit(b)
    ra, rb = Rotation.from_quat(np.roll(qa, -1)), Rotation.from_quat(np.roll(qb, -1))
    np.testing.assert_allclose(quaternion_to_matrix(qa), ra.as_matrix(), atol=1e-12)
    again = matrix_to_quaternion(ra.as_matrix())
    assert again[0] >= 0
    assert min(np.abs(again - qa).max(), np.abs(again + qa).max()) < 1e-9
    angle = rotation_angle(qa, qb)
    assert angle == pytest.approx((ra.inv() * rb).magnitude(), abs=1e-7)
    assert rotation_angle(qa, -qb) == pytest.approx(angle, abs=1e-12)


def test_small_angles_keep_their_digits() -> None:
    for angle in (1e-9, 1e-6, 1e-3, np.pi - 1e-6):
        q = np.array([np.cos(angle / 2), 0, np.sin(angle / 2), 0])
        assert rotation_angle([1, 0, 0, 0], q) == pytest.approx(angle, rel=1e-6)


@settings(deadline=None)
@given(quaternions, st.lists(st.floats(-2, 2), min_size=3, max_size=3))
def test_poses_and_matrices_round_trip(q: list[float], t: list[float]) -> None:
    pose = np.concatenate([t, unit(q)])
    T = pose_to_matrix(pose)
    check_transform(T)
    np.testing.assert_allclose(pose_to_matrix(matrix_to_pose(T)), T, atol=1e-12)
    np.testing.assert_allclose(invert(T) @ T, np.eye(4), atol=1e-12)
    point = np.array([[0.1, -0.2, 0.3]])
    np.testing.assert_allclose(transform_points(T, point)[0], (T @ [*point[0], 1])[:3], atol=1e-12)


@pytest.mark.parametrize(
    ("T", "message"),
    [
        (np.eye(3), "4x4"),
        (np.diag([1, 1, 1.001, 1]), "not orthonormal"),
        (np.diag([1, 1, -1, 1]), "reflection"),
        (np.full((4, 4), np.nan), "NaN"),
        (np.eye(4) + np.eye(4)[[3, 0, 1, 2]] * [1, 0, 0, 0], "last row"),
    ],
)
def test_what_is_not_rigid_is_refused(T: np.ndarray, message: str) -> None:
    if message == "last row":
        T = np.eye(4)
        T[3, 0] = 1
    with pytest.raises(FrameError, match=message):
        check_transform(T)


def test_a_quaternion_must_be_of_unit_length() -> None:
    with pytest.raises(FrameError, match="divide it by its norm"):
        check_quaternion([1, 0, 0, 1e-2])
    with pytest.raises(FrameError, match="4 numbers"):
        check_quaternion([1, 0, 0])


@settings(deadline=None)
@given(st.floats(-3, 3), st.floats(-1.5, 1.5), st.floats(-3, 3))
def test_look_at_centres_the_target_upright(azimuth: float, elevation: float, roll: float) -> None:
    direction = np.array(
        [
            np.cos(elevation) * np.cos(azimuth),
            np.cos(elevation) * np.sin(azimuth),
            np.sin(elevation),
        ]
    )
    target = np.array([0.1, 0.2, 0.3])
    T = check_transform(look_at(target + 0.7 * direction, target, roll))
    seen = transform_points(invert(T), target[None])[0]
    np.testing.assert_allclose(seen, [0, 0, 0.7], atol=1e-9)
    upright = look_at(target + 0.7 * direction, target)
    if abs(direction[2]) < 0.99:
        above = transform_points(invert(upright), target[None] + [0, 0, 0.01])[0]
        assert above[1] < 0  # y points down in the image
        assert above[0] == pytest.approx(0, abs=1e-9)


def test_intrinsics_refuse_another_image_size() -> None:
    K = Intrinsics(fx=600, fy=600, cx=320, cy=240, width=640, height=480)
    assert Intrinsics.from_matrix(K.K, 640, 480) == K
    with pytest.raises(SchemaError, match="K of another image size"):
        Intrinsics.from_matrix(K.K, 200, 100)
    half = K.rescaled(320, 240)
    assert (half.fx, half.cx, half.cy) == (300, 160, 120)
    skewed = K.K
    skewed[0, 1] = 0.1
    with pytest.raises(SchemaError, match=r"\[fx 0 cx; 0 fy cy; 0 0 1\]"):
        Intrinsics.from_matrix(skewed, 640, 480)
    with pytest.raises(SchemaError, match="positive pixels"):
        replace(K, fx=-1.0)
    with pytest.raises(FrameError, match="T_world_cam"):
        Camera(intrinsics=K, T_world_cam=2 * np.eye(4))


def test_records_survive_the_disk_and_other_fields_are_refused(tmp_path) -> None:
    from schemas.records import Scene, decode, encode
    from schemas.validate import problems

    scene = Scene(
        scene_id="s", kind="tabletop", split="train", object_ids=("a", "b"),
        object_poses=np.array([[0, 0, 0, 1, 0, 0, 0], [0, 0, 1, 0, 1, 0, 0]], float),
        object_scales=np.ones(2), object_masses=np.ones(2),
        table_pose=np.array([0, 0, 0, 1, 0, 0, 0], float), table_size=np.ones(2), settle_time=0.5,
    )  # fmt: skip
    np.savez(tmp_path / "a.npz", **encode(scene))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        again = decode(Scene, dict(arrays))
    for field in fields(Scene):
        a, b = getattr(scene, field.name), getattr(again, field.name)
        assert type(a) is type(b)
        assert np.array_equal(a, b)
    assert scene.segment_table == {"background": 0, "table": 1, "object:0": 2, "object:1": 3}
    assert problems(scene) == []
    bad = replace(scene, object_poses=scene.object_poses * 2, settle_time=0.0)
    assert "object_poses" in problems(bad)[0]
    nan = replace(scene, object_masses=np.array([1, np.nan]))
    assert problems(nan) == ["object_masses: holds NaN or infinity"]
    arrays = encode(scene)
    del arrays["kind"]
    with pytest.raises(SchemaError, match=r"missing fields \['kind'\]"):
        decode(Scene, arrays)
