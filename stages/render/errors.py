"""Errors of the renderer."""


class RenderConfigError(ValueError):
    """The render config cannot be used."""


class CameraFileError(ValueError):
    """A file of extrinsics cannot be read or holds something else than camera poses."""
