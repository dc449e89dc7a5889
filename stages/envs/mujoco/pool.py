"""A pool of spawned worker processes that survives the death of any of them.

Spawn, never fork: MuJoCo is not thread-safe and a forked CUDA parent deadlocks. A task that kills
its worker, or outlives its time, is coded; the worker is replaced and the rest goes on. A worker
stays with one job while it can, since each job is a model to compile, and helps with another when
its own runs out. Results come back in the order of the tasks, so they depend on none of this.
"""

import contextlib
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from schemas.records import ObjectAsset
from stages.envs.base import GraspResult
from stages.envs.config import MjEnvConfig
from stages.envs.grasp_input import GraspInput
from stages.envs.mujoco.evaluator import Evaluator
from stages.envs.outcomes import CRASHED, TIMED_OUT

START_ALLOWANCE_S = 60.0  # a fresh worker imports MuJoCo and compiles the model first
KILL_FACTOR = 2.0  # the trial stops itself at timeout_s; the parent kills at this many times it


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    """What is the same for every grasp of one call."""

    asset: ObjectAsset
    protocol: str
    rollouts: bool
    scene_id: str


@dataclass(kw_only=True, slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection
    job: Job | None = None  # the job it was told about
    task: int | None = None
    kill_at: float = 0.0


def _work(connection: Connection, config: MjEnvConfig) -> None:
    """Loop of a worker: a Job sets the scene, a GraspInput is answered with a GraspResult."""
    evaluator = Evaluator(config)
    job: Job | None = None
    while True:
        try:
            message = connection.recv()
        except EOFError:
            return
        if message is None:
            return
        if isinstance(message, Job):
            job = message
            continue
        assert job is not None
        start = time.monotonic()
        try:
            result: GraspResult | Exception = evaluator.evaluate(
                message, job.asset, job.protocol, rollouts=job.rollouts, scene_id=job.scene_id
            )
        except Exception as error:  # handed to the parent, which raises it there
            result = error
        connection.send((result, time.monotonic() - start))


class WorkerPool:
    """Up to `config.workers` processes, started when first needed."""

    def __init__(self, config: MjEnvConfig) -> None:
        self._config = config
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        self.busy_s = 0.0  # s that the workers spent on tasks, model compilation included

    def map(self, tasks: Sequence[tuple[GraspInput, Job]]) -> list[GraspResult]:
        """One result per task, in order; a dead worker's task is coded "crashed"."""
        results: list[GraspResult | None] = [None] * len(tasks)
        waiting: dict[int, list[int]] = {}  # by job, its tasks from last to first
        for task in reversed(range(len(tasks))):
            waiting.setdefault(id(tasks[task][1]), []).append(task)
        while len(self._workers) < min(self._config.workers, len(tasks)):
            self._workers.append(self._start())
        while any(result is None for result in results):
            for slot, worker in enumerate(self._workers):
                if worker.task is None and waiting:
                    self._give(slot, self._next(worker, waiting), tasks)
            for slot, worker in enumerate(self._workers):
                if worker.task is not None and time.monotonic() > worker.kill_at:
                    results[worker.task] = GraspResult(
                        outcome=TIMED_OUT, message="the worker did not answer and was ended"
                    )
                    self._replace(slot)
            busy = {w.connection: i for i, w in enumerate(self._workers) if w.task is not None}
            for connection in wait(list(busy), timeout=0.2):
                slot = busy[connection]  # pyright: ignore[reportArgumentType]
                worker = self._workers[slot]
                assert worker.task is not None
                try:
                    answer, seconds = worker.connection.recv()
                except (EOFError, OSError):
                    worker.process.join(5)
                    results[worker.task] = GraspResult(
                        outcome=CRASHED,
                        message=f"the worker died with exit code {worker.process.exitcode}",
                    )
                    self._replace(slot)
                    continue
                if isinstance(answer, Exception):
                    self.close()
                    raise answer
                self.busy_s += seconds
                results[worker.task] = answer
                worker.task = None
        return [result for result in results if result is not None]

    def close(self) -> None:
        """Ask every worker to end, and end those that do not."""
        for worker in self._workers:
            with contextlib.suppress(BrokenPipeError, OSError):
                worker.connection.send(None)
        for worker in self._workers:
            worker.process.join(2)
            self._end(worker)
        self._workers.clear()

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, self._config), daemon=True)
        process.start()
        theirs.close()  # so that the death of the worker ends our end of the pipe
        return _Worker(process=process, connection=ours)

    def _next(self, worker: _Worker, waiting: dict[int, list[int]]) -> int:
        """Of the worker's own job, else of one that nobody works on, else of the longest."""
        job = id(worker.job)
        if job not in waiting:
            taken = {id(other.job) for other in self._workers if other.task is not None}
            # reversed: jobs were met from last to first
            free = [key for key in reversed(waiting) if key not in taken]
            job = free[0] if free else max(waiting, key=lambda key: len(waiting[key]))
        task = waiting[job].pop()
        if not waiting[job]:
            del waiting[job]
        return task

    def _give(self, slot: int, task: int, tasks: Sequence[tuple[GraspInput, Job]]) -> None:
        worker, (row, job) = self._workers[slot], tasks[task]
        allowance = self._config.timeout_s * KILL_FACTOR
        if worker.job is not job:
            allowance += START_ALLOWANCE_S
        worker.task, worker.kill_at = task, time.monotonic() + allowance
        try:
            if worker.job is not job:
                worker.connection.send(job)
                worker.job = job
            worker.connection.send(row)
        except (BrokenPipeError, OSError):
            return  # it died; the read of its answer finds that and codes the row

    def _replace(self, slot: int) -> None:
        self._end(self._workers[slot])
        self._workers[slot] = self._start()

    def _end(self, worker: _Worker) -> None:
        if worker.process.is_alive():
            worker.process.kill()
        worker.process.join(5)
        worker.connection.close()
        worker.process.close()
