"""Blocks in this process, one after another: for debuggers. No time limit, no crash shield."""

from collections.abc import Iterable, Iterator

from pipeline.work import Result, Task, work


class InlineExecutor:
    slots, local = 1, True

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]:
        for task in tasks:
            yield task, work(task)

    def close(self) -> None:
        pass
