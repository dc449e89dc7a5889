"""Depth of a running simulation: an ego camera in perspective and a sky camera straight down.

Grains are exact spheres, drawn one by one into the pixels they cover; the nearest wins. Bodies are
their meshes, hit by rays. It runs on the simulation's device, and the order of grains changes
nothing, since taking the nearer of two depths is the same in any order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import warp as wp
from numpy.typing import NDArray

from schemas.camera import Camera
from schemas.frames import check_transform
from stages.scene.granular.bodies import Body
from stages.scene.granular.device import MODULE_OPTIONS
from stages.scene.granular.errors import GrainsError
from stages.scene.granular.simulator import Simulator

wp.set_module_options(MODULE_OPTIONS)

FAR = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class SkyCamera:
    """Orthographic, looking down: row 0 is the largest y, column 0 the smallest x."""

    half_x: float  # m
    half_y: float
    height: float  # m, z of the plane from which depth counts
    pixel: float  # m, edge of one

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, columns."""
        return round(2 * self.half_y / self.pixel), round(2 * self.half_x / self.pixel)


@wp.struct
class View:
    """A pixel's ray in the world. `flat` for parallel rays, else a pinhole."""

    flat: int
    height: int
    width: int
    focal: wp.vec2
    middle: wp.vec2
    R: wp.mat33  # world <- camera
    eye: wp.vec3


@wp.func
def ray_start(view: View, u: float, v: float) -> wp.vec3:
    if view.flat == 1:
        x = (u - view.middle[0]) / view.focal[0]
        y = (v - view.middle[1]) / view.focal[1]
        return view.eye + view.R * wp.vec3(x, y, 0.0)
    return view.eye


@wp.func
def ray_direction(view: View, u: float, v: float) -> wp.vec3:
    """Of z-depth 1."""
    if view.flat == 1:
        return view.R * wp.vec3(0.0, 0.0, 1.0)
    x = (u - view.middle[0]) / view.focal[0]
    y = (v - view.middle[1]) / view.focal[1]
    return view.R * wp.vec3(x, y, 1.0)


@wp.kernel
def draw_grains(
    x: wp.array(dtype=wp.vec3), radius: float, view: View, depth: wp.array2d(dtype=float)
):
    i = wp.tid()
    c = wp.transpose(view.R) * (x[i] - view.eye)
    if c[2] < 1.01 * radius:
        return
    u = c[0] * view.focal[0] + view.middle[0]
    v = c[1] * view.focal[1] + view.middle[1]
    size_u = radius * view.focal[0]
    size_v = radius * view.focal[1]
    if view.flat == 0:
        u = c[0] / c[2] * view.focal[0] + view.middle[0]
        v = c[1] / c[2] * view.focal[1] + view.middle[1]
        # of the cone around the sphere, with its slant towards the edge of the picture
        near = wp.sqrt(wp.max(c[2] * c[2] - radius * radius, 1.0e-12))
        slant = (1.0 + wp.length_sq(wp.vec2(c[0] / c[2], c[1] / c[2]))) * c[2] / near
        size_u = size_u / near * slant
        size_v = size_v / near * slant
    for row in range(
        wp.max(int(wp.floor(v - size_v)), 0), wp.min(int(wp.ceil(v + size_v)) + 1, view.height)
    ):
        for col in range(
            wp.max(int(wp.floor(u - size_u)), 0), wp.min(int(wp.ceil(u + size_u)) + 1, view.width)
        ):
            start = ray_start(view, float(col) + 0.5, float(row) + 0.5)
            d = ray_direction(view, float(col) + 0.5, float(row) + 0.5)
            a = wp.length_sq(d)
            to = x[i] - start
            b = wp.dot(to, d)
            under = b * b - a * (wp.length_sq(to) - radius * radius)
            if under >= 0.0:
                z = (b - wp.sqrt(under)) / a
                if z > 0.0:
                    wp.atomic_min(depth, row, col, z)


