"""GraspGen (Murali et al. 2025, github.com/NVlabs/GraspGen, docs/GRASP_DATASET_FORMAT.md): `.json`.

    {"object": {"file": <relative path>, "scale": <multiplies the mesh>},
     "grasps": {"transforms": [<4x4, object <- gripper base link, m>, ...],
                "object_in_gripper": [<bool>, ...]}}

The file does not name its gripper; this module takes it for the Franka Panda
(`grasp_data/franka_panda` of the published dataset). Its base link is panda_hand, whose fingers
close along y. The convention of docs/GRIPPER_DESCRIPTION.md, approach along z and closing along x,
is that of the network: GraspGen's loader gets there by multiplying each transform of a file with
the gripper's `transform_offset_from_asset_to_graspgen_convention`, for the Panda Rz(-90 degrees)
(config/grippers/franka_panda.yaml; load_object_grasp_data in grasp_gen/dataset/dataset_utils.py).
Poses that the network gives out are in the convention: multiply those by Rz(+90 degrees) first.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schemas.files import read_json
from stages.assets.hands.spec import HandSpec
from stages.grasp.errors import GraspFormatError
from stages.grasp.formats.checks import member, object_scale, rigid_transforms, success_flags
from stages.grasp.formats.jaw import jaw_grasps, pandahand_poses
from stages.grasp.formats.record import ImportedGrasps, only_set
from stages.storage import write_bytes


def read_graspgen(path: Path, hand: HandSpec) -> list[ImportedGrasps]:
    """One set for a parallel jaw; `object_in_gripper` may be missing, as for predicted grasps.

    Raises GraspFormatError for missing keys, wrong shapes, NaN, transforms that are not rigid, and
    hands that are not jaws.
    """
    try:
        values = read_json(path)
    except ValueError as error:
        raise GraspFormatError(
            path,
            "the file",
            expected="JSON",
            got=str(error),
            fix="check that the download is complete",
        ) from error
    object_file = str(member(path, values, "object", "file"))
    listed = member(path, values, "grasps", "transforms")
    T_object_pandahand = rigid_transforms(path, "grasps/transforms", listed)
    success, flags = None, values["grasps"].get("object_in_gripper")
    if flags is not None:
        success = success_flags(path, "grasps/object_in_gripper", flags, len(T_object_pandahand))
    object_id = Path(object_file).stem or path.stem
    return [
        ImportedGrasps(
            grasps=jaw_grasps(path, hand, object_id, T_object_pandahand),
            scale=object_scale(path, member(path, values, "object", "scale")),
            object_file=object_file,
            success=success,
        )
    ]


def write_graspgen(path: Path, sets: Sequence[ImportedGrasps], hand: HandSpec) -> None:
    """One set; the joints are not written.

    Raises GraspFormatError for more than one set and for hands that are not jaws.
    """
    imported = only_set(path, sets)
    transforms = pandahand_poses(path, hand, imported.grasps).tolist()
    grasps: dict[str, Any] = {"transforms": transforms}
    if imported.success is not None:
        grasps["object_in_gripper"] = imported.success.tolist()
    file = imported.object_file or imported.grasps.object_id
    values = {"object": {"file": file, "scale": imported.scale}, "grasps": grasps}
    write_bytes(path, json.dumps(values).encode())
