"""Wires grasps and assets into labels: one item per (grasp set, protocol)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np

from schemas.records import GraspSet, LabelSet, ObjectAsset
from stages.assets.hands.load import hand_digest, load_hand
from stages.contract import Item, Outcome
from stages.envs.base import BaseEnv, Evaluation, build_env
from stages.envs.config import MS_PROTOCOLS
from stages.envs.errors import EnvConfigError
from stages.label.config import LabelConfig, protocol_hash
from stages.label.errors import LabelConfigError

COUNTS = ("contacts_grasp", "contacts_squeeze", "contacts_end", "contact_number")
NUMBERS = (
    *("translation", "rotation", "hand_object_penetration", "self_penetration"),
    *("contact_distance", "contact_consistency", "qp", "qp_dfc", "q1", "tdg", "dfc", "confidence"),
)
"""Integer and float columns that LabelSet and GraspResult share by name."""


class LabelStage:
    """Scores every grasp set under every protocol of the config."""

    name: ClassVar[str] = "label"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[str, ...]] = ("assets", "grasp")
    record: ClassVar[type] = LabelSet

    def plan(self, config: LabelConfig, upstream: Mapping[str, Sequence[Item]]) -> Sequence[Item]:
        """Grasp items in their order, protocols inside; grouped by grasp set."""
        items: list[Item] = []
        for grasp in upstream["grasp"]:
            assets = [pair for pair in grasp.inputs if pair[0] == "assets"]
            if len(assets) != 1:
                raise LabelConfigError(
                    f"grasp item {grasp.id!r}: expected one assets input, got {len(assets)}"
                )
            for protocol in config.protocols:
                params: dict[str, Any] = {
                    "protocol": protocol,
                    "protocol_hash": protocol_hash(config, protocol),
                }
                if protocol in MS_PROTOCOLS:
                    _check_agent(config, grasp)
                elif config.confidence.repeats:
                    params["confidence"] = asdict(config.confidence)
                items.append(
                    Item(
                        id=f"{grasp.id}/{protocol}",
                        params=params,
                        inputs=(("grasp", grasp.id), assets[0]),
                        group=grasp.id,
                        tags=dict(grasp.tags),
                    )
                )
        return items

    def run(
        self,
        items: Sequence[Item],
        inputs: Mapping[tuple[str, str], Any],
        config: LabelConfig,
        seeds: Mapping[str, int],
    ) -> list[Outcome]:
        """One LabelSet per item. Faults of single grasps are rows of it, never missing."""
        outcomes: list[Outcome] = []
        envs: dict[tuple[str, bool], BaseEnv] = {}
        try:
            for item in items:
                source, asset_source = item.inputs
                grasps: GraspSet = inputs[source]
                asset: ObjectAsset = inputs[asset_source]
                protocol = str(item.params["protocol"])
                # an environment serves all protocols of its engine
                key = (grasps.hand, protocol in MS_PROTOCOLS)
                if key not in envs:
                    envs[key] = build_env(config.env(_hand_source(grasps, item), protocol))
                evaluation = envs[key].evaluate(grasps, asset, protocol, seed=seeds[item.id])
                record = label_set(
                    grasps, evaluation, protocol_hash(config, protocol), seeds[item.id]
                )
                outcomes.append(Outcome(id=item.id, record=record))
        finally:
            for env in envs.values():
                env.close()
        return outcomes


def _check_agent(config: LabelConfig, grasp: Item) -> None:
    """Raise LabelConfigError when ManiSkill has no agent for the hand of `grasp`."""
    try:
        config.env(grasp.tags["hand_file"], MS_PROTOCOLS[0])
    except EnvConfigError as error:
        raise LabelConfigError(f"label.protocols: {error}") from error


def _hand_source(grasps: GraspSet, item: Item) -> str:
    """Name or path of the hand that `grasps` were sampled with; its digest must agree."""
    source = item.tags.get("hand_file", grasps.hand)
    digest = hand_digest(load_hand(source))
    if digest != grasps.hand_digest:
        raise LabelConfigError(
            f"hand {grasps.hand!r}: the grasps were sampled with digest {grasps.hand_digest}, "
            f"{source!r} has {digest}; sample them again"
        )
    return source


def label_set(grasps: GraspSet, evaluation: Evaluation, hash_: str, seed: int) -> LabelSet:
    """Columns of the results, row i for grasp i.

    `seed` drew the errors of the repeats of `confidence`; verdicts are deterministic.
    """
    results = evaluation.results

    def column(name: str, dtype: type | str) -> np.ndarray:
        # the five quality metrics are fields of the result's `quality`
        owners = [r if hasattr(r, name) else r.quality for r in results]
        return np.array([getattr(owner, name) for owner in owners], dtype)

    return LabelSet(
        hand=grasps.hand,
        object_id=grasps.object_id,
        protocol=evaluation.protocol,
        protocol_hash=hash_,
        engine=evaluation.engine,
        grasp_index=np.asarray(grasps.grasp_index, np.int64),
        success=evaluation.success,
        outcome=column("outcome", "<U32"),
        direction_success=column("direction_success", bool).reshape(-1, 6),
        final_object_pose=column("final_object_pose", np.float64).reshape(-1, 7),
        **{name: column(name, np.int32) for name in COUNTS},
        **{name: column(name, np.float64) for name in NUMBERS},
        seed=seed,
        # a column of its own protocol alone
        lift=column("lift", np.float64) if evaluation.protocol in MS_PROTOCOLS else np.zeros(0),
    )
