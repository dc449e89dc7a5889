"""Errors of the records: what was wrong, what was expected, what came, and what to do."""


class SchemaError(ValueError):
    """A value breaks the contract of a record (shape, unit, frame or range)."""


class FrameError(SchemaError):
    """A pose, rotation or quaternion is not a valid rigid transform."""
