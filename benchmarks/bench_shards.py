"""Shards a second against workers: blocks of the store -> a published dataset.

    python -m benchmarks.bench_shards [--shards 32] [--scenes 16] [--workers 1,2] [--rounds 2]

Clouds of 2048 points, 64 a scene, in blocks of 16, which are in the page cache; the dataset is
written anew each time, with its fsyncs. Prints the wall, the seconds of all processors, and those
of the conductor alone, which no number of workers makes shorter.
"""

import os
import resource
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path

import click

from benchmarks.loader_clouds import VIEWS, clouds_of, clouds_of_scene, records_of
from pipeline.shards import StoredClouds, spread_shards
from pipeline.store import Row, Store
from stages.shard.config import ShardConfig
from stages.shard.digest import dataset_digest
from stages.shard.write import write_dataset

BLOCK = 16  # items of a block, the default
SPEC = "stages.render.stage:RenderStage"


def store_scenes(out: Path, count: int) -> dict[str, StoredClouds]:
    """Blocks of so many scenes, and what reads the clouds of each."""
    store, found = Store(out), dict[str, StoredClouds]()
    store.open()
    for number, batch in enumerate(clouds_of(count * VIEWS)):
        name = f"scene-{number:06d}"
        clouds, places = clouds_of_scene(name, *batch), list[tuple[str, int]]()
        for start in range(0, VIEWS, BLOCK):
            some = clouds[start : start + BLOCK]
            ids = [f"{name}/v{cloud.view:03d}" for cloud in some]
            rows = [Row(id=i, key=i, own=i, code="ok", index=n) for n, i in enumerate(ids)]
            marker = store.commit(stage="render", rows=rows, records=some, seconds=0.0)
            places += [(marker.block, n) for n in range(len(some))]
        found[name] = StoredClouds(out=str(out), stage="render", spec=SPEC, places=tuple(places))
    return found


def processor_s() -> tuple[float, float]:
    """Seconds of this process, and of all its ended children."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


@click.command()
@click.option("--shards", default=32, show_default=True)
@click.option("--scenes", default=16, show_default=True, help="Of a shard, 64 clouds each.")
@click.option("--workers", default="1,2", show_default=True)
@click.option("--rounds", default=2, show_default=True)
def main(shards: int, scenes: int, workers: str, rounds: int) -> None:
    """Print one line a round and number of workers."""
    with tempfile.TemporaryDirectory() as folder:
        out, dataset = Path(folder) / "out", Path(folder) / "dataset"
        stored = store_scenes(out, shards * scenes)
        records, digests = records_of(list(stored)), set[str]()
        for count in [int(n) for n in workers.split(",")] * rounds:
            shutil.rmtree(dataset, ignore_errors=True)
            before, start = processor_s(), time.perf_counter()
            write_dataset(
                dataset,
                config=ShardConfig(scenes_per_shard=scenes),
                clouds_of=stored.__getitem__,
                spread=partial(spread_shards, workers=count, patience_s=0.0),
                **records,
            )
            wall, after = time.perf_counter() - start, processor_s()
            own, children = (b - a for a, b in zip(before, after, strict=True))
            size = sum(p.stat().st_size for p in dataset.rglob("*") if p.is_file())
            print(
                f"workers {count}  wall_s {wall:.2f}  shards/s {shards / wall:.2f}  "
                f"MB/s {size / wall / 1e6:.0f}  processor_s {own + children:.2f}  "
                f"conductor_ms_a_shard {own / shards * 1e3:.1f}  load {os.getloadavg()[0]:.1f}"
            )
            digests.add(dataset_digest(dataset))
        assert len(digests) == 1, "the dataset must not depend on the workers"


if __name__ == "__main__":
    main()
