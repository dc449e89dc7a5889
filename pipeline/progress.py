"""Progress of a stage: a bar with rate and time left on a terminal, plain lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import Any

LINE_EVERY = 10.0  # s between plain lines


class Progress:
    """`todo` of `total` items are left at the start."""

    def __init__(self, name: str, todo: int, total: int) -> None:
        self.name, self.todo, self.total = name, todo, total
        self._done = self._failed = 0
        self._start = self._said = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        if self.todo and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=self.todo, desc=f"{self.name:<7}", unit="item")
        elif self.todo:
            print(f"{self.name}: {self.todo} of {self.total} items to do", flush=True)
        return self

    def advance(self, items: int, failed: int) -> None:
        self._done += items
        self._failed += failed
        if self._bar is not None:
            self._bar.update(items)
            if self._failed:
                self._bar.set_postfix(failed=self._failed)
        elif time.monotonic() - self._said > LINE_EVERY:
            self._said = time.monotonic()
            self._say()

    def _say(self) -> None:
        seconds = time.monotonic() - self._start
        rate = self._done / seconds if seconds else 0.0
        left = (self.todo - self._done) / rate if rate else 0.0
        failed = f", {self._failed} failed" if self._failed else ""
        print(
            f"{self.name}: {self._done}/{self.todo}{failed}, {rate:.1f}/s, about {left:.0f} s left",
            flush=True,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
