"""A real frame taken again by rays: the same object, pose, table and camera, with any sensor."""

import hashlib
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Camera, Intrinsics
from schemas.frames import matrix_to_pose
from schemas.records import FIRST_OBJECT, TABLE, ObjectAsset, Scene
from stages.crop import slopes_at
from stages.render.backends import BACKENDS
from stages.render.backends.protocol import RayBackend
from stages.render.sensor import observe
from stages.render.sensor_config import SensorConfig
from stages.robot.table import fit_plane, plane_frame

Float = NDArray[np.float64]
OTHER_SURFACE = 0.02  # m; a depth farther than this from the expected one belongs to something else
TABLE_SIDE = 4.0  # m


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Capture:
    """One real frame. `depth` (H, W) float64 m, z-depth, missing NaN; `mask` (H, W) the object."""

    name: str
    depth: Float
    intrinsics: Intrinsics
    mask: NDArray[np.bool_]

    def points(self) -> Float:
        """(N, 3) m, camera frame: the valid pixels of the mask."""
        return back_projected(np.where(self.mask, self.depth, np.nan), self.intrinsics)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Silhouette:
    """What rays say about the pixels that should show the object; all (M,), row-major order."""

    pixel: NDArray[np.int64]
    z: Float  # m
    cosine: Float  # of the angle between ray and normal
    area: Float  # m^2 of surface in the pixel

    def normal_error(self, depth: Float) -> Float:
        """(M,) m along the normal, + behind the surface; NaN where the object was not measured."""
        error = depth.reshape(-1)[self.pixel] - self.z
        with np.errstate(invalid="ignore"):
            error[~(np.abs(error) < OTHER_SURFACE)] = np.nan
        return error * self.cosine


class Retake:
    """The camera frame is the world. Without a `table` (pose (7,)) nothing is behind the object."""

    def __init__(
        self,
        backend: RayBackend,
        K: Intrinsics,
        mesh: tuple[NDArray[Any], NDArray[Any]],
        T_cam_object: Float,
        table: Float | None,
    ) -> None:
        self._backend = backend
        self.camera = Camera(intrinsics=K, T_world_cam=np.eye(4))
        scene = Scene(
            scene_id="retake", kind="tabletop", split="test", object_ids=("object",),
            object_poses=matrix_to_pose(T_cam_object)[None], object_scales=np.ones(1),
            object_masses=np.ones(1), settle_time=0.0,
            table_pose=np.array([0, 0, 0, 1.0, 0, 0, 0]) if table is None else table,
            table_size=np.zeros(2) if table is None else np.full(2, TABLE_SIDE),
        )  # fmt: skip
        self._prepared = backend.prepare(scene, [_bare_asset(*mesh)])
        x, y = slopes(K)
        rays = np.stack([x, y], axis=1).astype(np.float32)
        hits = backend.cast(self._prepared, self.camera, np.arange(len(rays)), rays)
        assert hits.cosine is not None
        mine = hits.segment == FIRST_OBJECT
        z, cosine = hits.z[mine].astype(np.float64), hits.cosine[mine]
        length = np.sqrt(1 + x[mine] ** 2 + y[mine] ** 2)
        # a pixel of solid angle 1 / (fx fy length^3) at the distance z length
        area = z**2 / (K.fx * K.fy * length) / np.maximum(cosine, 0.05)
        self.silhouette = Silhouette(pixel=hits.pixel[mine], z=z, cosine=cosine, area=area)

    def depth(self, sensor: SensorConfig, seed: int, whole: bool = False) -> Float:
        """(H, W) m of the object (or of the `whole` frame) as `sensor` would report it, or NaN."""
        hits = observe(self._backend, self._prepared, self.camera, None, sensor, seed)
        shown = hits.segment >= (TABLE if whole else FIRST_OBJECT)
        K = self.camera.intrinsics
        return np.where(shown, hits.z, np.nan).astype(np.float64).reshape(K.height, K.width)


def ray_backend() -> RayBackend:
    """Embree: the backend that casts single rays."""
    return resolve_name(BACKENDS["embree"])()


def retake(backend: RayBackend, capture: Capture, mesh: Any, T_cam_object: Float) -> Retake:
    """`capture` taken again: the object at its registered pose, on the table if there is one."""
    return Retake(backend, capture.intrinsics, mesh, T_cam_object, find_table(capture))


def slopes(K: Intrinsics) -> tuple[Float, Float]:
    """x/z and y/z of every pixel, (H W,) each."""
    x, y = slopes_at(np.arange(K.height * K.width), K)
    return x.astype(np.float64), y.astype(np.float64)


def back_projected(depth: Float, K: Intrinsics) -> Float:
    """(N, 3) m, camera frame: the pixels of (H, W) `depth` that are not NaN."""
    x, y = slopes(K)
    z = depth.reshape(-1)
    known = np.isfinite(z)
    return np.stack([x[known] * z[known], y[known] * z[known], z[known]], axis=1)


def find_table(capture: Capture) -> Float | None:
    """(7,) pose of the plane that holds most of what is not the object; None below a third."""
    points = back_projected(np.where(capture.mask, np.nan, capture.depth), capture.intrinsics)
    if len(points) < 1000:
        return None
    normal, offset, inliers = fit_plane(points)
    if inliers < 1 / 3:
        return None
    middle = np.median(points, axis=0)
    return matrix_to_pose(plane_frame(normal, middle + (offset - normal @ middle) * normal))


def _bare_asset(vertices: NDArray[Any], faces: NDArray[Any]) -> ObjectAsset:
    """Triangles for the rays; nothing that physics would need."""
    none = np.zeros(1, np.int64)
    vertices = np.ascontiguousarray(vertices, np.float32)
    sha256 = hashlib.sha256(vertices.tobytes()).hexdigest()
    return ObjectAsset(
        object_id="object", source="", licence="", sha256=sha256, scale=1.0,
        vertices=vertices, faces=np.asarray(faces, np.int32),
        piece_vertices=np.zeros((0, 3), np.float32), piece_faces=np.zeros((0, 3), np.int32),
        piece_vertex_offsets=none, piece_face_offsets=none, volume=0.0, density=0.0, mass=0.0,
        center_of_mass=np.zeros(3), inertia=np.zeros((3, 3)), stable_poses=np.zeros((0, 7)),
        stable_probabilities=np.zeros(0), notes="",
    )  # fmt: skip
