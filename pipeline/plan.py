"""A config and its targets -> the items of every stage, with their keys and seeds."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from pipeline.config import RunConfig
from pipeline.errors import PlanError
from pipeline.graph import Targets
from pipeline.keys import OwnKeys, config_digest, item_key, item_seed, record_schema
from pipeline.registry import Registry
from stages.contract import Item, ItemTable, Stage

V = TypeVar("V")


class PerItem(Mapping[str, V]):
    """A value per item id, computed when asked for; the last ones are kept."""

    KEEP = 100_000

    def __init__(
        self, items: Sequence[Item], item: Callable[[str], Item], of: Callable[[Item], V]
    ) -> None:
        self._items, self._item, self._of = items, item, of
        self._known: dict[str, V] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[str]:
        return (item.id for item in self._items)

    def __contains__(self, item_id: object) -> bool:
        try:
            self._item(str(item_id))
        except KeyError:
            return False
        return True

    def __getitem__(self, item_id: str) -> V:
        value = self._known.get(item_id)
        return self.of(self._item(item_id)) if value is None else value

    def of(self, item: Item) -> V:
        """The value of an item at hand, which need not be looked for."""
        value = self._known.get(item.id)
        if value is None:
            if len(self._known) >= self.KEEP:
                self._known.clear()
            value = self._known[item.id] = self._of(item)
        return value


@dataclass(frozen=True, kw_only=True, slots=True)
class StagePlan:
    """Everything one stage has to do. `own`, `keys` and `seeds` are by item id."""

    name: str
    spec: str  # "module:attribute" of the stage class
    needs: tuple[str, ...]
    config: Any
    items: Sequence[Item]
    item: Callable[[str], Item]  # by id; raises KeyError
    own: PerItem[str]
    keys: PerItem[str]
    seeds: PerItem[int]
    root_seed: int


def make_plan(config: RunConfig, targets: Targets, registry: Registry) -> dict[str, StagePlan]:
    """Plan all stages of `targets`, inputs first. Pure: reads configs, touches no store."""
    plans: dict[str, StagePlan] = {}
    for name in targets.stages:
        stage = registry.stage(name)
        section = config.sections[name]
        try:
            items = stage.plan(section, {n: plans[n].items for n in stage.needs})
        except (ValueError, LookupError, OSError) as error:
            raise PlanError(f"stage {name}: cannot be planned: {error}") from error
        plans[name] = _keyed(stage, registry.stages[name], section, items, config.seed, plans)
        _check(plans[name], plans)
    return plans


def _keyed(
    stage: Stage,
    spec: str,
    section: Any,
    items: Sequence[Item],
    root_seed: int,
    plans: Mapping[str, StagePlan],
) -> StagePlan:
    item = _finder(stage.name, items)
    own_of = OwnKeys(
        stage.name, stage.version, record_schema(stage.record), config_digest(section), root_seed
    )
    own = PerItem(items, item, own_of)

    def key_of(item: Item) -> str:
        return item_key(own.of(item), [plans[name].keys[place] for name, place in item.inputs])

    return StagePlan(
        name=stage.name,
        spec=spec,
        needs=stage.needs,
        config=section,
        items=items,
        item=item,
        own=own,
        keys=PerItem(items, item, key_of),
        root_seed=root_seed,
        seeds=PerItem(items, item, lambda item: item_seed(root_seed, stage.name, item.id)),
    )


def _finder(stage: str, items: Sequence[Item]) -> Callable[[str], Item]:
    """Item of an id; raises PlanError when two of a list have the same."""
    if isinstance(items, ItemTable):

        def find(item_id: str) -> Item:
            item = items.find(item_id)
            if item is None:
                raise KeyError(item_id)
            return item

        return find
    by_id: dict[str, Item] = {}
    for item in items:
        if item.id in by_id:
            raise PlanError(f"stage {stage}: two items have the id {item.id!r}")
        by_id[item.id] = item
    return by_id.__getitem__


def _check(plan: StagePlan, plans: Mapping[str, StagePlan]) -> None:
    """Inputs must be planned. Of a table, whose items are made by one rule, a few are looked at."""
    items: Iterable[Item] = plan.items
    if isinstance(plan.items, ItemTable):
        table, last = plan.items, len(plan.items) - 1
        items = [table[i] for i in sorted({0, last // 2, last}) if last >= 0]
        for item in items:
            if table.find(item.id) is not item:
                raise PlanError(f"stage {plan.name}: item {item.id!r} is not where its id says")
    for item in items:
        for stage, input_id in item.inputs:
            if stage not in plans or input_id not in plans[stage].keys:
                raise PlanError(
                    f"stage {plan.name}: item {item.id!r} wants {stage} {input_id!r}, "
                    "which nobody plans"
                )


BLOCKS_PER_SLOT = 4  # so that the last blocks of a small stage still keep every worker busy


def block_size(items: Sequence[Item], largest: int, slots: int, *, todo: int | None = None) -> int:
    """Items per block: `largest`, or fewer when a small stage would leave workers idle.

    No less than the largest group, so that a scene's views still share a block. `todo` is how many
    of the items are to be done, when not all.
    """
    even = math.ceil((len(items) if todo is None else todo) / (BLOCKS_PER_SLOT * slots))
    if isinstance(items, ItemTable):
        return min(largest, max(1, even, items.per_group))
    groups = Counter(item.group for item in items if item.group)
    return min(largest, max(1, even, *groups.values()))


def make_blocks(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    """Blocks of at most `size` items in order; a group is split only when it exceeds a block.

    A list is read whole, since its groups may lie apart; anything else as it comes.
    """
    current: list[Item] = []
    for group in _groups(items):
        if current and len(current) + len(group) > size:
            yield tuple(current)
            current = []
        current.extend(group)
        while len(current) >= size:
            yield tuple(current[:size])
            current = current[size:]
    if current:
        yield tuple(current)


def _groups(items: Iterable[Item]) -> Iterable[list[Item]]:
    """Items by group, in the order of the first of each; one without a group is its own."""
    if not isinstance(items, list | tuple):
        return (list(group) for _, group in groupby(items, key=lambda item: item.group or item.id))
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.group or f"\0{item.id}", []).append(item)
    return groups.values()
