"""The scene of a stored cloud as rays need it, from the shards alone."""

from typing import Any

import numpy as np

from pipeline.errors import CannotDrawError
from schemas.records import ObjectAsset, Scene
from stages.shard.clouds import CloudTable
from stages.shard.layout import grasps_name
from stages.shard.open import check_shard, read_groups

_MESH = ("vertex_offsets", "vertices", "face_offsets", "faces")


def scene_of(table: CloudTable, index: int) -> tuple[Scene, list[ObjectAsset]]:
    """Scene and meshes of cloud `index`; raises CannotDrawError when a mesh is not stored.

    The assets hold vertices and faces only: no pieces, no mass.
    """
    from stages.shard.backends.chunks import read_array

    name, row = table.index.place(index)
    shard = check_shard(table.out, name, table.commit)
    about = table.about(index)
    number = int(read_array(shard / "cloud_scene")[row])
    ids = about["object_ids"]
    scene = Scene(
        scene_id=about["scene_id"],
        kind="",
        split=table.split,
        object_ids=ids,
        object_poses=about["object_poses"],
        object_scales=np.ones(len(ids)),
        object_masses=np.ones(len(ids)),
        table_pose=read_array(shard / "scenes/table_pose")[number],
        table_size=read_array(shard / "scenes/table_size")[number],
        settle_time=0.0,
    )
    meshes = _meshes(table)
    lacking = [name for name in ids if name not in meshes]
    if lacking:
        raise CannotDrawError(f"no mesh of {', '.join(lacking)} in the dataset: no hand grasps it")
    return scene, [_asset(name, *meshes[name]) for name in ids]


def _meshes(table: CloudTable) -> dict[str, tuple[Any, Any]]:
    """Object id -> vertices (V, 3) m, object frame, and faces (F, 3)."""
    from stages.shard.backends.chunks import read_array

    if grasps_name(table.split) not in table.commit["shards"]:
        return {}
    shard = check_shard(table.out, grasps_name(table.split), table.commit)
    m = {name: read_array(shard / "objects" / name) for name in _MESH}
    v, f = m["vertex_offsets"], m["face_offsets"]
    ids = read_groups(shard)[""]["object_ids"]
    found = {
        name: (m["vertices"][v[i] : v[i + 1]], m["faces"][f[i] : f[i + 1]])
        for i, name in enumerate(ids)
    }
    return {name: mesh for name, mesh in found.items() if len(mesh[1])}


def _asset(name: str, vertices: Any, faces: Any) -> ObjectAsset:
    none, no_offsets = np.zeros((0, 3)), np.zeros(1, np.int64)
    return ObjectAsset(
        object_id=name, source="", licence="", sha256=name, scale=1.0, vertices=vertices,
        faces=faces, piece_vertices=none.astype(np.float32), piece_faces=none.astype(np.int32),
        piece_vertex_offsets=no_offsets, piece_face_offsets=no_offsets, volume=0.0, density=0.0,
        mass=0.0, center_of_mass=np.zeros(3), inertia=np.zeros((3, 3)),
        stable_poses=np.zeros((0, 7)), stable_probabilities=np.zeros(0), notes="",
    )  # fmt: skip
