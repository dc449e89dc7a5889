"""Blocks on a Dask cluster: an existing one (`--scheduler tcp://...`) or our own (`--cluster`).

The workers read and write OUT themselves, so it must be on a file system they all see, under the
same path, with this package installed; only addresses, configs and markers pass the scheduler.
Threads per worker belong to whoever started the cluster; Dask's own nannies set
OMP_NUM_THREADS=1.
"""

import contextlib
import heapq
import logging
import math
import queue
import time
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from pipeline.errors import SchedulerLostError, UserError
from pipeline.work import Failure, Result, Task, work

SLOTS_S = 5.0  # how long a count of workers holds, s; asking costs the scheduler a message
RETURN_S = 60.0  # wait for a scheduler that went away, s


class DaskExecutor:
    """`cluster`, when given, is closed with the executor.

    A scheduler that goes away is waited for, `return_s` seconds; what was in flight is sent again.
    """

    local = False

    def __init__(
        self,
        scheduler: str,
        *,
        timeout_s: float = 10.0,
        return_s: float = RETURN_S,
        cluster: Any = None,
    ) -> None:
        self._scheduler, self._timeout_s, self._return_s = scheduler, timeout_s, return_s
        self._cluster = cluster
        self._slots: dict[str, tuple[int, float]] = {}  # resource or "" -> count, time of it
        self._seen: set[str] = set()  # resources that some worker offered
        try:
            self._client: Any = self._connect()
        except (OSError, ValueError) as error:
            self._close_cluster()
            raise UserError(
                f"--scheduler {scheduler}: no Dask scheduler answers there ({error}). Start one "
                "with `dask scheduler`, or leave the option out to use local processes"
            ) from error
        if not self._client.nthreads():
            try:
                self._client.wait_for_workers(1, timeout=timeout_s)
            except TimeoutError as error:
                self.close()
                raise UserError(
                    f"--scheduler {scheduler}: the scheduler has no workers. Start some with "
                    f"`dask worker {scheduler} --nthreads 1`"
                ) from error

    def _connect(self) -> Any:
        from distributed import Client

        return Client(self._scheduler, timeout=self._timeout_s, set_as_default=False)

    @property
    def dashboard(self) -> str:
        """Address of the scheduler's page, as seen from here."""
        return str(self._client.dashboard_link)

    @property
    def slots(self) -> int:
        return max(1, self._count(""))

    def _count(self, resource: str) -> int:
        """Blocks that may run at once: threads, or the workers' offers of `resource`."""
        found, since = self._slots.get(resource, (0, -math.inf))
        if time.monotonic() - since > SLOTS_S:
            if resource:
                workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
                found = sum(int(w.get("resources", {}).get(resource, 0)) for w in workers)
            else:
                found = sum(self._client.nthreads().values())
            self._slots[resource] = (found, time.monotonic())
        return found

    def _slots_of(self, task: Task) -> int:
        """How many blocks may be in flight with `task`.

        When a worker dies Dask blames whatever waited for it too: who was blamed once runs alone.
        """
        if task.alone:
            return 1
        if not task.resource:
            return self.slots
        found = self._count(task.resource)
        end = time.monotonic() + (self._return_s if task.resource in self._seen else 0)
        while not found and time.monotonic() < end:  # a worker that offered it may be restarting
            time.sleep(1)
            self._slots.pop(task.resource, None)
            found = self._count(task.resource)
        if found:
            self._seen.add(task.resource)
        else:
            raise UserError(
                f"stage {task.stage} asks for a {task.resource} (gpu_stages), and no worker offers "
                f"one. Start workers with `dask worker ... --resources {task.resource}=1`, or take "
                "the stage out of gpu_stages"
            )
        return found

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
        """Blocks in flight are bounded, so that a block's clock starts about when it does."""
        flight = _Flight(self._client)
        source = iter(tasks)
        waiting = next(source, None)
        while waiting is not None or flight.tasks:
            try:
                while waiting is not None and len(flight.tasks) < self._slots_of(waiting):
                    flight.start(waiting)
                    waiting = next(source, None)
                yield from flight.collect()
            except (SchedulerLostError, OSError):  # OSError: asked while there was no connection
                self._return()
                flight = flight.again(self._client)

    def _return(self) -> None:
        """Connect again, as soon as the scheduler and a worker are back."""
        end = time.monotonic() + self._return_s
        logger = logging.getLogger("distributed.client")
        level = logger.level
        logger.setLevel(logging.CRITICAL)  # each failed try would be a traceback
        try:
            self._client.close(timeout=1)
            while (left := end - time.monotonic()) > 0:
                try:
                    self._client = self._connect()
                    self._client.wait_for_workers(1, timeout=max(1.0, left))
                    self._slots.clear()
                    return
                except (OSError, ValueError):  # TimeoutError is an OSError
                    self._client.close(timeout=1)
                    time.sleep(0.5)
        finally:
            logger.setLevel(level)
        raise UserError(
            f"--scheduler {self._scheduler}: the scheduler or its workers went away and were not "
            f"back within {self._return_s:g} s. What is committed is kept: start them again and "
            "run the same command"
        )

    def close(self) -> None:
        self._client.close()
        self._close_cluster()

    def _close_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.close()


