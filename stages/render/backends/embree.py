"""Intel Embree through embreex: exact rays on the CPU, no GL, no Vulkan.

Ray directions have z = 1 in the camera frame, so Embree's ray parameter is the z-depth itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from embreex.mesh_construction import TriangleMesh
from embreex.rtcore_scene import EmbreeScene
from numpy.typing import ArrayLike, NDArray

from schemas.camera import Camera
from schemas.frames import pose_to_matrix, transform_points
from schemas.records import FIRST_OBJECT, TABLE, TABLE_THICKNESS, ObjectAsset, Scene
from stages.crop import slopes_at
from stages.render.backends.hulls import object_hulls
from stages.render.backends.protocol import VISIBLE_SLACK, Hits

BIN_WALL = 0.005  # m thick, outside the bin's inner faces
NO_HIT_SEGMENT = 0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PreparedScene:
    """One BVH for all views; `segment_of` maps Embree's geometry id to ours."""

    bvh: EmbreeScene
    segment_of: NDArray[np.uint16]
    hulls: tuple[NDArray[np.float64], ...]


class EmbreeBackend:
    """`RayBackend` on Embree 4."""

    depth_step = 0.0

    def prepare(self, scene: Scene, assets: Sequence[ObjectAsset]) -> PreparedScene:
        """Build the BVH; geometry is added in segment order."""
        bvh = EmbreeScene()
        segments: list[int] = []
        if scene.has_table:
            vertices, faces = table_mesh(scene)
            TriangleMesh(bvh, vertices, faces)
            segments.append(TABLE)
        for i, (asset, pose) in enumerate(zip(assets, scene.object_poses, strict=True)):
            T_world_object = pose_to_matrix(pose)
            vertices = transform_points(T_world_object, asset.vertices).astype(np.float32)
            TriangleMesh(bvh, vertices, np.ascontiguousarray(asset.faces, np.int32))
            segments.append(FIRST_OBJECT + i)
        if scene.has_grains:
            for name, mesh in (("grains", grain_mesh(scene)), ("bin", bin_mesh(scene))):
                TriangleMesh(bvh, *mesh)
                segments.append(scene.segment_table[name])
        # One entry more, so that "no hit" (-1) finds the background.
        segment_of = np.array([*segments, NO_HIT_SEGMENT], np.uint16)
        return PreparedScene(bvh=bvh, segment_of=segment_of, hulls=object_hulls(scene, assets))

    def hulls(self, prepared: PreparedScene) -> Sequence[NDArray[np.float64]]:
        return prepared.hulls

    def render(
        self,
        prepared: PreparedScene,
        camera: Camera,
        pixels: NDArray[np.int64] | None = None,
    ) -> Hits:
        K = camera.intrinsics
        if pixels is None:
            pixels = np.arange(K.width * K.height)
        return _hits(prepared, camera, pixels, *slopes_at(pixels, K))

    def cast(
        self,
        prepared: PreparedScene,
        camera: Camera,
        pixels: NDArray[np.int64],
        slopes: NDArray[np.float32],
    ) -> Hits:
        return _hits(prepared, camera, pixels, *slopes.T, cosines=True)

    def visible(
        self,
        prepared: PreparedScene,
        camera: Camera,
        eye_cam: ArrayLike,
        points_cam: NDArray[np.float32],
    ) -> NDArray[np.bool_]:
        if len(points_cam) == 0 or len(prepared.segment_of) == 1:
            return np.ones(len(points_cam), bool)
        away = points_cam - np.asarray(eye_cam, np.float32)
        directions = _turned(camera, *away.T)
        origins = np.empty_like(directions)
        origins[:] = transform_points(camera.T_world_cam, np.asarray(eye_cam)[None])[0]
        length = np.sqrt(_dot(away.astype(np.float64), away))
        # Anything before the point, nearer to the eye by the slack: any hit will do, not the first.
        ends = np.maximum(1 - VISIBLE_SLACK / np.maximum(length, VISIBLE_SLACK), 0)
        hit = prepared.bvh.run(origins, directions, dists=ends.astype(np.float32), query="OCCLUDED")
        return np.asarray(hit) < 0


