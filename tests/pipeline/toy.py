"""Small real stages for the conductor's tests, with faults that really happen.

`python -m tests.pipeline.toy OUT WORKERS BLOCK PAUSE` runs them as `pipeline run` would.
"""

import hashlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.config import build_config
from pipeline.executors import Executor
from pipeline.executors.inline import InlineExecutor
from pipeline.executors.processes import ProcessExecutor
from pipeline.files import lock
from pipeline.graph import parse_targets
from pipeline.plan import StagePlan, make_plan
from pipeline.publish import Records
from pipeline.registry import Registry
from pipeline.runner import RunResult, run_stages
from pipeline.store import Store
from pipeline.work import work
from schemas.records import encode
from stages.contract import OK, PLAN_ONLY, Item, Outcome


def ids() -> Any:
    """Item ids at which a fault happens; not part of the key, as a real fault would not be."""
    return field(default=(), metadata=PLAN_ONLY)


@dataclass(frozen=True, kw_only=True, slots=True)
class WalkConfig:
    count: int = field(default=6, metadata=PLAN_ONLY)
    steps: int = 50
    scale: float = 1.0
    pause_s: float = field(default=0.0, metadata=PLAN_ONLY)
    fail: tuple[str, ...] = ids()
    throw: tuple[str, ...] = ids()
    die: tuple[str, ...] = ids()
    hang: tuple[str, ...] = ids()
    bloat_mb: int = field(default=0, metadata=PLAN_ONLY)


@dataclass(frozen=True, kw_only=True, slots=True)
class PairConfig:
    views: int = field(default=2, metadata=PLAN_ONLY)
    gain: float = 2.0
    pause_s: float = field(default=0.0, metadata=PLAN_ONLY)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Walk:
    name: str
    points: NDArray[np.float64]  # (steps, 2) m


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pair:
    names: tuple[str, ...]
    distance: NDArray[np.float64]  # (steps,) m
    noise: float


_hoard: list[bytearray] = []


class WalkStage:
    """Random walks."""

    name: ClassVar[str] = "walk"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ()
    record: ClassVar[type] = Walk

    def plan(self, config: WalkConfig, upstream: Mapping[str, Sequence[Item]]) -> list[Item]:
        return [Item(id=f"w{i:03d}", tags={"split": "train"}) for i in range(config.count)]

    def run(
        self,
        items: Sequence[Item],
        inputs: Mapping[tuple[str, str], Any],
        config: WalkConfig,
        seeds: Mapping[str, int],
    ) -> list[Outcome]:
        return [self._one(item, config, seeds[item.id]) for item in items]

    def _one(self, item: Item, config: WalkConfig, seed: int) -> Outcome:
        time.sleep(config.pause_s)
        _hoard.append(bytearray(os.urandom(1) * (config.bloat_mb * 2**20)))
        if item.id in config.fail:
            return Outcome(id=item.id, code="bad_walk", message="it was asked to fail")
        if item.id in config.throw:
            raise ArithmeticError(f"no walk for {item.id}")
        if item.id in config.die:
            os.kill(os.getpid(), signal.SIGKILL)
        if item.id in config.hang:
            time.sleep(600)
        rng = np.random.default_rng(seed)
        points = np.cumsum(rng.normal(size=(config.steps, 2)) * config.scale, axis=0)
        return Outcome(id=item.id, record=Walk(name=item.id, points=points))


class PairStage:
    """Distances between neighbouring walks, several noisy views of each."""

    name: ClassVar[str] = "pair"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("walk",)
    record: ClassVar[type] = Pair

    def plan(self, config: PairConfig, upstream: Mapping[str, Sequence[Item]]) -> list[Item]:
        walks = upstream["walk"]
        return [
            Item(
                id=f"{a.id}-{b.id}/v{view}",
                params={"view": view},
                inputs=(("walk", a.id), ("walk", b.id)),
                group=f"{a.id}-{b.id}",
            )
            for a, b in pairwise(walks)
            for view in range(config.views)
        ]

    def run(
        self,
        items: Sequence[Item],
        inputs: Mapping[tuple[str, str], Any],
        config: PairConfig,
        seeds: Mapping[str, int],
    ) -> list[Outcome]:
        out: list[Outcome] = []
        for item in items:
            time.sleep(config.pause_s)
            a, b = (inputs[place] for place in item.inputs)
            noise = float(np.random.default_rng(seeds[item.id]).normal())
            distance = config.gain * np.linalg.norm(a.points - b.points, axis=1) + noise
            record = Pair(names=(a.name, b.name), distance=distance, noise=noise)
            out.append(Outcome(id=item.id, record=record))
        return out


REGISTRY = Registry(
    stages={"walk": f"{__name__}:WalkStage", "pair": f"{__name__}:PairStage"},
    configs={"walk": f"{__name__}:WalkConfig", "pair": f"{__name__}:PairConfig"},
    publishers={},
)


def planned(data: Mapping[str, Any], targets: str = "pair") -> dict[str, StagePlan]:
    config = build_config(data, registry=REGISTRY)
    return make_plan(config, parse_targets(targets, REGISTRY), REGISTRY)


def run_toy(
    out: Path,
    data: Mapping[str, Any],
    *,
    executor: Executor | None = None,
    workers: int = 0,
    targets: str = "pair",
    retry: bool = False,
    said: list[str] | None = None,
) -> tuple[RunResult, str]:
    """Run into `out`; the result and the digest of every record and code."""
    config = build_config(data, registry=REGISTRY)
    plans = make_plan(config, parse_targets(targets, REGISTRY), REGISTRY)
    store = Store(out)
    store.open()
    if executor is None:
        executor = InlineExecutor() if workers == 0 else ProcessExecutor(work, workers=workers)
    with lock(out):
        try:
            say = [].append if said is None else said.append
            result = run_stages(config, plans, store, executor, retry=retry, say=say)
        finally:
            executor.close()
    return result, content_digest(store, plans, result)


def content_digest(store: Store, plans: Mapping[str, StagePlan], result: RunResult) -> str:
    """sha256 of all codes and records in the order of ids: blind to blocks."""
    found = hashlib.sha256()
    records = Records(store, plans, result.states)
    for stage, states in result.states.items():
        for item_id in sorted(states):
            found.update(f"{stage} {item_id} {states[item_id].code}\n".encode())
            if states[item_id].code == OK:
                for name, array in sorted(encode(records.get(stage, item_id)).items()):
                    found.update(f"{name} {array.dtype} {array.shape}\n".encode())
                    found.update(array.tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    folder, workers, block, pause = sys.argv[1:5]
    values = {
        "block_size": int(block),
        "walk": {"count": 8, "pause_s": float(pause)},
        "pair": {"pause_s": float(pause)},
    }
    # Under its importable name, since spawned workers import the stages again.
    from tests.pipeline.toy import run_toy as run

    print(run(Path(folder), values, workers=int(workers))[1])
