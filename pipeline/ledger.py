"""What is done, what failed and why: one scan of the markers, looked up by content key."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import CorruptBlockError
from pipeline.plan import StagePlan
from pipeline.store import Marker, Row, Store
from stages.contract import OK

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
    own_keys: dict[tuple[str, str], set[str]] = field(
        default_factory=dict[tuple[str, str], set[str]]
    )
    corrupt: list[tuple[str, str, CorruptBlockError]] = field(
        default_factory=list[tuple[str, str, CorruptBlockError]]
    )

    def add(self, marker: Marker) -> None:
        for row in marker.rows:
            self.own_keys.setdefault((marker.stage, row.id), set()).add(row.own)
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


def states(
    plan: StagePlan, ledger: Ledger, codes: dict[tuple[str, str], str | None], *, retry: bool
) -> dict[str, State]:
    """State of every item of a stage. `codes` holds the codes of earlier stages' items.

    `upstream_failed` is derived, never stored: when the input is repaired, the item is done.
    It is an outcome of its item, but not a failure of this stage, so it does not count against
    `max_failure_fraction`.
    """
    out: dict[str, State] = {}
    for item in plan.items:
        key = plan.keys[item.id]
        entry = ledger.find(plan.name, key)
        failed = [i for i in item.inputs if codes.get(i) not in (None, OK)]
        if failed:
            stage, input_id = failed[0]
            message = f"{stage} {input_id}: {codes[failed[0]]}"
            state = State(code=UPSTREAM_FAILED, message=message)
        elif entry is not None and retry and entry.row.code in RETRYABLE:
            state = State(code=None, reason="retry", entry=entry)
        elif entry is not None:
            state = State(code=entry.row.code, message=entry.row.message, entry=entry)
        else:
            known = ledger.own_keys.get((plan.name, item.id))
            if known is None:
                reason = "new"
            elif plan.own[item.id] in known:
                reason = "input changed"
            else:
                reason = "config changed"
            state = State(code=None, reason=reason)
        out[item.id] = state
    return out


def count_codes(found: dict[str, State]) -> Counter[str]:
    """Outcomes by code; items still to do are counted under "todo"."""
    return Counter(state.code or "todo" for state in found.values())
