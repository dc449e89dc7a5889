"""Errors of real robots. All but the first two leave the robot stopped or holding its place."""

from stages.envs.errors import EnvConfigError


class NoGroundTruthError(NotImplementedError):
    """The verdict of a grasp was asked of the real world."""

    def __init__(self) -> None:
        super().__init__(
            "RealEnv.evaluate: a real workplace has no ground truth: nobody measures the object's "
            "pose or the contacts. Score grasps in simulation (MjEnv, MsEnv), and what happened on "
            "the robot by eye or with your own sensors"
        )


class NoDeviceError(EnvConfigError):
    """A method needs a robot or a camera that this workplace does not have."""


class MotionRefusedError(ValueError):
    """A motion outside the limits; nothing was sent."""


class JointLimitError(MotionRefusedError):
    """A target beyond a joint's range."""


class SpeedLimitError(MotionRefusedError):
    """A target farther away than a joint may move in one step."""


class BlockedError(RuntimeError):
    """The robot does not follow; it was stopped."""


class StoppedRobotError(RuntimeError):
    """The emergency stop is pressed, or the robot has a fault; it moves only after `release`."""


class ConnectionLostError(ConnectionError):
    """The robot does not answer."""