def _hits(
    prepared: PreparedScene,
    camera: Camera,
    pixels: NDArray[np.int64],
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    cosines: bool = False,
) -> Hits:
    """First hits of the rays (x, y, 1) of the camera frame; none where a slope is NaN."""
    if len(pixels) == 0 or len(prepared.segment_of) == 1:
        nothing = np.full(len(pixels), np.nan)
        segment = np.zeros(len(pixels), np.uint16)
        return Hits(
            pixel=pixels, z=nothing.astype(np.float32), segment=segment,
            cosine=nothing if cosines else None,
        )  # fmt: skip
    reached = np.isfinite(x) if camera.intrinsics.distortion else None
    if reached is not None:  # Embree walks the whole tree for a NaN
        x, y = np.nan_to_num(x), np.nan_to_num(y)
    directions = _turned(camera, x, y, np.ones_like(x))
    origins = np.empty_like(directions)
    origins[:] = camera.T_world_cam[:3, 3]
    found = prepared.bvh.run(origins, directions, output=1)
    geometry = found["geomID"]
    if reached is not None:  # no ray comes out of the lens elsewhere
        geometry = np.where(reached, geometry, -1)
    return Hits(
        pixel=pixels,
        z=np.where(geometry < 0, np.float32(np.nan), found["tfar"]),
        segment=prepared.segment_of[geometry],
        normal=found["Ng"],
        face=found["primID"],
        barycentric=(found["u"], found["v"]),
        cosine=_cosine(found["Ng"], directions, geometry >= 0) if cosines else None,
    )


def _turned(
    camera: Camera, x: NDArray[np.float32], y: NDArray[np.float32], z: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(M, 3) world directions of camera directions, element by element.

    A matrix product rounds differently for another number of rays.
    """
    R = camera.T_world_cam[:3, :3].astype(np.float32)
    directions = np.empty((len(x), 3), np.float32)
    for i in range(3):
        directions[:, i] = R[i, 0] * x + R[i, 1] * y + R[i, 2] * z
    return directions


def _dot(a: NDArray[np.floating], b: NDArray[np.floating]) -> NDArray[np.float64]:
    """(M,) float64, element by element, for the same reason."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1] + a[:, 2] * b[:, 2]


def _cosine(
    normals: NDArray[np.float32], directions: NDArray[np.float32], hit: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """(M,) from Embree's unnormalised geometric normals; NaN where nothing was hit."""
    length = np.sqrt(_dot(normals, normals) * _dot(directions, directions))
    known = hit & (length > 0)
    cosine = np.abs(_dot(normals, directions)) / np.where(known, length, 1.0)
    return np.where(known, np.minimum(cosine, 1.0), np.nan)


def table_mesh(scene: Scene) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Box of `scene.table_size` whose top lies at `scene.table_pose`: (8, 3) m, (12, 3)."""
    sx, sy = scene.table_size / 2
    corners = np.array(
        [[x, y, z] for z in (-TABLE_THICKNESS, 0.0) for y in (-sy, sy) for x in (-sx, sx)]
    )
    faces = [
        [0, 2, 3], [0, 3, 1], [4, 5, 7], [4, 7, 6], [0, 1, 5], [0, 5, 4],
        [2, 6, 7], [2, 7, 3], [0, 4, 6], [0, 6, 2], [1, 3, 7], [1, 7, 5],
    ]  # fmt: skip
    vertices = transform_points(pose_to_matrix(scene.table_pose), corners)
    return vertices.astype(np.float32), np.array(faces, np.int32)


def bin_mesh(scene: Scene) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Four walls on the table around `scene.bin_size`, open above and below: (16, 3) m, (32, 3)."""
    x, y, height = scene.bin_size
    rings = [
        [[sx * (x / 2 + t), sy * (y / 2 + t), z] for sx, sy in _RING]
        for t in (0.0, BIN_WALL)
        for z in (0.0, height)
    ]
    faces: list[list[int]] = []
    # rings 0 and 1 are the inside's foot and rim, 2 and 3 the outside's
    for low, high in ((1, 0), (2, 3), (3, 1), (0, 2)):
        for i in range(4):
            a, b, c, d = (4 * low + i, 4 * low + (i + 1) % 4, 4 * high + (i + 1) % 4, 4 * high + i)
            faces += [[a, b, c], [a, c, d]]
    vertices = transform_points(pose_to_matrix(scene.table_pose), np.concatenate(rings))
    return vertices.astype(np.float32), np.array(faces, np.int32)


_RING = ((-1, -1), (1, -1), (1, 1), (-1, 1))


def grain_mesh(scene: Scene) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """All grains as one mesh of 320-sided balls, each within 1 % of its radius."""
    ball, faces = _ball()
    grains = scene.grain_positions.astype(np.float64)
    vertices = grains[:, None] + scene.grain_radius * ball
    first = len(ball) * np.arange(len(grains), dtype=np.int32)[:, None, None]
    return vertices.reshape(-1, 3).astype(np.float32), (faces + first).reshape(-1, 3)


@lru_cache(maxsize=1)
def _ball() -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Icosahedron with every face cut in 16, between the unit sphere's inside and its outside."""
    import trimesh

    mesh = trimesh.creation.icosphere(subdivisions=2)
    centres = np.linalg.norm(mesh.vertices[mesh.faces].mean(axis=1), axis=1)
    return mesh.vertices * (2 / (1 + centres.min())), mesh.faces.astype(np.int32)
