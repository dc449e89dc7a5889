"""Grasps of the objects of a scene, moved from their own world into the frame of a cloud."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.frames import invert, matrix_to_quaternion, pose_to_matrix, transform_points
from stages.shard.errors import UnknownChoiceError
from stages.shard.layout import grasps_name
from stages.shard.open import check_shard, load_commit, read_groups

Float = NDArray[np.float64]
_MESH = ("vertex_offsets", "vertices", "face_offsets", "faces")
POSES = ("pregrasp_qpos", "grasp_qpos", "squeeze_qpos")


def move_qpos(T_new_old: Float, qpos: Float) -> Float:
    """(G, 7 + J) hand qpos of the old frame -> the new one; the joints stay as they are."""
    q = matrix_to_quaternion(T_new_old[:3, :3])
    w, v = qpos[:, 3:4], qpos[:, 4:7]
    out = qpos.copy()
    out[:, :3] = transform_points(T_new_old, qpos[:, :3])
    out[:, 3:4] = q[0] * w - v @ q[1:, None]
    out[:, 4:7] = q[0] * v + w * q[1:] + np.cross(q[1:], v)
    return out


def joined_visibility(
    grasps: Mapping[str, NDArray[Any]], stored: Mapping[str, NDArray[Any]]
) -> NDArray[np.float32]:
    """(G,) share of the contact region that the cloud shows, for the grasps of `of_scene`.

    `stored` holds object_slot, grasp_index and share of more or as many grasps; NaN for others.
    """
    rows = {
        key: i
        for i, key in enumerate(
            zip(stored["object_slot"].tolist(), stored["grasp_index"].tolist(), strict=True)
        )
    }
    wanted = zip(grasps["object_slot"].tolist(), grasps["grasp_index"].tolist(), strict=True)
    found = np.array([rows.get(key, -1) for key in wanted], np.int64)
    return np.append(stored["share"], np.float32(np.nan))[found]


class GraspTable:
    """Grasps of one hand, and labels of one protocol, of one split; in memory.

    A label says what became of the grasp on the object alone, as it lay in `object_pose`: not
    among its neighbours or in grains, nor above the table on another of its faces.
    """

    def __init__(self, out: Path, split: str, hand: str, protocol: str | None = None) -> None:
        from stages.shard.backends.chunks import read_array

        commit = load_commit(out)
        if grasps_name(split) not in commit["shards"]:
            raise UnknownChoiceError("hand", hand, ())
        shard = check_shard(out, grasps_name(split), commit)
        groups = read_groups(shard)
        hands = [g.split("/")[1] for g in groups if g.startswith("grasps/")]
        if hand not in hands:
            raise UnknownChoiceError("hand", hand, hands)
        self.out, self.hand, self.protocol = out, hand, protocol
        self.hand_digest: str = groups[f"grasps/{hand}"]["hand_digest"]
        self.joint_names: tuple[str, ...] = tuple(groups[f"grasps/{hand}"]["joint_names"])
        names = ("object_index", "object_pose", "grasp_index", *POSES)
        self.arrays = {name: read_array(shard / "grasps" / hand / name) for name in names}
        self.outcome_codes: tuple[str, ...] = ()
        self.protocol_hash = ""
        if protocol is not None:
            prefix = f"labels/{hand}/"
            protocols = [g.removeprefix(prefix) for g in groups if g.startswith(prefix)]
            if protocol not in protocols:
                raise UnknownChoiceError("protocol", protocol, protocols)
            self.outcome_codes = tuple(groups[prefix + protocol]["outcome_codes"])
            self.protocol_hash = groups[prefix + protocol]["protocol_hash"]
            for name in ("labelled", "success", "outcome"):
                self.arrays[name] = read_array(shard / prefix / protocol / name)
        self._mesh = {name: read_array(shard / "objects" / name) for name in _MESH}
        self.object_ids: tuple[str, ...] = tuple(groups[""]["object_ids"])
        # Rows are sorted by object: each object's are one slice.
        index = self.arrays["object_index"]
        self.rows = {
            name: np.arange(*np.searchsorted(index, [i, i + 1]))
            for i, name in enumerate(self.object_ids)
        }
        if protocol is not None:
            kept = self.arrays["labelled"]
            self.rows = {name: rows[kept[rows]] for name, rows in self.rows.items()}

    def mesh(self, object_id: str) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """Vertices (V, 3) m, object frame, and faces (F, 3) of an object."""
        if object_id not in self.object_ids:
            raise UnknownChoiceError("object", object_id, self.object_ids)
        i, m = self.object_ids.index(object_id), self._mesh
        v, f = m["vertex_offsets"], m["face_offsets"]
        return m["vertices"][v[i] : v[i + 1]], m["faces"][f[i] : f[i + 1]]

    def of_scene(
        self, object_ids: Sequence[str], object_poses: Float, T_frame_world: Float
    ) -> dict[str, NDArray[Any]]:
        """Every grasp of a scene's objects: qpos (G, 7 + J) with the root in the frame.

        Also object_slot (G,), the object's place in the scene (segment id less 2), grasp_index
        (G,), and with a protocol success (G,) and outcome (G,), an index into outcome_codes.
        """
        parts: dict[str, list[NDArray[Any]]] = {}
        names = [*POSES, "object_slot", "grasp_index"]
        names += ["success", "outcome"] if self.protocol is not None else []
        for slot, (name, pose) in enumerate(zip(object_ids, object_poses, strict=True)):
            rows = self.rows.get(name, np.zeros(0, np.int64))
            T_frame_object = T_frame_world @ pose_to_matrix(pose)
            poses = self.arrays["object_pose"][rows]
            # One transform per distinct pose of the object, and there are few of them.
            distinct, inverse = np.unique(poses, axis=0, return_inverse=True)
            moves = [T_frame_object @ invert(pose_to_matrix(p)) for p in distinct]
            moved = {key: self.arrays[key][rows].copy() for key in POSES}
            for k, T in enumerate(moves):
                here = inverse.reshape(-1) == k
                for key in POSES:
                    moved[key][here] = move_qpos(T, moved[key][here])
            for key in names:
                if key in POSES:
                    value = moved[key]
                elif key == "object_slot":
                    value = np.full(len(rows), slot, np.int64)
                else:
                    value = self.arrays[key][rows]
                parts.setdefault(key, []).append(value)
        return {key: np.concatenate(values) for key, values in parts.items()}
