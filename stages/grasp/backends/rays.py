"""First hits on one mesh, through Embree."""

import numpy as np
from embreex.mesh_construction import TriangleMesh
from embreex.rtcore_scene import EmbreeScene
from numpy.typing import NDArray

from schemas.records import ObjectAsset
from stages.grasp.surface import face_normals

Float = NDArray[np.float64]


class MeshRays:
    """Rays in the object frame."""

    def __init__(self, asset: ObjectAsset) -> None:
        self._bvh = EmbreeScene()
        TriangleMesh(self._bvh, asset.vertices, np.ascontiguousarray(asset.faces, np.int32))
        self._normals = face_normals(asset.vertices, asset.faces)

    def first_hit(self, origin: Float, direction: Float) -> tuple[float, Float] | None:
        """Distance (m, for a unit `direction`) and outward unit normal of the first hit."""
        found = self._bvh.run(
            np.asarray(origin, np.float32)[None], np.asarray(direction, np.float32)[None], output=1
        )
        face = int(found["primID"][0])
        if face < 0:
            return None
        return float(found["tfar"][0]), self._normals[face]
