import numpy as np
import pytest

from pipeline.pictures.hand import HandSurface
from pipeline.pictures.points import (
    BACKGROUND,
    Paint,
    around,
    draw,
    paint_mesh,
    paint_segments,
    tile,
)
from schemas.camera import Intrinsics
from schemas.frames import matrix_to_pose, pose_to_matrix, transform_points
from tests.vulkan import need_vulkan

CAMERA = Intrinsics(fx=100, fy=100, cx=32, cy=24, width=64, height=48)
RED, BLUE = np.array([255, 0, 0], np.uint8), np.array([0, 0, 255], np.uint8)


def test_a_point_falls_where_the_pinhole_says_and_the_nearer_one_hides_the_other():
    paint = Paint(
        points=np.array([[0.1, 0.05, 1.0], [0.2, 0.1, 2.0]]), colours=np.stack([RED, BLUE])
    )
    image = draw(paint, CAMERA, np.eye(4), radius=0)
    # u = 100 * 0.1 / 1 + 32 = 42, v = 100 * 0.05 + 24 = 29, for both.
    assert image[29, 42].tolist() == RED.tolist()
    assert (image != BACKGROUND).any(axis=2).sum() == 1
    behind = Paint(points=-paint.points, colours=paint.colours)
    assert (draw(behind, CAMERA, np.eye(4)) == BACKGROUND).all()


def test_the_chosen_camera_sees_every_point_and_fills_the_picture():
    rng = np.random.default_rng(0)
    for direction in np.array([[1.0, 0, 0], [0, 0, 1.0], [-1, 2, 0.3]]):
        points = rng.normal(size=(50, 3)) * (0.3, 0.05, 0.1) + (1, 2, 3)
        paint = Paint(points=points, colours=np.tile(RED, (50, 1)))
        camera, T = around(paint, direction, (64, 48))
        assert np.dot(T[:3, 3] - points.mean(axis=0), direction) > 0
        rows, columns = np.nonzero((draw(paint, camera, T, radius=0) != BACKGROUND).any(axis=2))
        spread = max((np.abs(rows - 24) / 24).max(), (np.abs(columns - 32) / 32).max())
        assert 0.85 < spread < 1.0
    empty = paint_segments(np.zeros((0, 3)), np.zeros(0, np.uint16))
    assert (draw(empty, *around(empty, np.ones(3), (64, 48))) == BACKGROUND).all()


def test_mesh_points_lie_on_the_mesh_in_proportion_to_area():
    vertices = np.array([[0, 0, 0], [3, 0, 0], [0, 3, 0], [0, 0, 1.0]])
    paint = paint_mesh(vertices, np.array([[0, 1, 2], [0, 1, 3]]), RED, 20000)
    floor, wall = paint.points[:, 2] == 0, paint.points[:, 1] == 0
    assert (floor | wall).all()
    assert floor.mean() == pytest.approx(4.5 / 6, abs=0.02)
    assert (paint.points[floor][:, :2].sum(axis=1) <= 3 + 1e-9).all()
    np.testing.assert_allclose(paint.points[floor].mean(axis=0), [1, 1, 0], atol=0.03)


def test_tiles_stand_in_rows():
    images = [np.full((10, 20, 3), i, np.uint8) for i in (10, 20, 30)]
    sheet = tile(images, ["", "", ""], 2)
    bar = sheet.shape[0] // 2 - 10
    assert sheet.shape == (2 * (10 + bar), 40, 3)
    assert [int(sheet[bar + 5, 5, 0]), int(sheet[bar + 5, 25, 0])] == [10, 20]
    assert int(sheet[2 * bar + 15, 5, 0]) == 30


def test_the_hand_moves_with_its_root_and_its_fingers_open():
    joints = ("panda_finger_joint1", "panda_finger_joint2")
    surface = HandSurface("panda_gripper", joints, "another version")
    assert not surface.same
    closed = np.array([0, 0, 0, 1.0, 0, 0, 0, 0, 0])
    here = surface.paint(closed, 3000).points
    pose = np.array([0.3, -0.2, 0.5, 0.5, -0.5, 0.5, 0.5])
    moved = surface.paint(np.concatenate([pose, [0, 0]]), 3000).points
    np.testing.assert_allclose(moved, transform_points(pose_to_matrix(pose), here), atol=1e-9)
    # The jaw of a Panda opens by 4 cm a finger: the fingers' points move, the palm's do not.
    opened = surface.paint(np.concatenate([closed[:7], [0.04, 0.04]]), 3000).points
    steps = np.linalg.norm(opened - here, axis=1)
    assert ((steps < 1e-9) | (np.abs(steps - 0.04) < 1e-9)).all()
    assert 0 < (steps > 0.01).mean() < 0.9
    assert matrix_to_pose(pose_to_matrix(pose)) == pytest.approx(pose)


def test_open3d_draws_the_same_colours_in_the_same_places():
    """Two renderers, one picture: a red plate before a blue one, as numpy draws them."""
    from pipeline.pictures.open3d_child import try_draw

    need_vulkan()
    side = np.stack(np.meshgrid(np.linspace(-1, 1, 200), np.linspace(-1, 1, 200)), -1)
    plate = np.concatenate([side.reshape(-1, 2), np.zeros((40000, 1))], axis=1)
    near = plate * [0.1, 0.1, 0] + [-0.05, 0, 0.6]
    far = plate * [0.2, 0.2, 0] + [0.05, 0, 0.8]
    paint = Paint(
        points=np.concatenate([near, far]),
        colours=np.repeat(np.array([[213, 94, 0], [0, 114, 178]], np.uint8), 40000, axis=0),
    )
    K = Intrinsics(fx=200, fy=200, cx=80, cy=60, width=160, height=120)
    theirs, why = try_draw(paint, K, np.eye(4))
    assert theirs is not None, why
    ours = draw(paint, K, np.eye(4))
    for column, colour in ((60, (213, 94, 0)), (130, (0, 114, 178)), (2, (255, 255, 255))):
        for picture in (ours, theirs):
            assert np.abs(picture[60, column].astype(int) - colour).max() <= 6, (column, picture)
    assert (np.abs(ours.astype(int) - theirs).max(axis=2) > 12).mean() < 0.05  # outlines
