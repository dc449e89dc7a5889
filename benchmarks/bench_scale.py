"""What the conductor, the scheduler, the store and the shard step cost per block.

    python -m benchmarks.bench_scale [--scenes 1000000] [--views 256] [--blocks 300]

Prints the planning time and memory of the whole, and the seconds of every station of
`benchmarks.simulate_workers`. Those of a processor are in its own seconds, so that a busy machine
does not change them; planning, storing and scanning are in seconds of the wall.
"""

import pickle
import resource
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from pipeline.config import build_config
from pipeline.executors.clusters import start_executor
from pipeline.graph import parse_targets
from pipeline.keys import Seeds
from pipeline.ledger import Ledger
from pipeline.plan import StagePlan, make_blocks, make_plan
from pipeline.registry import Registry
from pipeline.runner import survey
from pipeline.store import Row, Store
from pipeline.summary import explain
from pipeline.work import Address, Task
from schemas.records import Cloud
from stages.contract import Item

OBJECTS = (
    "003_cracker_box", "004_sugar_box", "005_tomato_soup_can", "006_mustard_bottle",
           "010_potted_meat_can", "011_banana", "013_apple", "035_power_drill", "009_gelatin_box",
           "025_mug", "055_baseball", "014_lemon", "021_bleach_cleanser", "061_foam_brick",
)  # fmt: skip
BLOCK = 16  # items of a block, the default
POINTS = 2048  # of a cloud


def plan(scenes: int, views: int) -> dict[str, StagePlan]:
    registry = Registry()
    data: dict[str, Any] = {
        "assets": {"objects": [f"ycb://{name}" for name in OBJECTS]},
        "scene": {"floating": 0, "tabletop": scenes // 2, "clutter": scenes - scenes // 2},
        "render": {"views": views},
    }
    config = build_config(data, registry=registry)
    return make_plan(config, parse_targets("render", registry), registry)


def task_of(plan: StagePlan, items: tuple[Item, ...], out: Path) -> Task:
    places = {place for item in items for place in item.inputs}
    return Task(
        out=str(out), stage=plan.name, spec=plan.spec, config=plan.config, items=items,
        keys={i.id: plan.keys.of(i) for i in items}, own={i.id: plan.own.of(i) for i in items},
        seeds=Seeds(plan.root_seed, plan.name), attempts={i.id: 0 for i in items},
        inputs={p: Address(spec="x:X", block="0" * 24, index=0) for p in places}, timeout_s=900.0,
    )  # fmt: skip


def cloud(item: Item) -> Cloud:
    return Cloud(
        scene_id=item.group, view=int(item.params["view"]), frame="camera",
        points=np.zeros((POINTS, 3), np.float32), segment=np.ones(POINTS, np.uint16),
        valid_count=POINTS, intrinsics=np.eye(3), T_world_cam=np.eye(4), distortion=np.zeros(8),
    )  # fmt: skip


def nothing(number: int) -> int:
    return number


def memory_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@click.command()
@click.option("--scenes", default=1_000_000, show_default=True)
@click.option("--views", default=256, show_default=True)
@click.option("--blocks", default=300, show_default=True, help="Blocks timed at each station.")
def main(scenes: int, views: int, blocks: int) -> None:
    """Print one measure a line."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "out")
        store.open()
        start = time.perf_counter()
        plans = plan(scenes, views)
        print(explain(survey(store, plans, retry=False, deep=False)[1]))
        print(f"plan_s {time.perf_counter() - start:.2f}  memory_mib {memory_mib():.0f}")
        scene_plan = plans["scene"]
        start = time.process_time()
        some = min(scenes, 50 * blocks)
        for item in islice(scene_plan.items, some):
            _ = scene_plan.keys[item.id]
        print(f"scene_key_us {(time.process_time() - start) / some * 1e6:.1f}")
        render = plans["render"]
        start = time.process_time()
        tasks = [
            task_of(render, items, store.out)
            for items in islice(make_blocks(iter(render.items), BLOCK), blocks)
        ]
        sizes = [len(pickle.dumps(task)) for task in tasks]
        print(f"make_s {(time.process_time() - start) / blocks:.5f}  task_bytes {max(sizes)}")
        start = time.perf_counter()
        markers = [
            store.commit(
                stage="render",
                rows=[
                    Row(id=i.id, key=t.keys[i.id], own=t.own[i.id], code="ok", index=n)
                    for n, i in enumerate(t.items)
                ],
                records=[cloud(i) for i in t.items],
                seconds=0.1,
            )
            for t in tasks
        ]
        print(
            f"store_s {(time.perf_counter() - start) / blocks:.5f}  block_bytes {markers[0].size}"
        )
        again = [pickle.loads(pickle.dumps(marker)) for marker in markers]
        ledger, start = Ledger(), time.process_time()
        for marker in again:
            ledger.add(marker)
        print(f"take_s {(time.process_time() - start) / blocks:.5f}")
        start = time.perf_counter()
        survey(store, plans | {"render": render}, retry=False, deep=False)
        print(f"scan_block_s {(time.perf_counter() - start) / blocks:.5f}")
    executor = start_executor("local", workers=2)
    client = executor._client
    client.gather(client.map(nothing, range(20)))
    start = time.process_time()
    client.gather(client.map(nothing, range(20, 20 + 10 * blocks), pure=False))
    print(f"schedule_s {(time.process_time() - start) / (10 * blocks):.5f}")
    executor.close()


if __name__ == "__main__":
    main()
