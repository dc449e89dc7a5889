"""Errors of the grasp room."""

from pathlib import Path


class GraspConfigError(ValueError):
    """The grasp config cannot be used."""


class GraspFormatError(ValueError):
    """A grasp file does not hold what its format promises, or a set does not fit a format."""

    def __init__(self, path: Path, what: str, *, expected: str, got: str, fix: str) -> None:
        super().__init__(f"{path}: {what}: expected {expected}, got {got}; {fix}")
