"""Errors of the robot's side that have nothing to do with its motors."""

from schemas.errors import SchemaError


class CaptureError(SchemaError):
    """A capture cannot be read, or lacks what was asked of it."""


class EndOfRecordingError(CaptureError):
    """A recording has no frame after the last."""


class StaleFrameError(RuntimeError):
    """A frame is older than allowed: it shows a scene that may have moved since."""

    def __init__(self, name: str, age_s: float, limit_s: float) -> None:
        super().__init__(
            f"{name}: the frame is {age_s:.3f} s old, expected at most {limit_s:g} s; is the "
            "camera still connected, and its clock that of this machine? Read a new frame"
        )
        self.age_s = age_s


class SegmentationError(SchemaError):
    """No segments can be found in a frame, or a segmenter gave something else."""


class CalibrationError(SchemaError):
    """A pose cannot be found from these measurements."""


class OverlayError(SchemaError):
    """A picture or a depth image cannot stand behind a simulated one."""
