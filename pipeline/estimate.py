"""How long what is to do will take and how much it will store, from blocks that were timed.

Rates come from the markers of OUT where a stage has some, else from a calibration: a few items of
every stage, spread over the plan, really run in a scratch folder by one warm process. An estimate
is a range. Of few blocks it goes from the fastest to the slowest, of many it is the mean and twice
its standard error; both assume that what is to do is like what was timed.
"""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.config import RunConfig
from pipeline.executors.processes import ProcessExecutor
from pipeline.ledger import States
from pipeline.plan import StagePlan
from pipeline.runner import run_stages
from pipeline.store import Marker, Store
from pipeline.work import work
from stages.contract import Item

SAMPLE_ITEMS = 4  # of every stage that no other reads; the others get what these need
SAMPLE_MARKERS = 200  # read of a stage that has more, evenly spread
FEW = 10  # blocks, below which the range is that of the blocks themselves
LEAST_MARGIN = 0.1  # of the mean: machines differ from hour to hour by more than their averages


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    low: float
    high: float

    def times(self, factor: float) -> "Range":
        return Range(low=self.low * factor, high=self.high * factor)

    def plus(self, other: "Range") -> "Range":
        return Range(low=self.low + other.low, high=self.high + other.high)


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEstimate:
    """`seconds` of one worker and `size` (bytes of blocks) for all items to do; None: not timed."""

    name: str
    items: int
    todo: int
    seconds: Range | None
    size: Range | None
    source: str  # what the rates come from


def spread(values: Sequence[float]) -> Range:
    """Where the mean of many more such values lies. Raises ValueError for none."""
    if not values:
        raise ValueError("no values to estimate from")
    if len(values) < FEW:
        return Range(low=min(values), high=max(values))
    mean = math.fsum(values) / len(values)
    variance = math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)
    margin = max(2 * math.sqrt(variance / len(values)), LEAST_MARGIN * mean)
    return Range(low=max(0.0, mean - margin), high=mean + margin)


def timed_markers(store: Store, stage: str) -> list[Marker]:
    """Some markers of blocks that a stage ran, not of failures that the conductor coded."""
    paths = store.markers(stage)
    step = max(1, math.ceil(len(paths) / SAMPLE_MARKERS))
    markers = [store.read_marker(path) for path in paths[::step]]
    return [marker for marker in markers if marker.seconds > 0]


def sample(plans: Mapping[str, StagePlan], count: int) -> dict[str, StagePlan]:
    """The plans cut down to `count` items of every last stage and what these read."""
    read = {name for plan in plans.values() for name in plan.needs}
    chosen: dict[str, dict[str, Item]] = {name: {} for name in plans}
    for name, plan in reversed(list(plans.items())):
        if name not in read:
            last = len(plan.items) - 1
            steps = max(1, min(count, len(plan.items)) - 1)
            for i in range(min(count, len(plan.items))):
                item = plan.items[last * i // steps]
                chosen[name][item.id] = item
        for item in chosen[name].values():
            for stage, input_id in item.inputs:
                chosen[stage][input_id] = plans[stage].item(input_id)
    return {name: replace(p, items=list(chosen[name].values())) for name, p in plans.items()}


def calibrate(config: RunConfig, plans: Mapping[str, StagePlan]) -> dict[str, list[Marker]]:
    """Markers of a few items of every stage, run alone in a scratch folder that is removed.

    A first item warms the process: what a library takes to load is not what an item takes.
    """
    alone = replace(config, block_size=1, max_failure_fraction=1.0)
    executor = ProcessExecutor(work, workers=1, max_rss_mb=config.worker_max_rss_mb)
    found: dict[str, list[Marker]] = {}
    try:
        for count in (1, SAMPLE_ITEMS):
            with tempfile.TemporaryDirectory(prefix="calibration-") as folder:
                store = Store(Path(folder))
                store.open()
                run_stages(alone, sample(plans, count), store, executor, say=lambda _: None)
                found = {name: timed_markers(store, name) for name in plans}
    finally:
        executor.close()
    return found


def estimate(
    config: RunConfig,
    plans: Mapping[str, StagePlan],
    states: Mapping[str, States],
    store: Store,
    *,
    say: Callable[[str], None] = print,
) -> list[StageEstimate]:
    """One estimate per stage, in order; runs a calibration if a stage to do was never timed."""
    todo = {
        name: sum(n for (code, _), n in found.tally.items() if code is None)
        for name, found in states.items()
    }
    recorded = {name: timed_markers(store, name) for name in plans}
    tried: dict[str, list[Marker]] = {}
    if untimed := [name for name in plans if todo[name] and not recorded[name]]:
        say(f"calibration: a few items of {', '.join(untimed)} in a scratch folder")
        tried = calibrate(config, plans)
    out: list[StageEstimate] = []
    for name, plan in plans.items():
        markers = recorded[name] or tried.get(name, [])
        source = f"{len(markers)} {'blocks of OUT' if recorded[name] else 'items tried'}"
        seconds = size = None
        if not todo[name]:
            seconds, size, source = Range(low=0, high=0), Range(low=0, high=0), "done"
        elif markers:
            seconds = spread([m.seconds / len(m.rows) for m in markers]).times(todo[name])
            size = spread([m.size / len(m.rows) for m in markers]).times(todo[name])
        out.append(
            StageEstimate(
                name=name, items=len(plan.items), todo=todo[name],
                seconds=seconds, size=size, source=source,
            )
        )  # fmt: skip
    return out


def estimate_table(estimates: Sequence[StageEstimate], workers: int) -> str:
    """Per stage and in all: items, worker-hours, GiB of blocks, and hours with `workers`."""
    lines = [f"{'stage':<8}{'to do':>11}{'worker-hours':>21}{'GiB of blocks':>21}  from"]
    seconds = size = Range(low=0, high=0)
    for e in estimates:
        if e.seconds is None or e.size is None:
            lines.append(f"{e.name:<8}{e.todo:>11}{'unknown':>21}{'unknown':>21}  {e.source}")
            continue
        seconds, size = seconds.plus(e.seconds), size.plus(e.size)
        hours, gib = _text(e.seconds.times(1 / 3600)), _text(e.size.times(2**-30))
        lines.append(f"{e.name:<8}{e.todo:>11}{hours:>21}{gib:>21}  {e.source}")
    hours, gib = _text(seconds.times(1 / 3600)), _text(size.times(2**-30))
    lines.append(f"{'all':<8}{sum(e.todo for e in estimates):>11}{hours:>21}{gib:>21}")
    wall = _text(seconds.times(1 / 3600 / max(1, workers)))
    lines.append(
        f"about {wall} hours with {max(1, workers)} at once that all stay busy. Shards come on "
        "top, compressed: at most what render, grasp and label store"
    )
    return "\n".join(lines)


def _text(value: Range) -> str:
    if f"{value.low:.2g}" == f"{value.high:.2g}":
        return _number(value.high)
    return f"{_number(value.low)} to {_number(value.high)}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"