class _Flight:
    """Submitted blocks. Each step costs the same however many there are."""

    def __init__(self, client: Any) -> None:
        self.tasks: dict[Any, Task] = {}
        self._client = client
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._deadlines: list[tuple[float, int, Any]] = []
        self._lost = False
        self._number = count()  # so that equal deadlines do not compare futures

    def start(self, task: Task) -> None:
        needs = {"resources": {task.resource: 1}} if task.resource else {}
        try:
            future = self._client.submit(work, task, pure=False, retries=0, **needs)
        except Exception as error:
            if self._client.status == "running":
                raise
            raise SchedulerLostError from error
        self.tasks[future] = task
        deadline = time.monotonic() + task.timeout_s
        heapq.heappush(self._deadlines, (deadline, next(self._number), future))
        future.add_done_callback(self._done.put)

    def again(self, client: Any) -> "_Flight":
        """The blocks still in flight, sent once more through `client`."""
        flight = _Flight(client)
        for task in self.tasks.values():
            flight.start(task)
        return flight

    def collect(self) -> list[tuple[Task, Result]]:
        """Results that are there, after waiting for one or for the next deadline.

        Raises SchedulerLostError when the connection is lost; `tasks` are then to be sent again.
        """
        if self._lost:
            raise SchedulerLostError
        while self._deadlines and self._deadlines[0][2] not in self.tasks:
            heapq.heappop(self._deadlines)
        left = self._deadlines[0][0] - time.monotonic()
        try:
            found = [self._done.get(timeout=max(0.05, left))]
        except queue.Empty:
            return self._stop_late()
        while not self._done.empty():
            found.append(self._done.get())
        # a late block that was given up may still report
        found = [future for future in found if future in self.tasks]
        results = {future: _result(future) for future in found}
        self._lost = None in results.values()
        return [(self.tasks.pop(f), result) for f, result in results.items() if result is not None]

    def _stop_late(self) -> list[tuple[Task, Result]]:
        now = time.monotonic()
        late: list[Any] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            future = heapq.heappop(self._deadlines)[2]
            if future in self.tasks:
                late.append(future)
        if not late:
            return []
        if not self._client.nthreads():
            raise SchedulerLostError
        keys = {future.key for future in late}
        processing = self._client.processing()
        stuck = [address for address, found in processing.items() if keys & set(found)]
        out: list[tuple[Task, Result]] = []
        for future in late:
            task = self.tasks.pop(future)
            message = f"no result within {task.timeout_s:g} s"
            out.append((task, Result(failure=Failure(kind="timed_out", message=message))))
        self._client.cancel(late, force=True)
        if stuck:  # Dask cannot interrupt a running task; its nanny can restart the worker
            with contextlib.suppress(ValueError):  # no nanny: its queue goes on when it comes back
                self._client.restart_workers(stuck, timeout=60, raise_for_error=False)
        return out


def _result(future: Any) -> Result | None:
    """What came of a block; None when the connection that it was sent through was lost."""
    try:
        return future.result()
    except Exception as error:  # KilledWorker, CancelledError, a task that cannot be unpickled
        if getattr(error, "reason", None) == "scheduler-connection-lost":
            return None
        message = f"the Dask worker gave no result: {type(error).__name__}: {error}"
        return Result(failure=Failure(kind="died", message=message))
