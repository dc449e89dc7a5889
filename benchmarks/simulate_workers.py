"""How far a run scales: a discrete-event simulation with recorded task times.

    python -m benchmarks.simulate_workers [--out OUT --stage render] [--workers 1 --workers 10000]

Every block passes the conductor (its task is made), the scheduler, a worker, the store, and the
conductor again (its marker is taken in). Conductor and scheduler serve one block at a time, the
store so many at once, and each has its queue. Worker times are drawn from the markers of OUT, or
are exponential around `task_s`. Costs default to what `benchmarks.bench_scale` measured.
"""

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from pipeline.store import Store

BLOCKS_PER_WORKER = (
    12  # simulated for each worker, of which the first quarter and the last round do not count
)
MAX_BLOCKS = 120_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """Seconds a block takes at each station, and how many the store serves at once."""

    make_s: float = 0.0008  # conductor: 16 keys, the task, its pickle
    schedule_s: float = 0.0016  # Dask's scheduler and client
    store_s: float = 0.033  # block and marker, each with its fsync
    store_slots: int = 64  # writes that the file system has under way at once
    take_s: float = 0.0001  # conductor: the marker of 16 rows
    task_s: float = 0.30  # mean time of a worker on a block of 16 clouds, when none is recorded
    prefetch: int = 0  # blocks queued for each worker beyond the one it runs


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """`efficiency`: share of the workers' time that is work. `busy`: share of time by station."""

    workers: int
    blocks_s: float
    efficiency: float
    busy: dict[str, float]


class _Station:
    """`slots` servers with one queue, first come first served."""

    def __init__(self, slots: int) -> None:
        self.slots, self.free = slots, slots
        self.queue: deque[tuple[str, int]] = deque()


def simulate(workers: int, costs: Costs, times: Sequence[float] = (), seed: int = 0) -> Scaling:
    """The middle of a run of BLOCKS_PER_WORKER blocks each; `times` (s) are drawn from."""
    rng = random.Random(seed)
    total = min(MAX_BLOCKS, max(400, BLOCKS_PER_WORKER * workers))
    stations = {
        "conductor": _Station(1), "scheduler": _Station(1),
        "worker": _Station(workers), "store": _Station(costs.store_slots),
    }  # fmt: skip
    route = {"make": "conductor", "schedule": "scheduler", "work": "worker",
             "store": "store", "take": "conductor"}  # fmt: skip
    after = {"make": "schedule", "schedule": "work", "work": "store", "store": "take"}
    fixed = {"make": costs.make_s, "schedule": costs.schedule_s, "store": costs.store_s,
             "take": costs.take_s}  # fmt: skip
    events: list[tuple[float, int, str]] = []
    now, work_s, number, started, done = 0.0, 0.0, 0, 0, 0
    since = until = (0.0, 0)  # time and blocks done, between start-up and the last blocks

    def arrive(step: str) -> None:
        nonlocal number, work_s
        station = stations[route[step]]
        if not station.free:
            station.queue.append((step, number))
            return
        station.free -= 1
        spent = fixed.get(step)
        if spent is None:
            spent = rng.choice(times) if times else rng.expovariate(1 / costs.task_s)
        work_s += spent if step == "work" else 0.0
        number += 1
        heapq.heappush(events, (now + spent, number, step))

    for _ in range(min(total, workers * (1 + costs.prefetch))):
        started += 1
        arrive("make")
    while done < total:
        now, _, step = heapq.heappop(events)
        station = stations[route[step]]
        station.free += 1
        if station.queue:
            arrive(station.queue.popleft()[0])
        if step != "take":
            arrive(after[step])
            continue
        done += 1
        if done == total // 4:
            since = (now, done)
        if started < total:
            started += 1
            until = (now, done)
            arrive("make")
    rate = (until[1] - since[1]) / (until[0] - since[0])
    busy = {
        "conductor": rate * (costs.make_s + costs.take_s),
        "scheduler": rate * costs.schedule_s,
        "worker": rate * work_s / total / workers,
        "store": rate * costs.store_s / costs.store_slots,
    }
    return Scaling(workers=workers, blocks_s=rate, efficiency=busy["worker"], busy=busy)


def recorded_times(out: Path, stage: str) -> list[float]:
    """Seconds of the stage's blocks in OUT."""
    store = Store(out)
    return [m.seconds for p in store.markers(stage) if (m := store.read_marker(p)).seconds > 0]


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="Take the times of this output.")
@click.option("--stage", default="render", show_default=True)
@click.option("--workers", multiple=True, type=int, default=(1, 10, 100, 300, 1000, 3000, 10_000))
@click.option("--task", "task_s", type=float, help="Mean seconds of a block.")
def main(out: Path | None, stage: str, workers: tuple[int, ...], task_s: float | None) -> None:
    """Print blocks/s and the share of time that each station works."""
    times = recorded_times(out, stage) if out else []
    costs = Costs() if task_s is None else replace(Costs(), task_s=task_s)
    print(
        f"{'workers':>8}{'blocks/s':>10}{'worker':>9}{'conductor':>11}{'scheduler':>11}{'store':>8}"
    )
    for count in workers:
        s = simulate(count, costs, times)
        print(
            f"{count:>8}{s.blocks_s:>10.1f}{s.efficiency:>9.2f}{s.busy['conductor']:>11.2f}"
            f"{s.busy['scheduler']:>11.2f}{s.busy['store']:>8.2f}"
        )


if __name__ == "__main__":
    main()
