"""Plan -> tasks -> executor -> committed blocks, stage after stage. Every item gets one outcome."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.config import RunConfig
from pipeline.errors import BudgetError, StorageError
from pipeline.executors import Executor
from pipeline.files import storage_error
from pipeline.ledger import (
    CRASHED,
    TIMED_OUT,
    UPSTREAM_FAILED,
    Ledger,
    State,
    count_codes,
    scan,
    states,
)
from pipeline.plan import StagePlan, block_size, make_blocks
from pipeline.progress import Progress
from pipeline.store import Store
from pipeline.work import Address, Failure, Task, commit
from stages.contract import OK, Item, Outcome

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
    states: Mapping[str, Mapping[str, State]]

    @property
    def did_nothing(self) -> bool:
        return all(summary.done_now == 0 for summary in self.summaries)


def survey(
    store: Store, plans: Mapping[str, StagePlan], *, retry: bool, deep: bool
) -> tuple[Ledger, dict[str, dict[str, State]]]:
    """What of `plans` is done, and why the rest is not; reads only.

    An item whose input is still to do counts as to do: its key says that the input changed.
    """
    ledger = scan(store, list(plans), deep=deep)
    codes: dict[tuple[str, str], str | None] = {}
    out: dict[str, dict[str, State]] = {}
    for name, plan in plans.items():
        out[name] = states(plan, ledger, codes, retry=retry)
        codes |= {(name, item_id): state.code for item_id, state in out[name].items()}
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
    codes: dict[tuple[str, str], str | None] = {}
    summaries: list[StageSummary] = []
    found_all: dict[str, dict[str, State]] = {}
    for name, plan in plans.items():
        before = states(plan, ledger, codes, retry=retry)
        todo = [item for item in plan.items if before[item.id].code is None]
        start = time.monotonic()
        work = _StageWork(config=config, plan=plan, plans=plans, store=store, ledger=ledger)
        work.run(executor, todo, before)
        found = states(plan, ledger, codes, retry=False)
        codes |= {(name, item_id): state.code for item_id, state in found.items()}
        found_all[name] = found
        counts = Counter(count_codes(found))
        summary = StageSummary(
            name=name,
            items=len(plan.items),
            before=len(plan.items) - len(todo) - counts[UPSTREAM_FAILED],
            codes=dict(counts),
            seconds=time.monotonic() - start,
        )
        summaries.append(summary)
        if summary.failed_fraction > config.max_failure_fraction:
            raise BudgetError(summary.name, summary.codes, config.max_failure_fraction, summaries)
    return RunResult(summaries=tuple(summaries), states=found_all)


@dataclass(frozen=True, kw_only=True, slots=True)
class _StageWork:
    config: RunConfig
    plan: StagePlan
    plans: Mapping[str, StagePlan]
    store: Store
    ledger: Ledger

    def run(self, executor: Executor, todo: Sequence[Item], before: Mapping[str, State]) -> None:
        """Blocks first; what a block could not do is repeated item by item, then coded."""
        attempts = {
            item.id: entry.row.attempt + 1 if (entry := before[item.id].entry) else 0
            for item in todo
        }
        size = block_size(todo, self.config.block_size, executor.slots)
        tasks = [self._task(block, attempts) for block in make_blocks(todo, size)]
        deaths: Counter[str] = Counter()
        with Progress(self.plan.name, len(todo), len(self.plan.items)) as progress:
            while tasks:
                again: list[Task] = []
                for task, result in executor.run(tasks):
                    if result.marker is not None:
                        self.ledger.add(result.marker)
                        bad = sum(row.code != OK for row in result.marker.rows)
                        progress.advance(len(task.items), bad)
                    elif result.failure is not None:
                        again += self._after(task, result.failure, deaths, attempts, progress)
                tasks = again

    def _after(
        self,
        task: Task,
        failure: Failure,
        deaths: "Counter[str]",
        attempts: Mapping[str, int],
        progress: Progress,
    ) -> list[Task]:
        """Tasks that take the place of one that gave no outcomes."""
        if failure.kind == "storage":
            error = OSError(failure.errno, failure.message, str(self.store.out))
            raise storage_error(self.store.out, error) or StorageError(failure.message)
        if len(task.items) > 1:
            return [self._task((item,), attempts) for item in task.items]
        item = next(iter(task.items))
        if failure.kind == "died":
            deaths[item.id] += 1
            if deaths[item.id] < DEATHS:
                return [task]
        code = TIMED_OUT if failure.kind == "timed_out" else CRASHED
        outcome = Outcome(id=item.id, code=code, message=failure.message)
        try:
            self.ledger.add(commit(self.store, task, [outcome], 0.0))
        except OSError as error:
            raise storage_error(self.store.out, error) or error from error
        progress.advance(1, 1)
        return []

    def _task(self, items: Iterable[Item], attempts: Mapping[str, int]) -> Task:
        items = tuple(items)
        plan = self.plan

        def of(values: Mapping[str, object]) -> dict[str, object]:
            return {item.id: values[item.id] for item in items}

        return Task(
            out=str(Path(self.store.out).resolve()),
            stage=plan.name,
            spec=plan.spec,
            config=plan.config,
            items=items,
            keys=of(plan.keys),  # type: ignore[arg-type]
            own=of(plan.own),  # type: ignore[arg-type]
            seeds=of(plan.seeds),  # type: ignore[arg-type]
            attempts=of(attempts),  # type: ignore[arg-type]
            inputs={place: self._address(place) for item in items for place in item.inputs},
            timeout_s=self.config.item_timeout_s * len(items),
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
