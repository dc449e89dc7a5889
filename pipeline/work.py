"""One block of one stage, from its inputs in the store to its committed outcomes.

This runs in the worker: records never travel through the scheduler, only their addresses do.
"""

import errno
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import CorruptBlockError, StageContractError
from pipeline.files import FULL, READ_ONLY
from pipeline.keys import Seeds
from pipeline.registry import load
from pipeline.store import MESSAGE_LIMIT, Marker, Row, Store
from stages.contract import OK, Item, Outcome
from stages.storage import UNREACHABLE, file_size, output_path

CACHE_BYTES = 512 * 2**20  # of decoded input records a worker keeps


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where an input record lies."""

    spec: str  # "module:attribute" of the stage that made it
    block: str
    index: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A block to do. `keys`, `own`, `seeds` and `attempts` are by item id."""

    out: str
    stage: str
    spec: str
    config: Any
    items: tuple[Item, ...]
    keys: Mapping[str, str]
    own: Mapping[str, str]
    seeds: Mapping[str, int] | Seeds
    attempts: Mapping[str, int]
    inputs: Mapping[tuple[str, str], Address]
    timeout_s: float  # of the whole block
    resource: str = ""  # what the worker must offer, e.g. "GPU"
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why an item is repeated, by id: what its earlier tries in this run ended with."""
    alone: bool = False
    """Its worker died: repeat it with nothing else in flight, so that no other can be to blame."""

    @property
    def place(self) -> str:
        return f"{self.stage} {self.items[0].id}" + (
            f" and {len(self.items) - 1} more" if len(self.items) > 1 else ""
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A block that gave no outcomes. `kind`: raised | died | timed_out | storage."""

    kind: str
    message: str
    errno: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a worker sends back: the marker it committed, or why there is none.

    `value`: what comes of a job that is no block.
    """

    marker: Marker | None = None
    failure: Failure | None = None
    value: Any = None
    rss_mb: float = 0.0


def work(task: Task) -> Result:
    """Run and commit one block; never raises for what a stage or a disk does."""
    try:
        return Result(marker=_run(task), rss_mb=resident_mb())
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return Result(failure=Failure(kind="died", message=f"out of memory: {error}"))
        ours = error.errno in READ_ONLY and _inside(error, task.out)
        if ours or error.errno in (*FULL, UNREACHABLE):
            failure = Failure(kind="storage", message=str(error), errno=error.errno or 0)
        else:
            failure = Failure(kind="raised", message=_last_words(error))
        return Result(failure=failure, rss_mb=resident_mb())
    except MemoryError as error:
        # What this process holds, not the item, may be too much: a fresh one tries again.
        return Result(failure=Failure(kind="died", message=f"out of memory: {_last_words(error)}"))
    except CorruptBlockError as error:
        # An input changed on disk since the scan: the fault is the disk's, not the item's.
        return Result(failure=Failure(kind="storage", message=str(error)), rss_mb=resident_mb())
    except Exception as error:
        return Result(
            failure=Failure(kind="raised", message=_last_words(error)), rss_mb=resident_mb()
        )


def _run(task: Task) -> Marker:
    store = Store(output_path(task.out))
    stage = load(task.spec)()
    inputs = {place: _cached(store, place[0], address) for place, address in task.inputs.items()}
    seeds = {item.id: task.seeds[item.id] for item in task.items}
    start = time.monotonic()
    outcomes = stage.run(task.items, inputs, task.config, seeds)
    seconds = time.monotonic() - start
    check_outcomes(task, outcomes, stage.record)
    return commit(store, task, outcomes, seconds)


def commit(store: Store, task: Task, outcomes: Sequence[Outcome], seconds: float) -> Marker:
    """Store outcomes as one block."""
    rows: list[Row] = []
    records: list[Any] = []
    for outcome in outcomes:
        index = len(records) if outcome.code == OK else None
        if index is not None:
            records.append(outcome.record)
        rows.append(
            Row(
                id=outcome.id,
                key=task.keys[outcome.id],
                own=task.own[outcome.id],
                code=outcome.code,
                # a file name may hold bytes that are no UTF-8; a marker may not
                message=_message(outcome, task.reasons.get(outcome.id, ""))[:MESSAGE_LIMIT]
                .encode(errors="replace")
                .decode(),
                index=index,
                attempt=task.attempts.get(outcome.id, 0),
            )
        )
    return store.commit(stage=task.stage, rows=rows, records=records, seconds=seconds)


def _message(outcome: Outcome, before: str) -> str:
    if not before or before == outcome.message:
        return outcome.message
    return f"{outcome.message} (before: {before})" if outcome.message else f"before: {before}"


def check_outcomes(task: Task, outcomes: Sequence[Outcome], record: type) -> None:
    """Raise StageContractError unless there is one outcome per item, in order."""
    expected, got = [item.id for item in task.items], [o.id for o in outcomes]
    if expected != got:
        raise StageContractError(
            f"stage {task.stage} returned outcomes for {got[:3]}..., expected one per item in "
            f"order: {expected[:3]}..."
        )
    for outcome in outcomes:
        if outcome.code == OK and not isinstance(outcome.record, record):
            raise StageContractError(
                f"stage {task.stage}, item {outcome.id}: expected a {record.__name__}, got "
                f"{type(outcome.record).__name__}"
            )


class _Cache:
    """Input blocks of this process, least recently used out first, bounded in bytes."""

    def __init__(self) -> None:
        self.blocks: OrderedDict[tuple[str, str, str], dict[int, Any]] = OrderedDict()
        self.sizes: dict[tuple[str, str, str], int] = {}
        self.lock = threading.Lock()  # a Dask worker may have several threads

    def get(self, store: Store, stage: str, address: Address) -> dict[int, Any]:
        with self.lock:
            return self._get(store, stage, address)

    def _get(self, store: Store, stage: str, address: Address) -> dict[int, Any]:
        place = (str(store.out), stage, address.block)
        if place in self.blocks:
            self.blocks.move_to_end(place)
            return self.blocks[place]
        records = store.read(stage, address.block, load(address.spec).record)
        self.blocks[place] = records
        self.sizes[place] = file_size(store.npz_path(stage, address.block))
        while sum(self.sizes.values()) > CACHE_BYTES and len(self.blocks) > 1:
            old, _ = self.blocks.popitem(last=False)
            del self.sizes[old]
        return records


_cache = _Cache()


def _cached(store: Store, stage: str, address: Address) -> Any:
    return _cache.get(store, stage, address)[address.index]


def _last_words(error: BaseException) -> str:
    text = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return text
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})"


def _inside(error: OSError, out: str) -> bool:
    return isinstance(error.filename, str) and error.filename.startswith(out)


def resident_mb() -> float:
    """Resident memory of this process, MiB; 0 where the system does not tell."""
    try:
        import os

        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0
