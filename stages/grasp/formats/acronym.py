"""ACRONYM (Eppner et al. 2021, github.com/NVlabs/acronym): `.h5`.

| dataset | what |
|---|---|
| `grasps/transforms` | (G, 4, 4) object <- gripper, m; the published files hold 2000 |
| `grasps/qualities/flex/object_in_gripper` | (G,) 0 or 1: held after closing and shaking |
| `object/file` | mesh, e.g. `meshes/Mug/<id>.obj` |
| `object/scale` | multiplies the mesh |

The gripper is the Franka Panda's, in a frame of its own: the origin of panda_hand, but the fingers
close along x, where panda_hand's close along y.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stages.assets.hands.spec import HandSpec
from stages.grasp.errors import GraspFormatError
from stages.grasp.formats.checks import object_scale, rigid_transforms, success_flags
from stages.grasp.formats.jaw import jaw_grasps, pandahand_poses
from stages.grasp.formats.record import ImportedGrasps, only_set
from stages.storage import write_bytes

TRANSFORMS = "grasps/transforms"
SUCCESS = "grasps/qualities/flex/object_in_gripper"
FILE, SCALE = "object/file", "object/scale"
# Rz(+90 degrees): panda_hand in their gripper frame
T_ACRONYM_PANDAHAND = np.array(
    [[0.0, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
)


def read_acronym(path: Path, hand: HandSpec) -> list[ImportedGrasps]:
    """One set for a parallel jaw; `object_in_gripper` may be missing.

    Raises GraspFormatError for missing datasets, wrong shapes, NaN, transforms that are not rigid,
    and hands that are not jaws.
    """
    values = _datasets(path)
    for name in (TRANSFORMS, SCALE):
        if name not in values:
            raise GraspFormatError(
                path,
                "the file",
                expected=f"the dataset {name!r}",
                got=f"{sorted(values)}",
                fix="check that the file is of the format it is read as",
            )
    T_object_acronym = rigid_transforms(path, TRANSFORMS, values[TRANSFORMS])
    success = None
    if SUCCESS in values:
        success = success_flags(path, SUCCESS, values[SUCCESS], len(T_object_acronym))
    name = values.get(FILE, "")
    object_file = name.decode() if isinstance(name, bytes) else str(name)
    object_id = Path(object_file).stem or path.stem
    return [
        ImportedGrasps(
            grasps=jaw_grasps(path, hand, object_id, T_object_acronym @ T_ACRONYM_PANDAHAND),
            scale=object_scale(path, values[SCALE]),
            object_file=object_file,
            success=success,
        )
    ]


def write_acronym(path: Path, sets: Sequence[ImportedGrasps], hand: HandSpec) -> None:
    """One set; the joints, and the object's mass, density and friction, are not written.

    Raises GraspFormatError for more than one set and for hands that are not jaws.
    """
    import h5py

    imported = only_set(path, sets)
    T_object_pandahand = pandahand_poses(path, hand, imported.grasps)
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file[TRANSFORMS] = T_object_pandahand @ T_ACRONYM_PANDAHAND.T  # a rotation alone
        if imported.success is not None:
            file[SUCCESS] = imported.success.astype(np.int64)
        file[FILE] = imported.object_file or imported.grasps.object_id
        file[SCALE] = imported.scale
    write_bytes(path, out.getvalue())


def _datasets(path: Path) -> dict[str, Any]:
    """The datasets that the reader uses, those that are there."""
    import h5py

    with path.open("rb") as file:  # FileNotFoundError of its own, not HDF5's
        try:
            with h5py.File(file, "r") as h5:
                found = {name: h5.get(name) for name in (TRANSFORMS, SUCCESS, FILE, SCALE)}
                return {n: d[()] for n, d in found.items() if isinstance(d, h5py.Dataset)}
        except (OSError, ValueError) as error:
            raise GraspFormatError(
                path,
                "the file",
                expected="an HDF5 file",
                got=str(error),
                fix="check that the download is complete",
            ) from error
