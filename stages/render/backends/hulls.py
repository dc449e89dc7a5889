"""Polytopes around objects, whose projections say which pixels can see them."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import HalfspaceIntersection

from schemas.frames import pose_to_matrix, sphere_points, transform_points
from schemas.records import ObjectAsset, Scene

_KEPT_HULLS = 512  # of the last objects that this process rendered; a few kilobytes each
_hulls: OrderedDict[tuple[str, float], NDArray[np.float64]] = OrderedDict()
_FACES = 64  # of the polytope around an object
_SLACK = 1e-5  # m that each face lies outside: a flat object gets a body, rounding is covered


def object_hulls(scene: Scene, assets: Sequence[ObjectAsset]) -> tuple[NDArray[np.float64], ...]:
    """Per object, (n, 3) world points whose convex hull contains it."""
    return tuple(
        transform_points(pose_to_matrix(pose), _hull_points(asset))
        for asset, pose in zip(assets, scene.object_poses, strict=True)
    )


def _hull_points(asset: ObjectAsset) -> NDArray[np.float64]:
    """(n, 3) corners of a polytope around the object, object frame; kept from scene to scene.

    Not its convex hull, which may have thousands of corners to project in every view, but the
    planes that touch it in _FACES directions: a tenth of the corners, a few more pixels.
    """
    key = (asset.sha256, asset.scale)
    if key not in _hulls:
        points = asset.vertices.astype(np.float64)
        normals = sphere_points(_FACES)
        offsets = (points @ normals.T).max(axis=0) + _SLACK
        planes = np.column_stack([normals, -offsets])
        _hulls[key] = HalfspaceIntersection(planes, points.mean(axis=0)).intersections
        if len(_hulls) > _KEPT_HULLS:
            _hulls.popitem(last=False)
    return _hulls[key]
