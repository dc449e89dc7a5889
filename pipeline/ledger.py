"""What is done, what failed and why: one scan of the markers, looked up by content key."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import CorruptBlockError
from pipeline.plan import StagePlan
from pipeline.store import Marker, Row, Store
from stages.contract import OK, Item

UPSTREAM_FAILED = "upstream_failed"
CRASHED, TIMED_OUT = "crashed", "timed_out"
RETRYABLE = (CRASHED, TIMED_OUT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """Where an item's outcome is kept."""

    block: str
    row: Row


@dataclass(kw_only=True, slots=True)
class Ledger:
    """Outcomes by (stage, content key), and by (stage, item id) to explain what changed."""

    entries: dict[tuple[str, str], Entry] = field(default_factory=dict[tuple[str, str], Entry])
    own_keys: dict[tuple[str, str], tuple[str, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[str, ...]]
    )
    stages: set[str] = field(default_factory=set[str])  # those that have any outcome
    corrupt: list[tuple[str, str, CorruptBlockError]] = field(
        default_factory=list[tuple[str, str, CorruptBlockError]]
    )

    def add(self, marker: Marker) -> None:
        self.stages.add(marker.stage)
        for row in marker.rows:
            known = self.own_keys.get((marker.stage, row.id), ())
            if row.own not in known:
                self.own_keys[marker.stage, row.id] = (*known, row.own)
            place = (marker.stage, row.key)
            old = self.entries.get(place)
            # A success is never replaced; between failures the later attempt speaks.
            if old is None or (
                old.row.code != OK and (row.code == OK or row.attempt >= old.row.attempt)
            ):
                self.entries[place] = Entry(block=marker.block, row=row)

    def find(self, stage: str, key: str) -> Entry | None:
        return self.entries.get((stage, key))


def scan(store: Store, stages: Sequence[str], *, deep: bool) -> Ledger:
    """Read all markers of `stages`; a block that fails its check counts as not done."""
    ledger = Ledger()
    jobs = [(stage, path) for stage in stages for path in store.markers(stage)]

    def look(job: tuple[str, Path]) -> Marker | CorruptBlockError:
        try:
            marker = store.read_marker(job[1])
            store.check(marker, deep=deep)
            return marker
        except CorruptBlockError as error:
            return error

    with ThreadPoolExecutor(4) as pool:  # hashing lets go of the interpreter lock
        for (stage, path), found in zip(jobs, pool.map(look, jobs), strict=True):
            if isinstance(found, CorruptBlockError):
                ledger.corrupt.append((stage, path.stem, found))
            else:
                ledger.add(found)
    return ledger


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """One planned item: `code` of its outcome, or None and the reason it must be done."""

    code: str | None
    reason: str = ""  # new | config changed | input changed | retry
    message: str = ""
    entry: Entry | None = None


class States(Mapping[str, State]):
    """State of every item of a stage by item id, looked up when asked for.

    `upstream` holds the states of the stages that this one reads. `upstream_failed` is derived,
    never stored: when the input is repaired, the item is done. It is an outcome of its item, but
    not a failure of this stage, so it does not count against `max_failure_fraction`.
    """

    def __init__(
        self,
        plan: StagePlan,
        ledger: Ledger,
        upstream: "Mapping[str, States]",
        *,
        retry: bool = False,
        tally: "Counter[tuple[str | None, str]] | None" = None,
    ) -> None:
        self._plan, self._ledger, self._upstream = plan, ledger, upstream
        self._retry, self._tally = retry, tally

    def __len__(self) -> int:
        return len(self._plan.items)

    def __iter__(self) -> Iterator[str]:
        return (item.id for item in self._plan.items)

    def __getitem__(self, item_id: str) -> State:
        return self.of(self._plan.item(item_id))

    def of(self, item: Item) -> State:
        plan, ledger = self._plan, self._ledger
        for stage, input_id in item.inputs:
            above = self._upstream[stage]
            if above.all_well:
                continue
            code = above[input_id].code
            if code not in (None, OK):
                return State(code=UPSTREAM_FAILED, message=f"{stage} {input_id}: {code}")
        if plan.name not in ledger.stages:
            return State(code=None, reason="new")
        entry = ledger.find(plan.name, plan.keys.of(item))
        if entry is not None and self._retry and entry.row.code in RETRYABLE:
            return State(code=None, reason="retry", entry=entry)
        if entry is not None:
            return State(code=entry.row.code, message=entry.row.message, entry=entry)
        known = ledger.own_keys.get((plan.name, item.id))
        if known is None:
            return State(code=None, reason="new")
        changed = "input changed" if plan.own.of(item) in known else "config changed"
        return State(code=None, reason=changed)

    @property
    def all_well(self) -> bool:
        """Nothing failed, so that what reads these items need not look at each."""
        return all(code in (None, OK) for code, _ in self.tally)

    @property
    def untouched(self) -> bool:
        """Everything is still to do, for one reason: nobody has begun."""
        return self._plan.name not in self._ledger.stages and all(
            self._upstream[stage].all_well for stage in self._plan.needs
        )

    @property
    def tally(self) -> "Counter[tuple[str | None, str]]":
        """Items by (code, reason), as of the first time it was asked for."""
        if self._tally is None:
            if self.untouched:
                count = len(self)
                self._tally = Counter[tuple[str | None, str]]()
                if count:
                    self._tally[None, "new"] = count
            else:
                found = (self.of(item) for item in self._plan.items)
                self._tally = Counter((s.code, s.reason) for s in found)
        return self._tally

    def todo(self) -> Iterator[Item]:
        """Items without an outcome, in order, each looked at when it is its turn."""
        if self.untouched:
            yield from self._plan.items
        else:
            yield from (item for item in self._plan.items if self.of(item).code is None)
