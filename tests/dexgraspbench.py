"""DexGraspBench's reference grasps and labels (see its README in the reference folder)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
import yaml
from numpy.typing import NDArray

from schemas.frames import quaternion_to_matrix
from schemas.records import ObjectAsset
from stages.envs.mujoco.protocols.trial import GraspInput
from stages.grasp.formats.dexgraspbench import PALM_IN_ROOT
from stages.grasp.formats.pickled import read_pickled
from stages.grasp.formats.shadow import SHADOW_JOINTS
from tests.reference import REFERENCE

ROOT = REFERENCE / "dexgraspbench"
FINGERS = ("FF", "MF", "RF", "LF")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    object_id: str
    scale: float
    row: GraspInput
    label: dict[str, Any]


def read_reference(label: dict[str, Any]) -> Reference:
    values = read_pickled(ROOT / "grasps" / label["grasp"])

    def qpos(name: str) -> NDArray[np.float64]:
        q = np.array(values[name], np.float64).ravel()
        q[:3] += quaternion_to_matrix(q[3:7]) @ PALM_IN_ROOT
        return q

    return Reference(
        object_id=label["grasp"].split("/")[0],
        scale=float(np.ravel(values["obj_scale"])[0]),
        row=GraspInput(
            grasp_index=0,
            object_pose=np.array(values["obj_pose"], np.float64),
            pregrasp_qpos=qpos("pregrasp_qpos"),
            grasp_qpos=qpos("grasp_qpos"),
            squeeze_qpos=qpos("squeeze_qpos"),
        ),
        label=label,
    )


def reference_asset(object_id: str, scale: float) -> ObjectAsset:
    folder = ROOT / "objects" / object_id
    pieces = [
        trimesh.load(path, force="mesh", process=False)
        for path in sorted((folder / "urdf" / "meshes").glob("convex_piece_*.obj"))
    ]
    whole = trimesh.load(folder / "mesh" / "simplified.obj", force="mesh")
    return pieces_asset(object_id, pieces, whole, scale)


def pieces_asset(
    object_id: str, pieces: list[trimesh.Trimesh], whole: trimesh.Trimesh, scale: float
) -> ObjectAsset:
    """An asset of convex pieces that others made, scaled in place."""
    for mesh in (*pieces, whole):
        mesh.apply_scale(scale)
    return ObjectAsset(
        object_id=object_id,
        source=object_id,
        licence="",
        sha256=object_id,
        scale=scale,
        vertices=whole.vertices.astype(np.float32),
        faces=whole.faces.astype(np.int32),
        piece_vertices=np.concatenate([p.vertices for p in pieces]).astype(np.float32),
        piece_faces=np.concatenate([p.faces for p in pieces]).astype(np.int32),
        piece_vertex_offsets=np.cumsum([0] + [len(p.vertices) for p in pieces]),
        piece_face_offsets=np.cumsum([0] + [len(p.faces) for p in pieces]),
        volume=whole.volume,
        density=1.0,
        mass=whole.volume,
        center_of_mass=np.array(whole.center_mass),
        inertia=np.array(whole.moment_inertia),
        stable_poses=np.zeros((0, 7)),
        stable_probabilities=np.zeros(0),
        notes="",
    )


def labels() -> list[dict[str, Any]]:
    """All 200, in their order."""
    return json.loads((ROOT / "labels_fc.json").read_text())["labels"]


def shadow_file(folder: Path) -> Path:
    """A hand file for the reference's Shadow hand, its tendons and gains those of its MJCF."""
    zeros = [0.0] * len(SHADOW_JOINTS)
    links = [f"rh_{f.lower()}{link}" for f in FINGERS for link in ("proximal", "middle", "distal")]
    values = {
        "name": "shadow_right",
        "kind": "dexterous",
        "model": str(ROOT / "hands" / "shadow" / "right_hand.xml"),
        "licence": "Apache-2.0",
        "root_body": "rh_palm",
        "joint_names": list(SHADOW_JOINTS),
        "open_qpos": zeros,
        "pregrasp_qpos": zeros,
        "closed_qpos": zeros,
        "squeeze_delta": zeros,
        "kp": [],
        "damping": [],
        "force_limits": [],
        "native_dynamics": True,
        "finger_prefixes": ["rh_ff", "rh_mf", "rh_rf", "rh_lf", "rh_th"],
        "contact_bodies": [
            "rh_palm",
            *links,
            "rh_lfmetacarpal",
            *(f"rh_th{link}" for link in ("proximal", "middle", "distal")),
        ],
        "tip_bodies": [f"rh_{f.lower()}distal" for f in (*FINGERS, "TH")],
        "T_root_grasp": [0, 0, 0.1, 1, 0, 0, 0],
    }
    path = folder / "shadow.yaml"
    path.write_text(yaml.safe_dump(values))
    return path
