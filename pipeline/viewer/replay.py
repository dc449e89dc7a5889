"""One labelled grasp, simulated again from what is stored, with every snapshot kept."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.errors import CannotDrawError, CorruptBlockError, UserError
from pipeline.pictures.hand import Mesh
from pipeline.pictures.points import Float
from pipeline.registry import Registry
from pipeline.saved import load_saved
from pipeline.store import Store
from schemas.errors import SchemaError
from schemas.frames import pose_to_matrix, transform_points
from schemas.records import GraspSet, ObjectAsset, decode
from stages.shard.errors import UnknownChoiceError
from stages.shard.grasps import GraspTable
from stages.shard.layout import SPLITS
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
    from stages.envs.base import build_env
    from stages.envs.config import EnvConfig

    table, row = _row(out, hand, protocol, object_id, index)
    try:
        config = load_saved(out, Registry())
    except UserError as error:
        raise CannotDrawError(f"a rollout needs the numbers of the run: {error}") from error
    asset = _asset(out, object_id)
    files = [f for f in config.sections["grasp"].hands if Path(f).stem == hand or f == hand]
    env = build_env(
        EnvConfig(mj_env_config=config.sections["label"].env_config(files[0] if files else hand))
    )
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
