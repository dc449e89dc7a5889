"""How much of each object the grains hide, measured by rays to the open sky.

Places spread evenly over an object look in directions spread evenly over the upper half space. A
place's share is how many of the directions that the objects leave open the grains leave open too.
"""

from collections.abc import Sequence

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from schemas.frames import pose_to_matrix, sphere_points, transform_points
from schemas.records import ObjectAsset
from stages.assets.places import even_places, surface_area
from stages.scene.granular.device import MODULE_OPTIONS, start

wp.set_module_options(MODULE_OPTIONS)

Float = NDArray[np.float64]
PLACES = 1000  # per object
DIRECTIONS = 64
OFF_SURFACE = 1e-4  # m from the surface, where rays start
FAR = 10.0  # m


@wp.kernel
def look(
    origin: wp.array(dtype=wp.vec3),
    normal: wp.array(dtype=wp.vec3),
    direction: wp.array(dtype=wp.vec3),
    mesh: wp.uint64,
    tree: wp.uint64,
    centre: wp.array(dtype=wp.vec3),
    radius: float,
    far: float,
    seen: wp.array2d(dtype=wp.int8),
):
    """0 blocked by an object, 1 by grains alone, 2 open."""
    i, d = wp.tid()
    ray = direction[d]
    result = int(0)
    if wp.dot(ray, normal[i]) > 0.0:
        found = wp.mesh_query_ray(mesh, origin[i], ray, far)
        if not found.result:
            result = int(2)
            near = wp.bvh_query_ray(tree, origin[i], ray)
            g = int(0)
            while wp.bvh_query_next(near, g):
                to = centre[g] - origin[i]
                along = wp.dot(to, ray)
                beside = wp.length_sq(to) - along * along
                inside = wp.length_sq(to) < radius * radius
                if inside or (along > 0.0 and beside < radius * radius):
                    result = 1
    seen[i, d] = wp.int8(result)


def exposure(
    assets: Sequence[ObjectAsset],
    poses: Float,
    grains: ArrayLike,
    radius: float,
    device: str = "cpu",
) -> tuple[Float, Float]:
    """Buried fraction (O,) and exposed area (O,), m^2, of objects in grains.

    `poses` (O, 7) are the objects', `grains` (G, 3) the centres, m, both in the world.

    Buried fraction: the share that grains take from the open directions of the surface that sees
    the sky without them; 0 without grains, 1 when nothing looks out. Exposed area: that surface's
    area, each place by its open share.
    """
    start()
    centres = np.ascontiguousarray(grains, np.float32).reshape(-1, 3)
    worlds: list[NDArray[np.float32]] = []
    faces: list[NDArray[np.int32]] = []
    first = 0
    for asset, pose in zip(assets, poses, strict=True):
        worlds.append(transform_points(pose_to_matrix(pose), asset.vertices).astype(np.float32))
        faces.append(asset.faces.astype(np.int32) + first)
        first += len(asset.vertices)
    ball = sphere_points(2 * DIRECTIONS)
    up = ball[ball[:, 2] > 0].astype(np.float32)
    buried, exposed = np.zeros(len(assets)), np.zeros(len(assets))
    with wp.ScopedDevice(device):
        mesh = wp.Mesh(
            points=wp.array(np.concatenate(worlds), dtype=wp.vec3),
            indices=wp.array(np.concatenate(faces).reshape(-1), dtype=int),
        )
        # a tree needs a leaf: without grains, one that no ray meets
        leaves = centres if len(centres) else np.full((1, 3), -FAR, np.float32)
        tree = wp.Bvh(
            wp.array(leaves - radius, dtype=wp.vec3), wp.array(leaves + radius, dtype=wp.vec3)
        )
        for i, asset in enumerate(assets):
            points, face = even_places(asset.vertices, asset.faces, PLACES)
            a, b, c = (asset.vertices[asset.faces[face, k]].astype(np.float64) for k in range(3))
            normal = np.cross(b - a, c - a)
            normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
            T = pose_to_matrix(poses[i])
            normal = normal @ T[:3, :3].T
            origin = transform_points(T, points) + OFF_SURFACE * normal
            seen = wp.zeros((PLACES, len(up)), dtype=wp.int8)
            inputs = [
                wp.array(origin.astype(np.float32), dtype=wp.vec3),
                wp.array(normal.astype(np.float32), dtype=wp.vec3),
                wp.array(up, dtype=wp.vec3),
                mesh.id, tree.id, wp.array(leaves, dtype=wp.vec3), radius, FAR,
            ]  # fmt: skip
            wp.launch(look, dim=(PLACES, len(up)), inputs=inputs, outputs=[seen])
            codes = seen.numpy()
            without, within = (codes > 0).sum(axis=1), (codes == 2).sum(axis=1)
            looks = without > 0
            share = within[looks] / without[looks]
            area = surface_area(asset.vertices, asset.faces)
            exposed[i] = area * share.sum() / PLACES
            buried[i] = 1 - within.sum() / without.sum() if looks.any() else 1.0
    return buried, exposed
