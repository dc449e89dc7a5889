"""Is the content of one shard what the field dictionary and geometry say? All problems at once.

The same check runs before a shard is written and on what `verify` reads back from the disk.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from schemas.dataset import CLOUD_FIELDS, GRASP_FIELDS, field_of
from schemas.errors import SchemaError
from schemas.frames import ROTATION_TOLERANCE
from stages.shard.arrays import ShardArrays

Array = NDArray[Any]

REQUIRED = {name for name, field in CLOUD_FIELDS.items() if not field.optional}
GRAINS = "scenes/grain_position"
UNIT = 1e-5
"""How far the length of a float32 normal may be off 1."""

IMAGE_MARGIN = 1.0
"""Pixels a point may project outside its image: float32 and voxel means, never a wrong frame."""


def check_content(content: ShardArrays) -> list[str]:
    """Everything wrong with one shard: dtype, shape, range, poses, offsets, reprojection."""
    try:
        problems = _check_schema(content.arrays)
    except SchemaError as error:
        return [str(error)]
    kind = content.groups[""].get("kind")
    if kind == "clouds" and (missing := sorted(REQUIRED - set(content.arrays))):
        problems.append(f"missing arrays {missing}")
    if kind == "grasps":
        problems += _missing_columns(content)
    if problems:
        return problems  # geometry of arrays of a wrong shape would only raise
    for name, array in content.arrays.items():
        problems += _check_poses(name, array)
    problems += _check_strings(content)
    if kind == "clouds":
        problems += _check_clouds(content)
    if kind == "grasps":
        problems += _check_offsets(
            content.arrays,
            {
                "objects/vertex_offsets": "objects/vertices",
                "objects/face_offsets": "objects/faces",
            },
        )
    return problems


def _check_poses(name: str, array: Array) -> list[str]:
    if name == "T_world_cam":
        R = array[:, :3, :3]
        error = np.abs(R @ R.transpose(0, 2, 1) - np.eye(3)).max(initial=0.0)
        if error > ROTATION_TOLERANCE or (np.linalg.det(R) < 0).any():
            return [f"{name}: a rotation is not orthonormal and right-handed (error {error:.1e})"]
        if (array[:, 3] != (0, 0, 0, 1)).any():
            return [f"{name}: a last row is not [0 0 0 1]"]
    if name.endswith(("_pose", "_qpos")):
        norm = np.linalg.norm(array[:, 3:7], axis=1)
        known = ~np.isnan(norm) | (not name.startswith("labels/"))
        error = np.abs(norm[known] - 1).max(initial=0.0)
        if not error <= ROTATION_TOLERANCE:
            return [f"{name}: a quaternion (wxyz) is not of unit norm, off by {error:.1e}"]
    return []


def _missing_columns(content: ShardArrays) -> list[str]:
    """A hand or protocol has all its columns or none; their lengths were compared before."""
    problems: list[str] = []
    for group in sorted({"objects", *content.groups}):
        depth = group.count("/")
        if group == "objects" or (group.split("/")[0], depth) in (("grasps", 1), ("labels", 2)):
            pattern = "/".join([group.split("/")[0]] + ["*"] * depth) + "/"
            columns = [
                name.removeprefix(pattern)
                for name, field in GRASP_FIELDS.items()
                if name.startswith(pattern) and not field.optional
            ]
            missing = [c for c in columns if f"{group}/{c}" not in content.arrays]
            if missing:
                problems.append(f"{group}: missing columns {missing}")
    return problems


def _check_offsets(arrays: Mapping[str, Array], targets: Mapping[str, str]) -> list[str]:
    problems: list[str] = []
    for name, target in targets.items():
        offsets, end = arrays[name], len(arrays[target])
        if offsets[0] != 0 or offsets[-1] != end or (np.diff(offsets) < 0).any():
            problems.append(f"{name}: expected to rise from 0 to {end}, the length of {target}")
    return problems


def _check_strings(content: ShardArrays) -> list[str]:
    problems: list[str] = []
    for name, array in content.arrays.items():
        attribute = field_of(name).strings
        if not attribute or not array.size:
            continue
        group = name.rpartition("/")[0] if name.startswith("labels/") else ""
        strings = content.groups.get(group, {}).get(attribute, [])
        if array.max() >= len(strings):
            problems.append(
                f"{name}: index {array.max()}, but {attribute} holds {len(strings)} names"
            )
    return problems


def _check_clouds(content: ShardArrays) -> list[str]:
    arrays = content.arrays
    problems: list[str] = []
    problems += _check_offsets(
        arrays,
        {"cloud_offsets": "points", "scenes/object_offsets": "scenes/object_index"}
        | ({"scenes/grain_offsets": "scenes/grain_position"} if GRAINS in arrays else {})
        | {f"{g}/row_offsets": f"{g}/share" for g in content.groups if g.startswith("visibility/")},
    )
    if len(content.groups[""].get("scene_ids", ())) != len(arrays["scenes/table_pose"]):
        problems.append("scene_ids: not as many names as scenes")
    if problems:
        return problems
    if "normals" in arrays and len(arrays["normals"]):
        length = np.linalg.norm(arrays["normals"].astype(np.float64), axis=1)
        if not (error := np.abs(length - 1).max()) <= UNIT:
            return [f"normals: a normal is not of unit length, off by {error:.1e}"]
    frame = content.groups[""].get("frame")
    if frame not in ("camera", "world"):
        return [f"frame: expected camera or world, got {frame!r}"]
    offsets = arrays["cloud_offsets"]
    for c, scene in enumerate(arrays["cloud_scene"]):
        points = arrays["points"][offsets[c] : offsets[c + 1]].astype(np.float64)
        place = f"cloud {c} ({content.groups['']['scene_ids'][scene]} view {arrays['view'][c]})"
        if arrays["valid_count"][c] == 0 and len(points):
            problems.append(f"{place}: valid_count is 0, but it has {len(points)} points")
        lens = arrays["distortion"][c] if "distortion" in arrays else ()
        K = Intrinsics.from_array(arrays["intrinsics"][c], lens)
        outside = _outside(points, K, arrays["T_world_cam"][c], frame)
        if outside:
            problems.append(
                f"{place}: {outside} of {len(points)} points project outside the image or lie "
                f"behind the camera; are they really in the {frame} frame?"
            )
    return problems


def _outside(points: Array, K: Intrinsics, T_world_cam: Array, frame: str) -> int:
    """How many (N, 3) points fall outside the image of the camera, with IMAGE_MARGIN."""
    if frame == "world":
        points = (points - T_world_cam[:3, 3]) @ T_world_cam[:3, :3]
    u, v = K.project(points).T
    m = IMAGE_MARGIN
    inside = (u >= -m) & (u <= K.width + m) & (v >= -m) & (v <= K.height + m)
    return int((~inside).sum())


def _check_schema(arrays: Mapping[str, Array]) -> list[str]:
    """Everything that breaks the field dictionary: dtype, shape, sizes that disagree, range."""
    problems: list[str] = []
    sizes: dict[str, tuple[int, str]] = {}
    for name, array in arrays.items():
        field = field_of(name)
        if array.dtype.name != field.dtype:
            problems.append(f"{name}: expected dtype {field.dtype}, got {array.dtype.name}")
            continue
        if array.ndim != len(field.shape):
            problems.append(f"{name}: expected shape {field.shape}, got {array.shape}")
            continue
        for want, got in zip(field.shape, array.shape, strict=True):
            if isinstance(want, int):
                if want != got:
                    problems.append(f"{name}: expected shape {field.shape}, got {array.shape}")
                continue
            # Grasps of two hands are two dimensions; "scene+1" must be one more than "scene".
            base, extra = want.removesuffix("+1"), int(want.endswith("+1"))
            scope = "/".join(name.split("/")[1:2]) if base in ("grasp", "qpos", "seen") else ""
            seen, where = sizes.setdefault(f"{base}@{scope}", (got - extra, name))
            if seen != got - extra:
                problems.append(f"{name}: {got - extra} {base}s, but {where} has {seen}")
        problems += _check_values(name, array, field.low, field.high, field.no_data)
    return problems


def _check_values(
    name: str, array: Array, low: float | None, high: float | None, no_data: str
) -> list[str]:
    if array.dtype == bool or not array.size:
        return []
    problems: list[str] = []
    if np.isinf(array).any() or (no_data != "NaN" and np.isnan(array).any()):
        problems.append(f"{name}: holds NaN or infinity")
    if low is not None and (array < low).any():
        problems.append(f"{name}: smallest value {array.min()}, expected >= {low}")
    if high is not None and (array > high).any():
        problems.append(f"{name}: largest value {array.max()}, expected <= {high}")
    return problems
