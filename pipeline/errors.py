"""Errors of the conductor. `UserError` means: say it in one message and exit with code 2."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class UserError(Exception):
    """Something the user can put right; the message says what, expected, got, what to do."""

    exit_code = 2


class ConfigError(UserError, ValueError):
    """Every problem of a config at once."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(f"config {source}: {count}{lines}")


class TargetError(UserError, ValueError):
    """An unknown target or a graph that cannot be ordered."""


class PlanError(UserError, ValueError):
    """A stage planned items that cannot be identified or whose inputs nobody plans."""


class StorageError(UserError, OSError):
    """The output cannot be written: read-only, full, or not ours."""


class BudgetError(UserError, RuntimeError):
    """Too many items of a stage failed. `summaries` tell what was done until then."""

    exit_code = 3

    def __init__(
        self, stage: str, codes: Mapping[str, int], allowed: float, summaries: Sequence[Any]
    ) -> None:
        counts = ", ".join(f"{code} {n}" for code, n in sorted(codes.items()))
        super().__init__(
            f"stage {stage}: the failure budget is spent: {counts}; allowed are "
            f"{allowed:.0%} failures. Everything done so far is kept. See the reasons with "
            "`python -m pipeline status OUT --failures`, mend the input or raise "
            "max_failure_fraction, and run again"
        )
        self.summaries = tuple(summaries)


class LockedError(UserError, BlockingIOError):
    """Another run holds the output."""


class VersionError(UserError, ValueError):
    """The output was written by another version of the layout."""


class CorruptBlockError(ValueError):
    """A block's bytes are not those its marker promises."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}; run again and the block is redone")
        self.path, self.reason = path, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.reason), self.__dict__  # a worker may have raised it


class StageContractError(TypeError):
    """A stage returned something other than one outcome per item, in order."""


class CannotDrawError(UserError, RuntimeError):
    """What was asked for cannot be drawn on this machine; the message says why."""


class SchedulerLostError(Exception):
    """A Dask scheduler forgot the blocks in flight, or nobody is left to do them; never shown."""
