"""What a stage is: a pure function over one block of items.

A stage knows neither where its inputs are stored nor who runs it. `plan` lists the items that a
run config asks for; `run` turns one block of them into outcomes, one per item, in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

OK = "ok"


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One unit of work. Its id is its identity: the seed and the content key derive from it."""

    id: str  # unique in its stage, e.g. "clutter-00003/v05"
    params: Mapping[str, Any] = field(default_factory=dict)  # JSON values; part of the key
    inputs: tuple[tuple[str, str], ...] = ()  # (stage, item id), part of the key through theirs
    group: str = ""  # items of one group go to the same block when they can (a scene's views)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of one item: a record when `code` is "ok", else a coded failure."""

    id: str
    code: str = OK
    message: str = ""
    record: Any = None


class Stage(Protocol):
    """`name` and `version` are part of every content key; raise `version` when results change."""

    name: str
    version: int
    record: type  # the frozen dataclass of schemas.records that this stage returns

    def plan(self, config: Any) -> Sequence[Item]:
        """Items asked for by the run config (pipeline.config.RunConfig), in a fixed order."""
        ...

    def run(
        self,
        items: Sequence[Item],
        inputs: Mapping[tuple[str, str], Any],
        config: Any,
        seeds: Mapping[str, int],
    ) -> list[Outcome]:
        """One outcome per item, in order. `inputs` holds the decoded records of every input.

        `config` is this stage's own frozen config; `seeds` gives each item's 64-bit seed.
        An exception here fails the whole block with code "crashed"; expected failures of single
        items are returned as outcomes.
        """
        ...
