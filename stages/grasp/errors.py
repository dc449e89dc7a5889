"""Errors of the grasp room."""


class GraspConfigError(ValueError):
    """The grasp config cannot be used."""