@wp.kernel
def draw_mesh(
    mesh: wp.uint64,
    position: wp.vec3,
    rotation: wp.quat,
    view: View,
    depth: wp.array2d(dtype=float),
):
    row, col = wp.tid()
    start = wp.quat_rotate_inv(
        rotation, ray_start(view, float(col) + 0.5, float(row) + 0.5) - position
    )
    d = wp.quat_rotate_inv(rotation, ray_direction(view, float(col) + 0.5, float(row) + 0.5))
    size = wp.length(d)
    found = wp.mesh_query_ray(mesh, start, d / size, 1.0e3)
    if found.result:
        depth[row, col] = wp.min(depth[row, col], found.t / size)


@wp.kernel
def draw_floor(view: View, depth: wp.array2d(dtype=float)):
    row, col = wp.tid()
    start = ray_start(view, float(col) + 0.5, float(row) + 0.5)
    d = ray_direction(view, float(col) + 0.5, float(row) + 0.5)
    if d[2] < 0.0:
        depth[row, col] = wp.min(depth[row, col], -start[2] / d[2])


class Observer:
    """Draws a simulation; keeps the meshes of its bodies on the device."""

    def __init__(self, simulator: Simulator, bodies: Sequence[Body] = ()) -> None:
        """`bodies` are those that the simulator was made with, in their order."""
        if len(bodies) != simulator.bodies:
            raise GrainsError(
                f"observer: the simulation has {simulator.bodies} bodies, got {len(bodies)}"
            )
        self._sim = simulator
        with wp.ScopedDevice(simulator.device):
            self._meshes = [
                wp.Mesh(
                    points=wp.array(body.grid.vertices, dtype=wp.vec3),
                    indices=wp.array(body.grid.faces.reshape(-1), dtype=int),
                )
                for body in bodies
            ]

    def ego(self, camera: Camera) -> NDArray[np.float32]:
        """(H, W) z-depth, m, of a pinhole camera without distortion; NaN where nothing is seen."""
        K = camera.intrinsics
        if K.distortion:
            raise GrainsError("observer: expected a camera without distortion")
        view = View()
        view.flat, view.height, view.width = 0, K.height, K.width
        view.focal, view.middle = wp.vec2(K.fx, K.fy), wp.vec2(K.cx, K.cy)
        T = check_transform(camera.T_world_cam, "T_world_cam")
        view.R, view.eye = wp.mat33(T[:3, :3].astype(np.float32)), wp.vec3(*T[:3, 3])
        return self._draw(view)

    def sky(self, camera: SkyCamera) -> NDArray[np.float32]:
        """(rows, columns) m below `camera.height`; NaN where nothing is seen."""
        view = View()
        view.flat = 1
        view.height, view.width = camera.shape
        view.focal = wp.vec2(1 / camera.pixel, 1 / camera.pixel)
        view.middle = wp.vec2(view.width / 2, view.height / 2)
        view.R = wp.mat33(np.diag([1.0, -1.0, -1.0]).astype(np.float32))
        view.eye = wp.vec3(0.0, 0.0, camera.height)
        return self._draw(view)

    def _draw(self, view: View) -> NDArray[np.float32]:
        s = self._sim
        shape = (view.height, view.width)
        with wp.ScopedDevice(s.device):
            depth = wp.full(shape, FAR, dtype=float)
            wp.launch(draw_grains, len(s), [s.state, s.config.radius, view], [depth])
            for b, mesh in enumerate(self._meshes):
                pose = s.body_pose(b)
                where = [wp.vec3(*pose[:3]), wp.quat(*pose[[4, 5, 6, 3]])]
                wp.launch(draw_mesh, shape, [mesh.id, *where, view], [depth])
            if s.has_floor:
                wp.launch(draw_floor, shape, [view], [depth])
            out = depth.numpy()
        return np.where(out < FAR / 2, out, np.float32(np.nan)).astype(np.float32)
