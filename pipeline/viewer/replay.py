"""One labelled grasp, simulated again from what is stored, with every snapshot kept.

Hand, numbers and engine are those of its label: the dataset's, not those of the last run.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pipeline.coerce import build
from pipeline.errors import CannotDrawError, CorruptBlockError
from pipeline.hand_files import find_hand
from pipeline.pictures.hand import Mesh
from pipeline.pictures.points import Float
from pipeline.store import Store
from schemas.errors import SchemaError
from schemas.frames import pose_to_matrix, transform_points
from schemas.records import GraspSet, ObjectAsset, decode
from stages.assets.hands.errors import HandError
from stages.envs.base import BaseEnv, build_env
from stages.envs.errors import EnvConfigError
from stages.label.config import LabelConfig, protocol_hash
from stages.shard.errors import UnknownChoiceError
from stages.shard.grasps import GraspTable
from stages.shard.layout import MANIFEST, SPLITS
from stages.shard.open import load_manifest


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Replay:
    """T snapshots in the world of the grasp's object_pose. `stored` is the label of the dataset."""

    title: str
    hand_qpos: Float  # (T, 7 + J)
    object_poses: Float  # (T, 7)
    thing: Mesh  # vertices (V, 3) m, object frame, and faces
    outcome: str
    stored: str

    def placed(self, frame: int) -> Mesh:
        """The object's mesh at a snapshot, world frame."""
        vertices, faces = self.thing
        return transform_points(pose_to_matrix(self.object_poses[frame]), vertices), faces


def replay(out: Path, hand: str, protocol: str, object_id: str, index: int) -> Replay:
    """Simulate a grasp again; raises CannotDrawError or UnknownChoiceError saying what lacks."""
    table, row = _row(out, hand, protocol, object_id, index)
    config, asset = _label_config(table, protocol), _asset(out, object_id)
    env = _env(config, table, protocol)
    arrays = table.arrays
    grasps = GraspSet(
        hand=hand,
        hand_digest=table.hand_digest,
        object_id=object_id,
        joint_names=table.joint_names,
        object_pose=arrays["object_pose"][row],
        pregrasp_qpos=arrays["pregrasp_qpos"][[row]],
        grasp_qpos=arrays["grasp_qpos"][[row]],
        squeeze_qpos=arrays["squeeze_qpos"][[row]],
        grasp_index=arrays["grasp_index"][[row]],
    )
    with env:
        [result] = env.evaluate(grasps, asset, protocol, rollouts=True).results
    if result.rollout is None or not len(result.rollout.qpos):
        raise CannotDrawError(f"grasp {object_id} #{index} was not simulated: {result.outcome}")
    stored = table.outcome_codes[int(arrays["outcome"][row])]
    return Replay(
        title=f"{hand} on {object_id} #{index} under {protocol}: {result.outcome}",
        hand_qpos=result.rollout.qpos,
        object_poses=result.rollout.obj_pose,
        thing=(asset.vertices.astype(np.float64), asset.faces.astype(np.int64)),
        outcome=result.outcome,
        stored=stored,
    )


def _label_config(table: GraspTable, protocol: str) -> LabelConfig:
    """The numbers of the dataset's labels, for one grasp at a time."""
    problems: list[str] = []
    stored = load_manifest(table.out).get("config", {}).get("label")
    config = build(LabelConfig, stored, "label", problems)
    if stored is None or config is None:
        raise CannotDrawError(
            f"a rollout needs the numbers of the run, which {MANIFEST} does not have as this "
            f"program reads them: {'; '.join(problems) or 'no label section'}; replay with the "
            "version that made the dataset, or make it again"
        )
    if (now := protocol_hash(config, protocol)) != table.protocol_hash:
        raise CannotDrawError(
            f"labels under {protocol} carry protocol hash {table.protocol_hash}, the numbers in "
            f"{MANIFEST} give {now}: what this program simulates is not what was labelled; replay "
            "with the version that made the dataset, or label again"
        )
    return replace(config, sub_scenes=1)


def _env(config: LabelConfig, table: GraspTable, protocol: str) -> BaseEnv:
    source = find_hand(table)
    if source is None:
        raise CannotDrawError(
            f"no hand file here is that of the grasps of {table.hand!r} (digest "
            f"{table.hand_digest}): configs/hands has another of that name or none, and so has "
            f"the last run in {table.out}; bring its file and model back as they were"
        )
    try:
        return build_env(config.env(source, protocol))
    except (ImportError, EnvConfigError, HandError) as error:
        raise CannotDrawError(f"{protocol} cannot be carried out here: {error}") from error


def _row(out: Path, hand: str, protocol: str, object_id: str, index: int) -> tuple[GraspTable, int]:
    """The table that holds a grasp, and its row."""
    objects: set[str] = set()
    splits = load_manifest(out)["splits"]
    for split in [s for s in SPLITS if s in splits]:
        try:
            table = GraspTable(out, split, hand, protocol)
        except UnknownChoiceError:
            continue
        rows = table.rows.get(object_id, np.zeros(0, np.int64))
        numbers = table.arrays["grasp_index"][rows]
        if index in numbers:
            return table, int(rows[int(np.flatnonzero(numbers == index)[0])])
        if len(rows):
            raise UnknownChoiceError(
                f"grasp of {object_id}", str(index), map(str, numbers.tolist())
            )
        objects |= {name for name, mine in table.rows.items() if len(mine)}
    raise UnknownChoiceError("object with labelled grasps", object_id, sorted(objects))


def _asset(out: Path, object_id: str) -> ObjectAsset:
    """The object as the dataset has it: blocks of other configs may hold it at another scale."""
    store, said = Store(out), load_manifest(out)["objects"][object_id]
    for path in store.markers("assets"):
        try:
            marker = store.read_marker(path)
            rows = [r for r in marker.rows if r.id == object_id and r.index is not None]
            if rows and (number := rows[0].index) is not None:
                asset = decode(ObjectAsset, store.read_arrays(marker)[number])
                about = (asset.sha256, asset.scale, asset.mass)
                if about == (said["sha256"], said["scale"], said["mass_kg"]):
                    return asset
        except (CorruptBlockError, SchemaError) as error:
            raise CannotDrawError(f"block of {object_id}: {error}") from error
    raise CannotDrawError(
        f"a rollout needs the convex pieces of {object_id}, which are in the blocks of the run and "
        f"not in the dataset; {out} holds none with the dataset's own scale and mass. Run the "
        "target assets into it again"
    )
