"""Errors of the hands: what was wrong, what was expected, what came, what to do."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class HandError(ValueError):
    """A hand's description breaks the contract of HandSpec."""


class HandNotFoundError(FileNotFoundError):
    """No hand of that name or path, or a model file it names is missing."""


class UnknownHandKeyError(KeyError):
    """A hand file holds a key that HandSpec does not have."""

    def __init__(self, path: Path, key: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = get_close_matches(key, names, n=1, cutoff=0.0)
        self.message = (
            f"{path}: unknown key {key!r}; did you mean {near[0]!r}? Known keys: {', '.join(names)}"
        )
        super().__init__(self.message)

    def __str__(self) -> str:  # KeyError would print the repr of its argument
        return self.message
