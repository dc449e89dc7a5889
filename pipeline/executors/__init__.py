"""Who runs the blocks. Every executor gives the same records; they differ in where and how."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from pipeline.work import Result, Task


class Executor(Protocol):
    """`run` may be called again with further tasks; results come in any order. Tasks are taken one
    by one, no sooner than there is a place for them.

    `slots` is how many blocks run at once. `local`: after `close` nobody writes any more.
    """

    local: bool

    @property
    def slots(self) -> int: ...

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Result]]: ...

    def close(self) -> None: ...
