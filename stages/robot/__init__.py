"""The robot's side: where frames come from, what their pixels belong to, where the table stands.

numpy, the standard library, `schemas` and `stages.crop` only; what a camera's own library or an
image file needs is imported when it is used.
"""

from stages.robot.errors import CalibrationError, CaptureError, SegmentationError, StaleFrameError
from stages.robot.frame import Frame, check_age
from stages.robot.sources import CaptureSource, open_source

__all__ = [
    "CalibrationError",
    "CaptureError",
    "CaptureSource",
    "Frame",
    "SegmentationError",
    "StaleFrameError",
    "check_age",
    "open_source",
]
