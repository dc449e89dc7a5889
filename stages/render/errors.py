"""Errors of the renderer."""


class RenderConfigError(ValueError):
    """The render config cannot be used."""


class CameraFileError(ValueError):
    """A file of extrinsics cannot be read or holds something else than camera poses."""


class RegistrationError(ValueError):
    """A real scan cannot be laid onto the object it is said to show."""


class SensorFitError(ValueError):
    """No noise model can be fitted to these captures."""
