"""A hand open, closed, and with the bodies coloured that its file names."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.pictures.hand import HandSurface
from pipeline.pictures.points import HAND_COLOUR, Float, Image, Paint, around, draw, join, tile
from schemas.frames import invert, matrix_to_pose, pose_to_matrix

CONTACT, TIP = np.array([0, 158, 115], np.uint8), np.array([213, 94, 0], np.uint8)
REST = np.array([170, 170, 170], np.uint8)
AXES = np.array([[220, 30, 30], [30, 160, 30], [30, 60, 220]], np.uint8)  # x, y, z
AXIS_LENGTH = 0.04  # m
SIDE = 420  # pixels
COUNT = 120_000  # points of a hand


def hand_sheet(file: str, spec: Any, digest: str) -> Image:
    """Three pictures of the HandSpec `spec` of the hand file `file`, the grasp frame's z down.

    A rig is drawn on its base, and then its hand alone.
    """
    surface = HandSurface(file, spec.joint_names, digest)
    T_grasp = pose_to_matrix(np.array(spec.T_root_grasp))
    down = np.diag([1.0, -1.0, -1.0, 1.0])
    root = np.array(spec.base_pose) if not spec.mocap else matrix_to_pose(down @ invert(T_grasp))
    plain = dict.fromkeys(_hand_bodies(surface), HAND_COLOUR)
    marked: dict[int, NDArray[np.uint8]] = dict.fromkeys(plain, REST)
    marked |= dict.fromkeys(surface.index.contact_bodies.tolist(), CONTACT)
    marked |= dict.fromkeys(surface.index.tip_bodies.tolist(), TIP)

    def row(joints: tuple[float, ...]) -> Float:
        return np.concatenate([root, joints])

    opened = surface.paint(row(spec.open_qpos), COUNT, None if not spec.mocap else plain)
    closed = surface.paint(row(spec.closed_qpos), COUNT, plain)
    named = surface.paint(row(spec.pregrasp_qpos), COUNT, marked)
    named = join([named, _triad(_carrier(surface) @ T_grasp)])
    towards = _carrier(surface)[:3, :3] @ T_grasp[:3, 0]  # across approach and closing
    direction = np.array([*(towards[:2] + 0.35 * np.array([-towards[1], towards[0]])), 0.4])
    images: list[Image] = []
    for paint in (opened, closed, named):
        camera, T = around(paint, direction, (SIDE, SIDE))
        images.append(draw(paint, camera, T, radius=2))
    titles = [
        f"{spec.name}\nopen", f"{spec.name}\nclosed",
        "pregrasp: contact bodies green, tips orange\ngrasp frame: x red, y green, z blue",
    ]  # fmt: skip
    return tile(images, titles, 3)


def _hand_bodies(surface: HandSurface) -> list[int]:
    """Bodies of the hand, without the arm of a rig."""
    from stages.envs.mujoco.hand_index import is_below

    bodies: list[int] = surface.index.bodies.tolist()
    return [b for b in bodies if is_below(surface.model, b, surface.index.carrier)]


def _carrier(surface: HandSurface) -> Float:
    """(4, 4) of the root body, or of lift_body of a rig, as last painted."""
    body = surface.index.carrier
    return pose_to_matrix(np.concatenate([surface.data.xpos[body], surface.data.xquat[body]]))


def _triad(T: Float) -> Paint:
    steps = np.linspace(0.0, AXIS_LENGTH, 200)[:, None]
    points = np.concatenate([T[:3, 3] + steps * T[:3, axis] for axis in range(3)])
    return Paint(points=points, colours=np.repeat(AXES, len(steps), axis=0))
