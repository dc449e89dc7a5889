"""Intel Embree through embreex: exact rays on the CPU, no GL, no Vulkan.

Ray directions have z = 1 in the camera frame, so Embree's ray parameter is the z-depth itself.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from embreex.mesh_construction import TriangleMesh
from embreex.rtcore_scene import EmbreeScene
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from schemas.camera import Camera
from schemas.frames import pose_to_matrix, transform_points
from schemas.records import FIRST_OBJECT, TABLE, ObjectAsset, Scene
from stages.crop import slopes_at
from stages.render.backends.protocol import Hits

TABLE_THICKNESS = 0.02  # m; seen only from the side
NO_HIT_SEGMENT = 0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PreparedScene:
    """One BVH for all views; `segment_of` maps Embree's geometry id to ours."""

    bvh: EmbreeScene
    segment_of: NDArray[np.uint16]
    hulls: tuple[NDArray[np.float64], ...]


class EmbreeBackend:
    """`RenderBackend` on Embree 4."""

    def prepare(self, scene: Scene, assets: Sequence[ObjectAsset]) -> PreparedScene:
        """Build the BVH; geometry is added in segment order."""
        bvh = EmbreeScene()
        segments: list[int] = []
        if scene.has_table:
            vertices, faces = table_mesh(scene)
            TriangleMesh(bvh, vertices, faces)
            segments.append(TABLE)
        hulls: list[NDArray[np.float64]] = []
        for i, (asset, pose) in enumerate(zip(assets, scene.object_poses, strict=True)):
            T_world_object = pose_to_matrix(pose)
            vertices = transform_points(T_world_object, asset.vertices).astype(np.float32)
            TriangleMesh(bvh, vertices, np.ascontiguousarray(asset.faces, np.int32))
            segments.append(FIRST_OBJECT + i)
            hulls.append(transform_points(T_world_object, _hull_points(asset)))
        # One entry more, so that "no hit" (-1) finds the background.
        segment_of = np.array([*segments, NO_HIT_SEGMENT], np.uint16)
        return PreparedScene(bvh=bvh, segment_of=segment_of, hulls=tuple(hulls))

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
        if len(pixels) == 0 or len(prepared.segment_of) == 1:
            z = np.full(len(pixels), np.nan, np.float32)
            return Hits(pixel=pixels, z=z, segment=np.zeros(len(pixels), np.uint16))
        x, y = slopes_at(pixels, K)
        reached = np.isfinite(x) if K.distortion else None
        if reached is not None:  # Embree walks the whole tree for a NaN
            x, y = np.nan_to_num(x), np.nan_to_num(y)
        R = camera.T_world_cam[:3, :3].astype(np.float32)
        # Element by element: a matrix product rounds differently for another number of rays.
        directions = np.empty((len(pixels), 3), np.float32)
        for i in range(3):
            directions[:, i] = R[i, 0] * x + R[i, 1] * y + R[i, 2]
        origins = np.empty_like(directions)
        origins[:] = camera.T_world_cam[:3, 3]
        found = prepared.bvh.run(origins, directions, output=1)
        geometry = found["geomID"]
        if reached is not None:  # no ray comes out of the lens elsewhere
            geometry = np.where(reached, geometry, -1)
        z = np.where(geometry < 0, np.float32(np.nan), found["tfar"])
        return Hits(
            pixel=pixels,
            z=z,
            segment=prepared.segment_of[geometry],
            normal=found["Ng"],
            face=found["primID"],
            barycentric=(found["u"], found["v"]),
        )


_KEPT_HULLS = 512  # of the last objects that this process rendered; a few kilobytes each
_hulls: OrderedDict[tuple[str, float], NDArray[np.float64]] = OrderedDict()


def _hull_points(asset: ObjectAsset) -> NDArray[np.float64]:
    """(n, 3) corners of the object's convex hull, object frame; kept from scene to scene."""
    key = (asset.sha256, asset.scale)
    if key not in _hulls:
        points = asset.vertices.astype(np.float64)
        _hulls[key] = points[ConvexHull(points).vertices]
        if len(_hulls) > _KEPT_HULLS:
            _hulls.popitem(last=False)
    return _hulls[key]


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
