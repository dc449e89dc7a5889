"""DexGraspNet (Wang et al. 2023, github.com/PKU-EPIC/DexGraspNet): `.npy`, a pickled list of dicts.

Each grasp: `scale`, which multiplies the unit mesh of the object, and `qpos`, a dict of 22 joint
angles (rad, `robot0:FFJ3` ..), `WRJTx..z` (m) and `WRJRx..z` (rad, about the fixed axes x, y, z in
that order), the palm in the object's frame. One file holds one object at several scales. The
published files hold validated grasps only.

Their hand (`mjcf/shadow_hand_wrist_free.xml`) is an older Shadow model than the menagerie's: its
palm frame is the same (both put the knuckle of the first finger at (33, 0, 95) mm), its joints
count from 0 instead of 1, and four axes point the other way. With this mapping the fingertips of
two published files lie on the object, 1.5 mm from its surface in the median; a shift by 5 mm along
the palm, or one axis turned round, makes it worse (tests/stages/grasp/test_dexgraspnet.py). The
little finger's knuckle is 1.8 mm further out in their model, the thumb's base 0.4 mm.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stages.assets.hands.spec import HandSpec
from stages.grasp.errors import GraspFormatError
from stages.grasp.formats.checks import Float, member, numbers, object_scale
from stages.grasp.formats.pickled import pickled_bytes, read_pickled
from stages.grasp.formats.record import (
    IDENTITY_POSE,
    ImportedGrasps,
    new_grasp_set,
    roots_in_object,
    with_roots,
)
from stages.grasp.formats.shadow import SHADOW_JOINTS
from stages.storage import write_bytes

TRANSLATION = ("WRJTx", "WRJTy", "WRJTz")
ROTATION = ("WRJRx", "WRJRy", "WRJRz")
OPPOSITE = ("rh_FFJ4", "rh_MFJ4", "rh_THJ2", "rh_THJ1")  # their axis is minus ours
SIGN = {ours: -1.0 if ours in OPPOSITE else 1.0 for ours in SHADOW_JOINTS}
THEIR_NAME = {ours: f"robot0:{ours[3:6]}{int(ours[6]) - 1}" for ours in SHADOW_JOINTS}
# Of the way from the grasp to open_qpos. With straight fingers as open_qpos, the fingertips of two
# published files then are 3 to 4 mm (median) from the object; more drives fingers that are inside a
# mug into its wall.
PREGRASP_OPENING = 0.1


def read_dexgraspnet(path: Path, hand: HandSpec) -> list[ImportedGrasps]:
    """One set for each scale, rising; `grasp_index` is the place in the file.

    A file holds the grasp alone. The pregrasp is a tenth of the way back to `hand.open_qpos`
    with the palm where it is, the squeeze is the grasp plus `hand.squeeze_delta`. Raises
    GraspFormatError for missing keys, NaN, and hands whose joints are not the Shadow's.
    """
    _check_hand(path, hand)
    rows = read_pickled(path)
    if not isinstance(rows, list) or not rows:
        raise GraspFormatError(
            path,
            "the file",
            expected="a list of at least one grasp",
            got=f"{type(rows).__name__} of {len(rows) if isinstance(rows, list) else 1}",
            fix="check that the file is of the format it is read as",
        )
    names = (*TRANSLATION, *ROTATION, *(THEIR_NAME[joint] for joint in hand.joint_names))
    values = np.array([_row(path, i, row, names) for i, row in enumerate(rows)])
    scales = np.array([object_scale(path, member(path, row, "scale")) for row in rows])
    T = np.tile(np.eye(4), (len(rows), 1, 1))
    T[:, :3, 3] = values[:, :3]
    T[:, :3, :3] = euler_to_matrix(values[:, 3:6])
    joints = values[:, 6:] * [SIGN[joint] for joint in hand.joint_names]
    opened = joints + PREGRASP_OPENING * (np.array(hand.open_qpos) - joints)
    grasps = new_grasp_set(
        hand,
        path.stem,
        IDENTITY_POSE,
        with_roots(T, opened),
        with_roots(T, joints),
        with_roots(T, joints + hand.squeeze_delta),
    )
    whole = ImportedGrasps(grasps=grasps, scale=1.0, object_file="", success=None)
    return [
        ImportedGrasps(
            grasps=whole.select(scales == scale).grasps,
            scale=float(scale),
            object_file="",
            success=None,
        )
        for scale in np.unique(scales)
    ]


def write_dexgraspnet(path: Path, sets: Sequence[ImportedGrasps], hand: HandSpec) -> None:
    """All scales of one object, in the order of `grasp_index`; pregrasp and squeeze are lost.

    Raises GraspFormatError when a set holds failures, for which the format has no word.
    """
    _check_hand(path, hand)
    rows: list[tuple[int, dict[str, Any]]] = []
    for imported in sets:
        if imported.success is not None and not imported.success.all():
            raise GraspFormatError(
                path,
                "success",
                expected="successes only, since the format means validated grasps",
                got=f"{int((~imported.success).sum())} failures",
                fix="pass imported.select(imported.success)",
            )
        T = roots_in_object(imported.grasps, "grasp_qpos")
        angles = matrix_to_euler(T[:, :3, :3])
        joints = imported.grasps.grasp_qpos[:, 7:] * [SIGN[joint] for joint in hand.joint_names]
        for i, index in enumerate(imported.grasps.grasp_index):
            qpos = dict(zip(TRANSLATION, T[i, :3, 3].tolist(), strict=True))
            qpos |= dict(zip(ROTATION, angles[i].tolist(), strict=True))
            their_names = (THEIR_NAME[joint] for joint in hand.joint_names)
            qpos |= dict(zip(their_names, joints[i].tolist(), strict=True))
            rows.append((int(index), {"qpos": qpos, "scale": float(imported.scale)}))
    rows.sort(key=lambda row: row[0])
    write_bytes(path, pickled_bytes([row for _, row in rows]))


def euler_to_matrix(angles: Float) -> Float:
    """(G, 3) radians about the fixed axes x, y, z, in that order -> (G, 3, 3)."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles).T, np.sin(angles).T
    rows = [
        [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx],
        [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx],
        [-sy, cy * sx, cy * cx],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def matrix_to_euler(R: Float) -> Float:
    """Inverse of `euler_to_matrix`; at y = +-90 degrees, where x and z are one turn, x is 0."""
    cos_y = np.hypot(R[:, 0, 0], R[:, 1, 0])
    regular = cos_y > 1e-9
    x = np.where(regular, np.arctan2(R[:, 2, 1], R[:, 2, 2]), 0.0)
    z = np.where(regular, np.arctan2(R[:, 1, 0], R[:, 0, 0]), np.arctan2(-R[:, 0, 1], R[:, 1, 1]))
    return np.stack([x, np.arctan2(-R[:, 2, 0], cos_y), z], axis=1)


def _row(path: Path, i: int, row: Any, names: tuple[str, ...]) -> Float:
    qpos = member(path, row, "qpos")
    return numbers(
        path, f"qpos of grasp {i}", [member(path, qpos, n) for n in names], (len(names),)
    )


def _check_hand(path: Path, hand: HandSpec) -> None:
    if set(hand.joint_names) != set(SHADOW_JOINTS):
        raise GraspFormatError(
            path,
            f"joints of hand {hand.name!r}",
            expected=f"the Shadow's {list(SHADOW_JOINTS)}",
            got=str(list(hand.joint_names)),
            fix="read the file with a hand file of the menagerie's Shadow hand",
        )
