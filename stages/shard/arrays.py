"""Records -> the arrays of one shard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.dataset import field_of
from schemas.records import Cloud, GraspSet, LabelSet, ObjectAsset, Scene
from stages.shard.errors import ShardContentError
from stages.shard.visibility import Regions, visibility_arrays

Array = NDArray[Any]

_LABEL_NUMBERS = (
    "translation", "rotation", "contacts_grasp", "contacts_squeeze", "contacts_end",
    "hand_object_penetration", "self_penetration", "contact_number", "contact_distance",
    "contact_consistency", "qp", "qp_dfc", "q1", "tdg", "dfc", "confidence",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ShardArrays:
    """Arrays by path in the shard, and the attributes of its groups ("" is the root)."""

    arrays: dict[str, Array]
    groups: dict[str, dict[str, Any]]


def _offsets(counts: Sequence[int]) -> Array:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def _joined(parts: Sequence[Array], dtype: str, tail: tuple[int, ...]) -> Array:
    if not parts:
        return np.zeros((0, *tail), dtype)
    return np.concatenate([np.asarray(part).reshape(-1, *tail) for part in parts]).astype(
        dtype, casting="same_kind"
    )


def cloud_arrays(
    scenes: Sequence[Scene],
    clouds: Sequence[Sequence[Cloud]],
    split: str,
    regions: Mapping[str, Regions] | None = None,
    grains: bool = False,
) -> ShardArrays:
    """Arrays of one shard; `clouds[i]` are those of `scenes[i]`. Both come sorted.

    `regions`: by hand, the contact regions whose visibility is stored; None stores none.
    `grains`: some scene of the dataset has grains, so every shard says which of its own have.
    """
    flat = [cloud for of_scene in clouds for cloud in of_scene]
    frames = {cloud.frame for cloud in flat}
    if len(frames) > 1:
        raise ShardContentError(f"clouds in several frames {sorted(frames)}; choose one per run")
    for cloud in flat:
        if len(cloud.points) != len(cloud.segment):
            raise ShardContentError(
                f"{cloud.scene_id} view {cloud.view}: {len(cloud.points)} points but "
                f"{len(cloud.segment)} segment ids"
            )
    object_ids = sorted({name for scene in scenes for name in scene.object_ids})
    index = {name: i for i, name in enumerate(object_ids)}
    arrays: dict[str, Array] = {
        "points": _joined([c.points for c in flat], "float32", (3,)),
        "segment": _joined([c.segment for c in flat], "uint16", ()),
        "cloud_offsets": _offsets([len(c.points) for c in flat]),
        "cloud_scene": np.repeat(np.arange(len(scenes), dtype=np.int32), [len(c) for c in clouds]),
        "view": np.array([c.view for c in flat], np.int32),
        "valid_count": np.array([c.valid_count for c in flat], np.int64),
        "intrinsics": _joined([c.intrinsics for c in flat], "float64", (6,)),
        "T_world_cam": _joined([c.T_world_cam[None] for c in flat], "float64", (4, 4)),
        "scenes/object_offsets": _offsets([len(s.object_ids) for s in scenes]),
        "scenes/object_index": np.array(
            [index[name] for s in scenes for name in s.object_ids], np.int32
        ),
        "scenes/object_pose": _joined([s.object_poses for s in scenes], "float64", (7,)),
        "scenes/object_scale": _joined([s.object_scales for s in scenes], "float64", ()),
        "scenes/object_mass": _joined([s.object_masses for s in scenes], "float64", ()),
        "scenes/table_pose": _joined([s.table_pose for s in scenes], "float64", (7,)),
        "scenes/table_size": _joined([s.table_size for s in scenes], "float64", (2,)),
        "scenes/settle_time": np.array([s.settle_time for s in scenes], np.float64),
    }
    arrays |= _optional_arrays(flat) | (_grain_arrays(scenes) if grains else {})
    groups: dict[str, dict[str, Any]] = {"scenes": {}} | ({} if not regions else {"visibility": {}})
    for hand, of_hand in sorted((regions or {}).items()):
        found, groups[f"visibility/{hand}"] = visibility_arrays(scenes, clouds, of_hand)
        arrays |= {f"visibility/{hand}/{name}": array for name, array in found.items()}
    root: dict[str, Any] = {
        "kind": "clouds",
        "split": split,
        "frame": frames.pop() if frames else "camera",
        "quaternion_order": "wxyz",
        "scene_ids": [s.scene_id for s in scenes],
        "scene_kinds": [s.kind for s in scenes],
        "object_ids": object_ids,
    }
    return ShardArrays(arrays=arrays, groups={"": root, **groups})


def _optional_arrays(clouds: Sequence[Cloud]) -> dict[str, Array]:
    """`normals`, `colour`, `distortion` and `depth_step`, each when some cloud has it."""
    out: dict[str, Array] = {}
    for name in ("normals", "colour"):
        parts: list[Array] = [getattr(cloud, name) for cloud in clouds]
        if not any(map(len, parts)):
            continue
        for cloud, part in zip(clouds, parts, strict=True):
            if len(part) != len(cloud.points):
                raise ShardContentError(
                    f"{cloud.scene_id} view {cloud.view}: {len(cloud.points)} points but "
                    f"{len(part)} {name}; other clouds have them, so all must"
                )
        out[name] = _joined(parts, field_of(name).dtype, (3,))
    if any(len(cloud.distortion) for cloud in clouds):
        parts = [c.distortion if len(c.distortion) else np.zeros(6) for c in clouds]
        out["distortion"] = _joined(parts, "float64", (6,))
    if any(cloud.depth_step for cloud in clouds):
        out["depth_step"] = np.array([cloud.depth_step for cloud in clouds], np.float64)
    return out


def _grain_arrays(scenes: Sequence[Scene]) -> dict[str, Array]:
    """What scenes with grains have more, and no data for the others."""

    def placed(name: str) -> Array:
        return np.concatenate(
            [getattr(s, name) if s.has_grains else np.full(len(s.object_ids), np.nan)
             for s in scenes]
        )  # fmt: skip

    return {
        "scenes/buried_fraction": placed("buried_fraction"),
        "scenes/exposed_area": placed("exposed_area"),
        "scenes/grain_offsets": _offsets([len(s.grain_positions) for s in scenes]),
        "scenes/grain_position": _joined([s.grain_positions for s in scenes], "float32", (3,)),
        "scenes/grain_radius": np.array([s.grain_radius for s in scenes], np.float64),
        "scenes/bin_size": np.array(
            [s.bin_size if s.has_grains else np.zeros(3) for s in scenes], np.float64
        ),
    }


def grasp_arrays(
    grasps: Sequence[GraspSet],
    labels: Sequence[LabelSet],
    assets: Mapping[str, ObjectAsset],
    split: str,
) -> ShardArrays:
    """Grasps and labels of the objects of one split, by hand, object id and grasp index."""
    object_ids = sorted({g.object_id for g in grasps})
    number = {name: i for i, name in enumerate(object_ids)}
    used = [assets[name] for name in object_ids]
    arrays: dict[str, Array] = {
        "objects/vertex_offsets": _offsets([len(a.vertices) for a in used]),
        "objects/vertices": _joined([a.vertices for a in used], "float32", (3,)),
        "objects/face_offsets": _offsets([len(a.faces) for a in used]),
        "objects/faces": _joined([a.faces for a in used], "int32", (3,)),
    }
    groups: dict[str, dict[str, Any]] = {
        "": {"kind": "grasps", "split": split, "quaternion_order": "wxyz",
             "object_ids": object_ids},
        "grasps": {}, "labels": {}, "objects": {},
    }  # fmt: skip
    for hand in sorted({g.hand for g in grasps}):
        # Insertion order of equal keys must not matter: grasp_index breaks the tie, then rows.
        sets = sorted((g for g in grasps if g.hand == hand and len(g)), key=_grasp_key)
        kinds = {(g.hand_digest, g.joint_names) for g in grasps if g.hand == hand}
        if len(kinds) > 1:
            raise ShardContentError(
                f"hand {hand!r}: grasps made with {len(kinds)} different versions of the hand; "
                "their joints cannot share a column, give one of them another name"
            )
        digest, joints = kinds.pop()
        width = 7 + len(joints)
        where = f"grasps/{hand}"
        groups[where] = {"hand_digest": digest, "joint_names": list(joints)}
        rows = {
            "object_index": _joined(
                [np.full(len(g), number[g.object_id], np.int32) for g in sets], "int32", ()
            ),
            "object_pose": _joined(
                [np.tile(g.object_pose, (len(g), 1)) for g in sets], "float64", (7,)
            ),
            **{
                name: _joined([getattr(g, name) for g in sets], "float64", (width,))
                for name in ("pregrasp_qpos", "grasp_qpos", "squeeze_qpos")
            },
            "grasp_index": _joined([g.grasp_index for g in sets], "int64", ()),
        }
        keys = list(zip(rows["object_index"].tolist(), rows["grasp_index"].tolist(), strict=True))
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
        ordered = [keys[i] for i in order]
        for one, two in pairwise(ordered):
            if one == two:
                raise ShardContentError(
                    f"hand {hand!r}, object {object_ids[one[0]]!r}: grasp {one[1]} comes twice"
                )
        arrays |= {f"{where}/{name}": array[order] for name, array in rows.items()}
        row_of = {(object_ids[o], g): row for row, (o, g) in enumerate(ordered)}
        mine = [label for label in labels if label.hand == hand]
        if mine:
            groups[f"labels/{hand}"] = {}
        for protocol in sorted({label.protocol for label in mine}):
            some = [label for label in mine if label.protocol == protocol]
            columns, attributes = _label_columns(some, row_of)
            groups[f"labels/{hand}/{protocol}"] = attributes
            arrays |= {f"labels/{hand}/{protocol}/{n}": a for n, a in columns.items()}
    return ShardArrays(arrays=arrays, groups=groups)


def _grasp_key(grasps: GraspSet) -> tuple[str, int]:
    return grasps.object_id, int(grasps.grasp_index[0])


def _label_columns(
    labels: Sequence[LabelSet], row_of: Mapping[tuple[str, int], int]
) -> tuple[dict[str, Array], dict[str, Any]]:
    first = labels[0]
    kinds = {(label.protocol_hash, label.engine) for label in labels}
    if len(kinds) > 1:
        raise ShardContentError(
            f"labels {first.hand}/{first.protocol}: made by {sorted(kinds)}; labels of different "
            "protocols or engines never share a column, label again with one of them"
        )
    count = len(row_of)
    codes = sorted({str(code) for label in labels for code in np.unique(label.outcome)})
    code_of = {code: i for i, code in enumerate(codes)}
    columns: dict[str, Array] = {
        "labelled": np.zeros(count, bool),
        "success": np.zeros(count, bool),
        "outcome": np.full(count, -1, np.int32),
        "direction_success": np.zeros((count, 6), bool),
        "final_object_pose": np.full((count, 7), np.nan),
    }
    for name in _LABEL_NUMBERS:
        counted = field_of(f"labels/*/*/{name}").dtype == "int32"
        columns[name] = np.full(count, -1, np.int32) if counted else np.full(count, np.nan)
    numbers = [*_LABEL_NUMBERS]
    if any(len(label.lift) for label in labels):
        numbers.append("lift")
        columns["lift"] = np.full(count, np.nan)
    for label in labels:
        ids = [(label.object_id, int(g)) for g in label.grasp_index]
        unknown = [g for o, g in ids if (o, g) not in row_of]
        if unknown:
            raise ShardContentError(
                f"labels {label.hand}/{label.protocol}, object {label.object_id!r}: no grasp "
                f"{unknown[:5]}; label the grasps that are being written"
            )
        rows = np.array([row_of[key] for key in ids], np.int64)
        if columns["labelled"][rows].any() or len(set(ids)) < len(ids):
            raise ShardContentError(
                f"labels {label.hand}/{label.protocol}, object {label.object_id!r}: a grasp is "
                "labelled twice"
            )
        columns["labelled"][rows] = True
        columns["outcome"][rows] = [code_of[str(code)] for code in label.outcome]
        for name in ("success", "direction_success", "final_object_pose", *numbers):
            columns[name][rows] = getattr(label, name)
    attributes = {
        "protocol": first.protocol, "protocol_hash": first.protocol_hash,
        "engine": first.engine, "outcome_codes": codes,
        "seeds": {f"{label.object_id}/{int(label.grasp_index[0])}": int(label.seed)
                  for label in labels if len(label.grasp_index)},
    }  # fmt: skip
    return columns, attributes
