"""Errors of the records: what was wrong, what was expected, what came, and what to do."""

from pathlib import Path


class SchemaError(ValueError):
    """A value breaks the contract of a record (shape, unit, frame or range)."""


class FrameError(SchemaError):
    """A pose, rotation or quaternion is not a valid rigid transform."""


class ForeignFileError(SchemaError):
    """A file from outside cannot be read: no such format, damaged, or larger than expected."""

    def __init__(self, path: Path, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"{path}: cannot be read: {problem}; is the file whole, and the right one?"
        )
