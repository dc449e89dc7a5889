"""What a stage is: a pure function over one block of items.

A stage knows neither where its inputs are stored nor who runs it. `plan` lists the items that a
config asks for; `run` turns one block of them into outcomes, one per item, in order.

Each room has `config.py` (a frozen dataclass `<Room>Config`, cheap to import) and `stage.py`
(a class `<Room>Stage` that only wires). Heavy libraries are imported inside functions or in the
backend modules, so planning stays light.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Protocol, overload

OK = "ok"

PLAN_ONLY = {"plan_only": True}
"""`dataclasses.field(metadata=PLAN_ONLY)`: the field says how much to do, not how. It is left out
of the content key, so that adding 500 scenes leaves the old ones as they are."""

OPTIONAL = {"optional": True}
"""`metadata=OPTIONAL`: left out of the content key while it has its default. For an option that
came later and changes nothing unless asked for: what was made before it keeps its keys."""

CONFIG_PATH = {"config_path": True}
"""`metadata=PLAN_ONLY | CONFIG_PATH`: a path that starts at the folder of the config file; in a
tuple, only entries with a file suffix are paths, the others are names. What the files hold goes
into the items' params, and so into the keys; where they lie does not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One unit of work. Its id is its identity: the seed and the content key derive from it."""

    id: str  # unique in its stage, e.g. "clutter-00003/v05"
    params: Mapping[str, Any] = field(default_factory=dict)  # JSON values; part of the key
    inputs: tuple[tuple[str, str], ...] = ()  # (stage, item id); part of the key through theirs
    group: str = ""  # items of one group share a block when they fit (a scene's views)
    tags: Mapping[str, str] = field(default_factory=dict)  # not part of the key, e.g. the split


class ItemTable(Sequence[Item]):
    """`count` items that are made when asked for: a million scenes of 256 views take no memory.

    `make(i)` gives item i. `position(id)` is its inverse: the index of the only item that may have
    this id, or None; what is at that index is compared, so a guess is enough. Items come in groups
    of `per_group` neighbours; every group of a table has as many, except the last.
    """

    RECENT = 4096  # items kept, since the views of a scene ask for it again and again

    def __init__(
        self,
        count: int,
        make: Callable[[int], Item],
        position: Callable[[str], int | None],
        *,
        per_group: int = 1,
    ) -> None:
        self.per_group = per_group
        self._count, self.position = count, position
        self._make = lru_cache(maxsize=self.RECENT)(make)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self._make(i) for i in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(f"item {index} of {self._count}")
        return self._make(index % self._count)

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence of equal items."""
        if not isinstance(other, Sequence) or len(other) != len(self):
            return NotImplemented
        return all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def find(self, item_id: str) -> Item | None:
        """The item of this id, or None."""
        index = self.position(item_id)
        if index is None or not 0 <= index < self._count:
            return None
        item = self._make(index)
        return item if item.id == item_id else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one item: a record when `code` is "ok", else a coded failure."""

    id: str
    code: str = OK
    message: str = ""
    record: Any = None


class Stage(Protocol):
    """`name` and `version` are part of every content key; raise `version` when results change."""

    name: ClassVar[str]
    version: ClassVar[int]
    needs: ClassVar[tuple[str, ...]]  # stages whose items and records this one uses
    record: ClassVar[type]  # the frozen dataclass of schemas.records that `run` returns

    def plan(self, config: Any, upstream: Mapping[str, Sequence[Item]]) -> Sequence[Item]:
        """Items asked for by this stage's config, in a fixed order.

        `upstream` holds the planned items of every stage in `needs`. A stage whose items number
        in millions returns an `ItemTable`.
        """
        ...

    def run(
        self,
        items: Sequence[Item],
        inputs: Mapping[tuple[str, str], Any],
        config: Any,
        seeds: Mapping[str, int],
    ) -> list[Outcome]:
        """One outcome per item, in order; equal for any split of the items into blocks.

        `inputs` maps (stage, item id) to the record of every input of every item, `seeds` item id
        to a 64-bit seed. An exception that leaves `run` fails the block; the runner then repeats
        its items one by one, and the one that raises again is coded "crashed".
        """
        ...
