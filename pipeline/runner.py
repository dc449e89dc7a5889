"""Plan -> tasks -> executor -> committed blocks, stage after stage. Every item gets one outcome."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pipeline.config import RunConfig
from pipeline.errors import BudgetError, StorageError
from pipeline.executors import Executor
from pipeline.files import storage_error
from pipeline.keys import Seeds
from pipeline.ledger import (
    CRASHED,
    TIMED_OUT,
    UPSTREAM_FAILED,
    Ledger,
    States,
    scan,
)
from pipeline.plan import StagePlan, block_size, make_blocks
from pipeline.progress import Progress
from pipeline.store import Store
from pipeline.work import Address, Failure, Task, commit
from stages.contract import OK, Item, ItemTable, Outcome
from stages.storage import is_remote

GPU = "GPU"  # the name of the resource, as Dask's documentation spells it
DEATHS = 2  # a lone item whose worker dies this often is coded; once may be someone else's kill


@dataclass(frozen=True, kw_only=True, slots=True)
class StageSummary:
    """What a stage did in this run. `codes` counts the outcomes of all planned items."""

    name: str
    items: int
    before: int  # outcomes that were there already
    codes: Mapping[str, int]
    seconds: float  # wall clock

    @property
    def done_now(self) -> int:
        return self.items - self.before - self.codes.get(UPSTREAM_FAILED, 0)

    @property
    def failed(self) -> int:
        """Own failures; what failed upstream is counted there."""
        return sum(n for code, n in self.codes.items() if code not in (OK, UPSTREAM_FAILED))

    @property
    def failed_fraction(self) -> float:
        attempted = self.items - self.codes.get(UPSTREAM_FAILED, 0)
        return self.failed / attempted if attempted else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """Summaries in order of work, and the state of every item by stage."""

    summaries: tuple[StageSummary, ...]
    states: Mapping[str, States]

    @property
    def did_nothing(self) -> bool:
        return all(summary.done_now == 0 for summary in self.summaries)


def survey(
    store: Store, plans: Mapping[str, StagePlan], *, retry: bool, deep: bool
) -> tuple[Ledger, dict[str, States]]:
    """What of `plans` is done, and why the rest is not; reads only.

    An item whose input is still to do counts as to do: its key says that the input changed.
    """
    ledger = scan(store, list(plans), deep=deep)
    out: dict[str, States] = {}
    for name, plan in plans.items():
        out[name] = States(plan, ledger, out, retry=retry)
    return ledger, out


def run_stages(
    config: RunConfig,
    plans: Mapping[str, StagePlan],
    store: Store,
    executor: Executor,
    *,
    retry: bool = False,
    say: Callable[[str], None] = print,
) -> RunResult:
    """Do whatever of `plans` is not done. The caller holds the output's lock.

    Raises BudgetError after a stage in which more than `max_failure_fraction` failed (its
    outcomes are kept), and StorageError when the output can no longer be written.
    """
    store.clean()
    ledger = scan(store, list(plans), deep=True)
    for stage, block, error in ledger.corrupt:
        say(f"{stage}: {error}")
        store.remove(stage, block)
    summaries: list[StageSummary] = []
    found: dict[str, States] = {}
    for name, plan in plans.items():
        before = States(plan, ledger, found, retry=retry)
        counts = Counter[str]()
        for (code, _), n in before.tally.items():
            counts[code or ""] += n
        todo = counts.pop("", 0)
        start = time.monotonic()
        work = _StageWork(config=config, plan=plan, plans=plans, store=store, ledger=ledger)
        counts += work.run(executor, todo, before)
        tally = Counter[tuple[str | None, str]]({(code, ""): n for code, n in counts.items()})
        found[name] = States(plan, ledger, found, tally=tally)
        summary = StageSummary(
            name=name,
            items=len(plan.items),
            before=len(plan.items) - todo - counts[UPSTREAM_FAILED],
            codes=dict(counts),
            seconds=time.monotonic() - start,
        )
        summaries.append(summary)
        if summary.failed_fraction > config.max_failure_fraction:
            raise BudgetError(summary.name, summary.codes, config.max_failure_fraction, summaries)
    return RunResult(summaries=tuple(summaries), states=found)


@dataclass(frozen=True, kw_only=True, slots=True)
class _StageWork:
    config: RunConfig
    plan: StagePlan
    plans: Mapping[str, StagePlan]
    store: Store
    ledger: Ledger

    def run(self, executor: Executor, todo: int, before: States) -> "Counter[str]":
        """Blocks first; what a block could not do is repeated item by item, then coded.

        Returns how many of the `todo` items got each code.
        """
        codes = Counter[str]()
        if not todo:
            return codes
        tasks: Iterable[Task] = self._tasks(before, todo, executor.slots)
        deaths: Counter[str] = Counter()
        with Progress(self.plan.name, todo, len(self.plan.items)) as progress:
            while tasks:
                again: list[Task] = []
                for task, result in executor.run(tasks):
                    if result.marker is not None:
                        self.ledger.add(result.marker)
                        codes.update(row.code for row in result.marker.rows)
                        bad = sum(row.code != OK for row in result.marker.rows)
                        progress.advance(len(task.items), bad)
                    elif result.failure is not None:
                        again += self._after(task, result.failure, deaths, codes, progress)
                tasks = sorted(again, key=lambda task: task.alone)
        return codes

    def _tasks(self, before: States, todo: int, slots: int) -> Iterator[Task]:
        """Tasks one after another, as the executor asks: a large stage is never held whole."""
        items = before.todo() if isinstance(self.plan.items, ItemTable) else list(before.todo())
        known = items if isinstance(items, list) else self.plan.items
        size = block_size(known, self.config.block_size, slots, todo=todo)
        for block in make_blocks(items, size):
            entries = {item.id: before.of(item).entry for item in block}
            attempts = {i: e.row.attempt + 1 if e else 0 for i, e in entries.items()}
            yield self._task(block, attempts)

    def _after(
        self,
        task: Task,
        failure: Failure,
        deaths: "Counter[str]",
        codes: "Counter[str]",
        progress: Progress,
    ) -> list[Task]:
        """Tasks that take the place of one that gave no outcomes."""
        if failure.kind == "storage":
            error = OSError(failure.errno, failure.message, str(self.store.out))
            raise storage_error(self.store.out, error) or StorageError(failure.message)
        if len(task.items) > 1:
            reason = f"{failure.kind} in a block of {len(task.items)}: {failure.message}"
            reasons = {item.id: reason for item in task.items}
            return [self._task((item,), task.attempts, reasons) for item in task.items]
        item = next(iter(task.items))
        if failure.kind == "died":
            deaths[item.id] += 1
            if deaths[item.id] < DEATHS:
                reasons = {item.id: f"{failure.kind}: {failure.message}"}
                return [replace(task, reasons=reasons, alone=True)]
        code = TIMED_OUT if failure.kind == "timed_out" else CRASHED
        outcome = Outcome(id=item.id, code=code, message=failure.message)
        if task.reasons.get(item.id, "").startswith(failure.kind):
            task = replace(task, reasons={})  # the same twice: once is enough
        try:
            self.ledger.add(commit(self.store, task, [outcome], 0.0))
        except OSError as error:
            raise storage_error(self.store.out, error) or error from error
        codes[code] += 1
        progress.advance(1, 1)
        return []

    def _task(
        self,
        items: Iterable[Item],
        attempts: Mapping[str, int],
        reasons: Mapping[str, str] | None = None,
    ) -> Task:
        items = tuple(items)
        plan = self.plan
        out = self.store.out
        places = dict.fromkeys(place for item in items for place in item.inputs)

        def of(values: Mapping[str, object]) -> dict[str, object]:
            return {item.id: values[item.id] for item in items}

        return Task(
            out=str(out if is_remote(out) else out.resolve()),
            stage=plan.name,
            spec=plan.spec,
            config=plan.config,
            items=items,
            keys={item.id: plan.keys.of(item) for item in items},
            own={item.id: plan.own.of(item) for item in items},
            seeds=Seeds(plan.root_seed, plan.name),
            attempts=of(attempts),  # type: ignore[arg-type]
            inputs={place: self._address(place) for place in places},
            timeout_s=self.config.item_timeout_s * len(items),
            resource=GPU if plan.name in self.config.gpu_stages else "",
            reasons=of(reasons) if reasons else {},  # type: ignore[arg-type]
        )

    def _address(self, place: tuple[str, str]) -> Address:
        stage, item_id = place
        plan = self.plans[stage]
        entry = self.ledger.find(stage, plan.keys[item_id])
        if entry is None or entry.row.index is None:
            raise LookupError(f"{stage} {item_id}: planned as an input, but it has no record")
        return Address(spec=plan.spec, block=entry.block, index=entry.row.index)


def with_runtime(config: RunConfig, **changes: object) -> RunConfig:
    """`config` with those of `changes` that are not None: what a command line may override."""
    return replace(config, **{k: v for k, v in changes.items() if v is not None})  # type: ignore[arg-type]
