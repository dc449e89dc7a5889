"""Errors of the scene room."""


class SceneConfigError(ValueError):
    """The scene config cannot be used."""


class PlacementError(RuntimeError):
    """An object could not be placed, or the scene did not come to rest; `code` says which."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
