"""What every source of frames does."""

from typing import Protocol

from stages.robot.frame import Frame


class CaptureSource(Protocol):
    """Gives frames one after another; a source of one file gives the same frame again."""

    def read(self) -> Frame:
        """The newest frame; waits for one. Raises CaptureError."""
        ...

    def close(self) -> None:
        """Free the camera or the file; calling it twice is allowed."""
        ...
