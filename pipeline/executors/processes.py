"""Blocks, or other jobs, in spawned local processes.

Each worker has its own pipe, so a death or a time-out is known to belong to the job that the
worker held, and only that worker is replaced; a shared pool would lose every job in flight.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from typing import Any, Generic, Protocol, TypeVar

from pipeline.threads import THREAD_VARIABLES
from pipeline.work import Failure, Result

WAIT_S = 3600.0  # at most at once; a job without a limit is waited for again


class Job(Protocol):
    """What a worker does; it is pickled. `timeout_s` may be infinite."""

    @property
    def timeout_s(self) -> float: ...


J = TypeVar("J", bound=Job)


def serve(pipe: Any, work: Callable[[Any], Result]) -> None:
    """A worker: receive jobs, send results, end with the parent however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the conductor decides about Ctrl-C
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        if job is None:
            return
        pipe.send(work(job))


def _follow(sentinel: int) -> None:
    # A killed conductor closes nothing by itself; without this its workers would wait for ever.
    connection.wait([sentinel])
    os._exit(1)


@dataclass(kw_only=True, slots=True)
class _Worker(Generic[J]):
    process: Any
    pipe: Any
    job: J | None = None
    deadline: float = 0.0
    done: int = 0

    def stop(self, *, kill: bool = False) -> None:
        try:
            if not kill:
                self.pipe.send(None)
        except OSError:
            pass
        if kill:
            self.process.kill()
        self.process.join(10)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


class ProcessExecutor(Generic[J]):
    """`workers` spawned processes, each renewed after `max_blocks` or above `max_rss_mb` MiB.

    `work`, a function of a module, is what they do with a job, and gives back a Result.
    """

    local = True

    def __init__(
        self,
        work: Callable[[J], Result],
        *,
        workers: int,
        max_blocks: int = 64,
        max_rss_mb: float = 6144,
    ) -> None:
        self.count, self.max_blocks, self.max_rss_mb = workers, max_blocks, max_rss_mb
        self._work = work
        self._context = get_context("spawn")
        self._workers: list[_Worker[J]] = []

    @property
    def slots(self) -> int:
        return self.count

    def start(self) -> None:
        """Start all workers now, side by side.

        Else each starts with its first job, and one that is larger than what a pipe holds is handed
        over only when its worker has started.
        """
        while len(self._workers) < self.count:
            self._workers.append(self._start())

    def run(self, tasks: Iterable[J]) -> Iterator[tuple[J, Result]]:
        source, returned = iter(tasks), list[J]()
        while self._fill(source, returned):
            for worker in self._ready():
                job, result = self._collect(worker)
                if job is not None and result is not None:
                    yield job, result

    def close(self) -> None:
        for worker in self._workers:
            worker.stop(kill=worker.job is not None)
        self._workers.clear()

    def _fill(self, source: Iterator[J], returned: list[J]) -> bool:
        """Give every free worker a job; False when nothing is left to wait for."""
        while True:
            idle = next((w for w in self._workers if w.job is None), None)
            if idle is None and len(self._workers) >= self.count:
                return True
            job = returned.pop() if returned else next(source, None)
            if job is None:
                return any(w.job is not None for w in self._workers)
            if idle is None:
                idle = self._start()
                self._workers.append(idle)
            idle.deadline = time.monotonic() + job.timeout_s
            idle.job = job  # first: who is interrupted in the middle of it can only be killed
            try:
                idle.pipe.send(job)
            except OSError:
                # It died between two jobs, through no fault of this one. One that never did a job
                # may never do any: its death is this job's result.
                if idle.done:
                    idle.stop(kill=True)
                    self._workers.remove(idle)
                    returned.append(job)

    def _ready(self) -> list[_Worker[J]]:
        busy = [w for w in self._workers if w.job is not None]
        left = min(w.deadline for w in busy) - time.monotonic()
        handles = {w.pipe: w for w in busy} | {w.process.sentinel: w for w in busy}
        found = connection.wait(list(handles), timeout=min(max(0.0, left), WAIT_S))
        ready = {id(handles[h]): handles[h] for h in found}
        now = time.monotonic()
        for w in busy:
            if now >= w.deadline:
                ready[id(w)] = w
        return list(ready.values())

    def _collect(self, worker: _Worker[J]) -> tuple[J | None, Result | None]:
        job = worker.job
        if job is None:
            return None, None
        result: Result | None = None
        if worker.pipe.poll():
            try:
                result = worker.pipe.recv()
            except (EOFError, OSError):
                result = None
        worker.job = None
        worker.done += 1
        if result is not None:
            spent = result.failure is not None and result.failure.kind == "died"
            if spent or worker.done >= self.max_blocks or result.rss_mb > self.max_rss_mb:
                worker.stop()
                self._workers.remove(worker)
            return job, result
        late = time.monotonic() >= worker.deadline and worker.process.is_alive()
        worker.stop(kill=True)
        self._workers.remove(worker)
        if late:
            message = f"no result within {job.timeout_s:g} s"
            return job, Result(failure=Failure(kind="timed_out", message=message))
        code = worker.process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        message = f"the worker process died ({how}); out of memory, or a crash in native code"
        return job, Result(failure=Failure(kind="died", message=message))

    def _start(self) -> _Worker[J]:
        ours, theirs = self._context.Pipe()
        before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
        # Ctrl-C goes to all processes of a terminal; a worker that is still importing would answer
        # with a traceback. It is born with the signal blocked, and then ignores it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = self._context.Process(target=serve, args=(theirs, self._work))
            process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        theirs.close()
        return _Worker(process=process, pipe=ours)
