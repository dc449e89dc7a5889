"""Errors of granular scenes."""

from stages.scene.errors import PlacementError


class GrainsError(ValueError):
    """Grains, container or body cannot be simulated; the message says what to change."""


class DivergedError(PlacementError):
    """A time step gave positions that are no numbers, or grains that jump past each other."""

    def __init__(self, message: str) -> None:
        super().__init__("diverged", message)
