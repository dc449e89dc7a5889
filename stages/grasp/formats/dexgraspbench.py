"""DexGraspBench (Chen et al. 2025, github.com/JYChen18/DexGraspBench): `.npy`, a pickled dict.

| key | what |
|---|---|
| `obj_path` | folder of the object, text |
| `obj_scale` | multiplies the mesh |
| `obj_pose` | (7,) world <- object, xyz m + wxyz |
| `pregrasp_qpos`, `grasp_qpos`, `squeeze_qpos` | (7 + J,) or (N, 7 + J): xyz m, wxyz, J joints |
| `succ_flag` | optional: verdict of its evaluator |

The joints stand in the order of their MJCF file, and the root pose places the world frame of that
file, in which the root body may have a pose of its own. For the Shadow hand that is 34 mm along z;
with it, all 200 published verdicts come out the same here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schemas.frames import invert, pose_to_matrix
from stages.assets.hands.spec import HandSpec
from stages.grasp.errors import GraspFormatError
from stages.grasp.formats.checks import (
    Float,
    member,
    numbers,
    object_scale,
    success_flags,
    unit_quaternions,
)
from stages.grasp.formats.pickled import pickled_bytes, read_pickled
from stages.grasp.formats.record import (
    ImportedGrasps,
    new_grasp_set,
    only_set,
    root_matrices,
    with_roots,
)
from stages.grasp.formats.shadow import SHADOW_JOINTS
from stages.storage import write_bytes

STAGES = ("pregrasp_qpos", "grasp_qpos", "squeeze_qpos")
PALM_IN_ROOT = np.array([0.0, 0.0, 0.034])  # m; rh_palm in the frame that their qpos place


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """How their qpos of one hand are meant."""

    joint_names: tuple[str, ...]  # in the order of their MJCF file
    T_theirs_root: tuple[float, ...]  # (7,) pose of our root body in the frame they place


LAYOUTS = {
    "shadow": Layout(
        joint_names=SHADOW_JOINTS, T_theirs_root=(*PALM_IN_ROOT.tolist(), 1.0, 0.0, 0.0, 0.0)
    ),
    # By the same rule from their hands/allegro/right_hand.xml (palm quat="0 1 0 1"); no published
    # label proves it.
    "allegro": Layout(
        joint_names=tuple(f"{finger}j{k}" for finger in ("ff", "mf", "rf", "th") for k in range(4)),
        T_theirs_root=(0.0, 0.0, 0.0, 0.0, 0.5**0.5, 0.0, 0.5**0.5),
    ),
}


def read_dexgraspbench(path: Path, hand: HandSpec) -> list[ImportedGrasps]:
    """One set. `hand` must be modelled by the menagerie's MJCF, whose joint names they use.

    Raises GraspFormatError for missing keys, wrong shapes, NaN, quaternions that are not unit
    within 1e-6, and hands of which LAYOUTS knows no joint order.
    """
    layout = _layout(path, hand)
    values = read_pickled(path)
    object_file = str(member(path, values, "obj_path"))
    object_pose = numbers(path, "obj_pose", member(path, values, "obj_pose"), (7,))
    unit_quaternions(path, "obj_pose", object_pose[None, 3:])
    rows = [_read_qpos(path, values, name, hand, layout) for name in STAGES]
    if len({len(row) for row in rows}) != 1:
        raise GraspFormatError(
            path,
            ", ".join(STAGES),
            expected="one number of rows",
            got=str([len(row) for row in rows]),
            fix="the file is damaged; get it again",
        )
    success = None
    if "succ_flag" in values:
        success = success_flags(path, "succ_flag", values["succ_flag"], len(rows[0]))
    grasps = new_grasp_set(hand, Path(object_file).name or path.stem, object_pose, *rows)
    scale = object_scale(path, member(path, values, "obj_scale"))
    return [ImportedGrasps(grasps=grasps, scale=scale, object_file=object_file, success=success)]


def write_dexgraspbench(path: Path, sets: Sequence[ImportedGrasps], hand: HandSpec) -> None:
    """One set: (7 + J,) arrays for a single grasp, as published, else (N, 7 + J).

    Raises GraspFormatError for more than one set and for hands without a layout.
    """
    imported, layout = only_set(path, sets), _layout(path, hand)
    grasps = imported.grasps
    values: dict[str, Any] = {
        "obj_path": imported.object_file or grasps.object_id,
        "obj_scale": imported.scale,
        "obj_pose": grasps.object_pose,
    }
    T_root_theirs = invert(pose_to_matrix(layout.T_theirs_root))
    columns = [hand.joint_names.index(name) for name in layout.joint_names]
    for name in STAGES:
        ours = getattr(grasps, name)
        theirs = with_roots(root_matrices(ours) @ T_root_theirs, ours[:, 7:][:, columns])
        values[name] = theirs[0] if len(theirs) == 1 else theirs
    if imported.success is not None:
        one = len(imported.success) == 1
        values["succ_flag"] = bool(imported.success[0]) if one else imported.success
    write_bytes(path, pickled_bytes(values))


def _read_qpos(path: Path, values: Any, name: str, hand: HandSpec, layout: Layout) -> Float:
    theirs = np.atleast_2d(np.asarray(member(path, values, name)))
    theirs = numbers(path, name, theirs, (None, 7 + len(layout.joint_names)))
    unit_quaternions(path, name, theirs[:, 3:7])
    columns = [layout.joint_names.index(joint) for joint in hand.joint_names]
    T_world_root = root_matrices(theirs) @ pose_to_matrix(layout.T_theirs_root)
    return with_roots(T_world_root, theirs[:, 7:][:, columns])


def _layout(path: Path, hand: HandSpec) -> Layout:
    """The file names no joints, so a hand whose joints have other names is not guessed at."""
    for layout in LAYOUTS.values():
        if set(layout.joint_names) == set(hand.joint_names):
            return layout
    raise GraspFormatError(
        path,
        f"joints of hand {hand.name!r}",
        expected="the names of "
        + ", or ".join(f"{k}: {v.joint_names}" for k, v in LAYOUTS.items()),
        got=str(hand.joint_names),
        fix="use a hand file of the menagerie's MJCF, or add the hand to LAYOUTS",
    )
