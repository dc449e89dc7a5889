"""Errors of the shard room: what, expected, got, what to do."""

from collections.abc import Iterable


class ShardConfigError(ValueError):
    """A shard config holds a value out of range."""


class ShardContentError(ValueError):
    """Records cannot be written together into one dataset."""


class DatasetError(ValueError):
    """A path does not hold a complete dataset that this version reads."""


class UnknownChoiceError(KeyError):
    """A split, hand, protocol or scene that the dataset does not have."""

    def __init__(self, kind: str, got: object, choices: Iterable[str]) -> None:
        listed = ", ".join(sorted(choices)) or "(none)"
        self.message = f"{kind} {got!r} is not in this dataset; choose one of: {listed}"
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


class ExportError(ValueError):
    """A dataset cannot be written to that place, or not in that format."""
