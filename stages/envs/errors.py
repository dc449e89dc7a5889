"""Errors of the environments."""

from collections.abc import Sequence


class EnvConfigError(ValueError):
    """An environment's config cannot be built or used; the message says what to change."""


class NotInteractiveError(NotImplementedError):
    """An interactive method was called on an environment that only scores grasps."""

    def __init__(self, method: str) -> None:
        super().__init__(
            f"MjEnv.{method}: this environment only scores grasp poses offline, each grasp in a "
            "state of its own, so there is no running simulation to read or step; call evaluate()"
        )


class StoppedError(RuntimeError):
    """The trial ended before its verdict; carries the code."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code


class JointOrderError(ValueError):
    """Two lists of joint names do not describe one robot."""

    def __init__(self, problem: str, source: Sequence[str], target: Sequence[str]) -> None:
        super().__init__(f"joint orders: {problem}; from {list(source)} to {list(target)}")
