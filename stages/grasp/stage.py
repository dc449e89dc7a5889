"""(hand, object, chunk) -> GraspSet."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from schemas.frames import check_quaternion
from schemas.records import GraspSet, ObjectAsset
from stages.assets.hands.load import hand_digest, load_hand
from stages.contract import Item, Outcome
from stages.grasp.config import GraspConfig
from stages.grasp.errors import GraspConfigError
from stages.grasp.sampler import Candidate, Sampler

NONE = "no_candidates"


class GraspStage:
    """Chunks of candidates on the object at rest in a stable pose, drawn by the chunk's seed."""

    name: ClassVar[str] = "grasp"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("assets",)
    record: ClassVar[type] = GraspSet

    def plan(self, config: GraspConfig, upstream: Mapping[str, Sequence[Item]]) -> list[Item]:
        """Raises GraspConfigError when two hands have one name, HandError for a bad hand file."""
        items: list[Item] = []
        chunks = -(-config.grasps_per_object // config.chunk)
        seen: dict[str, str] = {}
        for entry in config.hands:
            hand = load_hand(entry)
            if hand.name in seen:
                raise GraspConfigError(
                    f"grasp.hands: {seen[hand.name]!r} and {entry!r} are both named {hand.name!r}"
                )
            seen[hand.name] = entry
            digest = hand_digest(hand)
            items += [
                Item(
                    id=f"{hand.name}/{asset.id}/{c:03d}",
                    params={"hand": hand.name, "hand_digest": digest, "chunk": c},
                    inputs=(("assets", asset.id),),
                    group=f"{hand.name}/{asset.id}",
                    tags={"hand_file": entry, "split": asset.tags.get("split", "")},
                )
                for asset in upstream["assets"]
                for c in range(chunks)
            ]
        return items

    def run(
        self,
        items: Sequence[Item],
        inputs: Mapping[tuple[str, str], Any],
        config: GraspConfig,
        seeds: Mapping[str, int],
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        sampler: Sampler | None = None
        current: tuple[str, str] | None = None
        for item in items:
            asset: ObjectAsset = inputs[item.inputs[0]]
            entry = item.tags["hand_file"]
            if sampler is None or current != (entry, asset.object_id):
                current = (entry, asset.object_id)
                sampler = Sampler(load_hand(entry), asset, config)
            outcomes.append(_sample(sampler, item, seeds[item.id]))
        return outcomes


def _sample(sampler: Sampler, item: Item, seed: int) -> Outcome:
    """One chunk. A stable pose in which the hand finds no grasp gives way to another.

    A box that lies on its largest face can be too wide for a jaw, and not so on its side.
    """
    rng = np.random.default_rng(seed)
    asset = sampler.asset
    chunk = int(item.params["chunk"])
    candidates: list[Candidate] = []
    rejected: Counter[str] = Counter()
    for pose in _by_probability(asset, rng):
        object_pose = asset.stable_poses[pose].copy()
        check_quaternion(object_pose[3:], f"{asset.object_id} stable pose")
        candidates, reasons = sampler.chunk(chunk, object_pose, rng)
        rejected += reasons
        if candidates:
            break
    else:
        reasons = ", ".join(f"{reason} {n}" for reason, n in rejected.most_common())
        poses = len(asset.stable_poses)
        message = f"every proposal was rejected, in all of {poses} stable poses: {reasons}"
        return Outcome(id=item.id, code=NONE, message=message)

    def rows(field: str) -> np.ndarray:
        return np.stack([_canonical(getattr(c, field)) for c in candidates])

    hand = sampler.hand
    record = GraspSet(
        hand=hand.name,
        hand_digest=str(item.params["hand_digest"]),
        object_id=asset.object_id,
        joint_names=hand.joint_names,
        object_pose=object_pose,
        pregrasp_qpos=rows("pregrasp"),
        grasp_qpos=rows("grasp"),
        squeeze_qpos=rows("squeeze"),
        grasp_index=chunk * sampler.config.chunk + np.arange(len(candidates)),
    )
    return Outcome(id=item.id, record=record)


def _by_probability(asset: ObjectAsset, rng: np.random.Generator) -> np.ndarray:
    """Indices of the stable poses in random order, likely ones first as in drawing without
    replacement: the smallest of exponential times with the probabilities as rates."""
    times = rng.exponential(size=len(asset.stable_probabilities))
    return np.argsort(times / np.maximum(asset.stable_probabilities, 1e-12))


def _canonical(qpos: np.ndarray) -> np.ndarray:
    """Unit root quaternion with w >= 0, as matrix_to_pose gives it; a copy."""
    out = qpos.copy()
    out[3:7] /= np.linalg.norm(out[3:7])
    return out
