"""Blocks in spawned local processes.

Each worker has its own pipe, so a death or a time-out is known to belong to the block that the
worker held, and only that worker is replaced; a shared pool would lose every block in flight.
"""

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from typing import Any

from pipeline.threads import THREAD_VARIABLES
from pipeline.work import Failure, Result, Task, work


def serve(pipe: Any) -> None:
    """A worker: receive tasks, send results, end with the parent however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the conductor decides about Ctrl-C
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        if task is None:
            return
        pipe.send(work(task))


def _follow(sentinel: int) -> None:
    # A killed conductor closes nothing by itself; without this its workers would wait for ever.
    connection.wait([sentinel])
    os._exit(1)


@dataclass(kw_only=True, slots=True)
class _Worker:
    process: Any
    pipe: Any
    task: Task | None = None
    deadline: float = 0.0
    blocks: int = 0

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


class ProcessExecutor:
    """`workers` spawned processes, each renewed after `max_blocks` or above `max_rss_mb` MiB."""

    local = True

    def __init__(self, *, workers: int, max_blocks: int = 64, max_rss_mb: float = 6144) -> None:
        self.count, self.max_blocks, self.max_rss_mb = workers, max_blocks, max_rss_mb
        self._context = get_context("spawn")
        self._workers: list[_Worker] = []

    @property
    def slots(self) -> int:
        return self.count

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
        source, returned = iter(tasks), list[Task]()
        while self._fill(source, returned):
            for worker in self._ready():
                task, result = self._collect(worker)
                if task is not None and result is not None:
                    yield task, result

    def close(self) -> None:
        for worker in self._workers:
            worker.stop(kill=worker.task is not None)
        self._workers.clear()

    def _fill(self, source: Iterator[Task], returned: list[Task]) -> bool:
        """Give every free worker a task; False when nothing is left to wait for."""
        while True:
            idle = next((w for w in self._workers if w.task is None), None)
            if idle is None and len(self._workers) >= self.count:
                return True
            task = returned.pop() if returned else next(source, None)
            if task is None:
                return any(w.task for w in self._workers)
            if idle is None:
                idle = self._start()
                self._workers.append(idle)
            idle.deadline = time.monotonic() + task.timeout_s
            try:
                idle.pipe.send(task)
                idle.task = task
            except OSError:  # it died between two tasks, through no fault of this one
                idle.stop(kill=True)
                self._workers.remove(idle)
                returned.append(task)

    def _ready(self) -> list[_Worker]:
        busy = [w for w in self._workers if w.task is not None]
        left = min(w.deadline for w in busy) - time.monotonic()
        handles = {w.pipe: w for w in busy} | {w.process.sentinel: w for w in busy}
        found = connection.wait(list(handles), timeout=max(0.0, left))
        ready = {id(handles[h]): handles[h] for h in found}
        now = time.monotonic()
        for w in busy:
            if now >= w.deadline:
                ready[id(w)] = w
        return list(ready.values())

    def _collect(self, worker: _Worker) -> tuple[Task | None, Result | None]:
        task = worker.task
        if task is None:
            return None, None
        result: Result | None = None
        if worker.pipe.poll():
            try:
                result = worker.pipe.recv()
            except (EOFError, OSError):
                result = None
        worker.task = None
        worker.blocks += 1
        if result is not None:
            spent = result.failure is not None and result.failure.kind == "died"
            if spent or worker.blocks >= self.max_blocks or result.rss_mb > self.max_rss_mb:
                worker.stop()
                self._workers.remove(worker)
            return task, result
        late = time.monotonic() >= worker.deadline and worker.process.is_alive()
        worker.stop(kill=True)
        self._workers.remove(worker)
        if late:
            message = f"no result within {task.timeout_s:g} s"
            return task, Result(failure=Failure(kind="timed_out", message=message))
        code = worker.process.exitcode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        message = f"the worker process died ({how}); out of memory, or a crash in native code"
        return task, Result(failure=Failure(kind="died", message=message))

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
        # Ctrl-C goes to all processes of a terminal; a worker that is still importing would answer
        # with a traceback. It is born with the signal blocked, and then ignores it.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = self._context.Process(target=serve, args=(theirs,))
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
