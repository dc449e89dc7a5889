"""Errors of the label stage."""


class LabelConfigError(ValueError):
    """The label config asks for something that does not exist."""
