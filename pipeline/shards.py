"""Shards written by several processes of this machine, each shard by one of them.

They are workers as those of the blocks: they end with the conductor, leave Ctrl-C to it, and a
death is known to belong to the shard that the worker was writing.
"""

import errno
import math
import time
import traceback
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pipeline.errors import UserError
from pipeline.executors.processes import ProcessExecutor
from pipeline.registry import load
from pipeline.store import Store
from pipeline.work import Failure, Result, resident_mb
from schemas.records import Cloud
from stages.shard.job import ShardJob, WrittenShard, write_shard
from stages.storage import output_path

PATIENCE_S = 1.0
"""About what processes take to start: a dataset that is written sooner does without."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredClouds:
    """Clouds of a stage's blocks, read by whoever iterates: a job carries these few words."""

    out: str
    stage: str
    spec: str  # "module:attribute" of the stage
    places: tuple[tuple[str, int], ...]  # block, index

    def __iter__(self) -> Iterator[Cloud]:
        for block, index in self.places:
            yield _block(self.out, self.stage, self.spec, block)[index]


@lru_cache(maxsize=4)  # neighbouring scenes share a block
def _block(out: str, stage: str, spec: str, block: str) -> dict[int, Any]:
    return Store(output_path(out)).read(stage, block, load(spec).record)


@dataclass(frozen=True, slots=True)
class _Job:
    shard: ShardJob
    timeout_s: float = math.inf  # as long as it takes: no disk is slow enough to give up a dataset


def spread_shards(
    jobs: Iterator[ShardJob],
    count: int,
    *,
    workers: int,
    max_blocks: int = 64,
    max_rss_mb: float = 6144,
    patience_s: float = PATIENCE_S,
) -> Generator[WrittenShard]:
    """Do `count` jobs, in any order, in up to `workers` processes beside this one.

    This one alone does what is done within `patience_s`, a single shard, or all with fewer than two
    workers. What a job raises is raised here. A shard whose writer died is written once more, with
    no other beside it, and then a UserError.
    """
    start, left = time.monotonic(), count
    while left and (min(workers, left) < 2 or time.monotonic() - start < patience_s):
        yield write_shard(next(jobs))
        left -= 1
    if not left:
        return
    executor = ProcessExecutor(
        _work, workers=min(workers, left), max_blocks=max_blocks, max_rss_mb=max_rss_mb
    )
    try:
        executor.start()
        died: list[_Job] = []
        for job, result in executor.run(map(_Job, jobs)):
            if result.failure is None:
                yield _written(result)
            else:
                died.append(job)
        executor.close()  # what idle workers hold may be the memory that was missing
        executor.count = 1
        for job in died:
            yield from _again(executor, job)
    finally:
        executor.close()


def _again(executor: ProcessExecutor[_Job], job: _Job) -> Iterable[WrittenShard]:
    for _, result in executor.run([job]):
        if result.failure is not None:
            raise UserError(
                f"shard {job.shard.shard.name}: its writer died twice: {result.failure.message}. "
                "Each worker holds the clouds of one shard in memory; run the same command again "
                "with fewer --workers or with a smaller shard.scenes_per_shard"
            )
        yield _written(result)


def _written(result: Result) -> WrittenShard:
    if isinstance(result.value, Exception):
        raise result.value
    return result.value


def _work(job: _Job) -> Result:
    """In the worker. What was raised travels back, with the place where it was as a note."""
    try:
        return Result(value=write_shard(job.shard), rss_mb=resident_mb())
    except Exception as error:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return Result(failure=Failure(kind="died", message=f"out of memory: {error}"))
        error.add_note("".join(traceback.format_exception(error)))
        return Result(value=error, rss_mb=resident_mb())
