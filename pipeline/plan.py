"""A config and its targets -> the items of every stage, with their keys and seeds."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.config import RunConfig
from pipeline.errors import PlanError
from pipeline.graph import Targets
from pipeline.keys import config_digest, item_key, item_seed, own_key, record_schema
from pipeline.registry import Registry
from stages.contract import Item, Stage


@dataclass(frozen=True, kw_only=True, slots=True)
class StagePlan:
    """Everything one stage has to do; dicts are by item id."""

    name: str
    spec: str  # "module:attribute" of the stage class
    config: Any
    items: tuple[Item, ...]
    own: dict[str, str]
    keys: dict[str, str]
    seeds: dict[str, int]


def make_plan(config: RunConfig, targets: Targets, registry: Registry) -> dict[str, StagePlan]:
    """Plan all stages of `targets`, inputs first. Pure: reads configs, touches no store."""
    plans: dict[str, StagePlan] = {}
    for name in targets.stages:
        stage = registry.stage(name)
        section = config.sections[name]
        try:
            items = tuple(stage.plan(section, {n: plans[n].items for n in stage.needs}))
        except (ValueError, LookupError, OSError) as error:
            raise PlanError(f"stage {name}: cannot be planned: {error}") from error
        plans[name] = _keyed(stage, registry.stages[name], section, items, config.seed, plans)
    return plans


def _keyed(
    stage: Stage,
    spec: str,
    section: Any,
    items: tuple[Item, ...],
    root_seed: int,
    plans: dict[str, StagePlan],
) -> StagePlan:
    schema, digest = record_schema(stage.record), config_digest(section)
    own: dict[str, str] = {}
    keys: dict[str, str] = {}
    for item in items:
        if item.id in keys:
            raise PlanError(f"stage {stage.name}: two items have the id {item.id!r}")
        input_keys: list[str] = []
        for input_stage, input_id in item.inputs:
            known = plans[input_stage].keys if input_stage in plans else {}
            if input_id not in known:
                raise PlanError(
                    f"stage {stage.name}: item {item.id!r} wants {input_stage} {input_id!r}, "
                    "which nobody plans"
                )
            input_keys.append(known[input_id])
        own[item.id] = own_key(
            stage=stage.name,
            version=stage.version,
            schema=schema,
            config=digest,
            root_seed=root_seed,
            item=item,
        )
        keys[item.id] = item_key(own[item.id], input_keys)
    return StagePlan(
        name=stage.name,
        spec=spec,
        config=section,
        items=items,
        own=own,
        keys=keys,
        seeds={item.id: item_seed(root_seed, stage.name, item.id) for item in items},
    )


BLOCKS_PER_SLOT = 4  # so that the last blocks of a small stage still keep every worker busy


def block_size(items: Sequence[Item], largest: int, slots: int) -> int:
    """Items per block: `largest`, or fewer when a small stage would leave workers idle.

    No less than the largest group, so that a scene's views still share a block.
    """
    even = math.ceil(len(items) / (BLOCKS_PER_SLOT * slots))
    groups = Counter(item.group for item in items if item.group)
    return min(largest, max(1, even, *groups.values()))


def make_blocks(items: Sequence[Item], size: int) -> list[tuple[Item, ...]]:
    """Blocks of at most `size` items in order; a group is split only when it exceeds a block."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        # An item without a group is a group of its own.
        groups.setdefault(item.group or f"\0{item.id}", []).append(item)
    blocks: list[tuple[Item, ...]] = []
    current: list[Item] = []
    for group in groups.values():
        if current and len(current) + len(group) > size:
            blocks.append(tuple(current))
            current = []
        current.extend(group)
        while len(current) >= size:
            blocks.append(tuple(current[:size]))
            current = current[size:]
    if current:
        blocks.append(tuple(current))
    return blocks
