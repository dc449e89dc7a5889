"""Errors of the conductor. `UserError` means: say it in one message and exit with code 2."""

from collections.abc import Sequence
from pathlib import Path


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


class LockedError(UserError, BlockingIOError):
    """Another run holds the output."""


class VersionError(UserError, ValueError):
    """The output was written by another version of the layout."""


class CorruptBlockError(ValueError):
    """A block's bytes are not those its marker promises."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}; run again and the block is redone")
        self.path, self.reason = path, reason


class StageContractError(TypeError):
    """A stage returned something other than one outcome per item, in order."""
