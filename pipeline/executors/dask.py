"""Blocks on an existing Dask cluster (`--scheduler tcp://...`).

The workers read and write OUT themselves, so it must be on a file system they all see, under the
same path, with this package installed. Threads per worker belong to whoever started the cluster;
Dask's own nannies set OMP_NUM_THREADS=1.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.errors import UserError
from pipeline.work import Failure, Result, Task, work


class DaskExecutor:
    def __init__(self, scheduler: str, *, timeout_s: float = 10.0) -> None:
        from distributed import Client

        try:
            self._client: Any = Client(scheduler, timeout=timeout_s, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UserError(
                f"--scheduler {scheduler}: no Dask scheduler answers there ({error}). Start one "
                "with `dask scheduler`, or leave the option out to use local processes"
            ) from error
        if not self._client.scheduler_info()["workers"]:
            try:
                self._client.wait_for_workers(1, timeout=timeout_s)
            except TimeoutError as error:
                self._client.close()
                raise UserError(
                    f"--scheduler {scheduler}: the scheduler has no workers. Start some with "
                    f"`dask worker {scheduler} --nthreads 1`"
                ) from error

    @property
    def slots(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Result]]:
        """Blocks in flight are bounded, so that a block's clock starts about when it does."""
        waiting = list(reversed(tasks))
        flying: dict[Any, tuple[Task, float]] = {}
        while waiting or flying:
            while waiting and len(flying) < self.slots:
                task = waiting.pop()
                future = self._client.submit(work, task, pure=False, retries=0)
                flying[future] = (task, time.monotonic() + task.timeout_s)
            yield from self._collect(flying)

    def _collect(self, flying: dict[Any, tuple[Task, float]]) -> list[tuple[Task, Result]]:
        from distributed import wait

        left = min(deadline for _, deadline in flying.values()) - time.monotonic()
        try:
            with self._client.as_current():
                wait(list(flying), timeout=max(0.05, left), return_when="FIRST_COMPLETED")
        except TimeoutError:
            return self._stop_late(flying)
        done = [future for future in flying if future.done()]
        return [(flying.pop(future)[0], _result(future)) for future in done]

    def _stop_late(self, flying: dict[Any, tuple[Task, float]]) -> list[tuple[Task, Result]]:
        now = time.monotonic()
        late = [future for future, (_, deadline) in flying.items() if now >= deadline]
        processing = self._client.processing()
        keys = {future.key for future in late}
        stuck = [address for address, found in processing.items() if keys & set(found)]
        self._client.cancel(late, force=True)
        if stuck:  # Dask cannot interrupt a running task; its nanny can restart the worker
            self._client.restart_workers(stuck, timeout=60, raise_for_error=False)
        out: list[tuple[Task, Result]] = []
        for future in late:
            task, _ = flying.pop(future)
            message = f"no result within {task.timeout_s:g} s"
            out.append((task, Result(failure=Failure(kind="timed_out", message=message))))
        return out

    def close(self) -> None:
        self._client.close()


def _result(future: Any) -> Result:
    try:
        return future.result()
    except Exception as error:  # KilledWorker, CancelledError, a task that cannot be unpickled
        message = f"the Dask worker gave no result: {type(error).__name__}: {error}"
        return Result(failure=Failure(kind="died", message=message))
