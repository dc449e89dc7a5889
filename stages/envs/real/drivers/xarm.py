"""UFACTORY xArm7 through `xarm-python-sdk`, in servo mode.

Ranges and speed are those of UFACTORY's manual for the xArm7; the controller has its own, which may
be narrower, and refuses by itself what is beyond them.
"""

import time
from typing import Any

import numpy as np

from stages.envs.errors import EnvConfigError
from stages.envs.real.driver import Float, JointLimits, RobotState
from stages.envs.real.errors import ConnectionLostError, StoppedRobotError

LOWER = (-360.0, -118.0, -360.0, -11.0, -360.0, -97.0, -360.0)  # degrees
UPPER = (360.0, 120.0, 360.0, 225.0, 360.0, 180.0, 360.0)
SPEED = 180.0  # degrees/s, every joint
SERVO_MODE, RUN_STATE, STOP_STATE = 1, 0, 4
NOT_CONNECTED, TIMED_OUT = -1, (2, 3)  # codes of the SDK


def load_sdk() -> Any:
    """The class XArmAPI; EnvConfigError where the SDK is not installed."""
    try:
        from xarm.wrapper import XArmAPI
    except ImportError as error:
        raise EnvConfigError(
            f"xarm-python-sdk cannot be imported: {error}; pip install 'grasp-clouds[robot]'"
        ) from error
    return XArmAPI


class XArmDriver:
    """`address` of the controller. Opening it does not move the arm, and does not clear errors."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._arm: Any = None
        try:
            arm = load_sdk()(address, is_radian=True, do_not_open=True)
            arm.connect()
        except EnvConfigError:
            raise
        except Exception as error:  # the SDK raises bare exceptions
            raise ConnectionLostError(
                f"xArm at {address}: cannot be reached: {error}; is the control box on, and this "
                "machine in its network?"
            ) from error
        if not arm.connected:
            raise ConnectionLostError(f"xArm at {address}: refused the connection")
        self._arm = arm
        self._limits = JointLimits(
            names=tuple(f"joint{i + 1}" for i in range(7)),
            lower=np.radians(LOWER),
            upper=np.radians(UPPER),
            speed=np.full(7, np.radians(SPEED)),
        )

    @property
    def limits(self) -> JointLimits:
        return self._limits

    def state(self) -> RobotState:
        code, angles = self._arm.get_servo_angle(is_radian=True)
        self._check(code, "get_servo_angle", stopped_is_error=False)
        fault = f"controller error {self._arm.error_code}" if self._arm.has_error else ""
        stopped = bool(fault) or self._arm.state >= STOP_STATE or self._arm.mode != SERVO_MODE
        return RobotState(
            qpos=np.array(angles[:7], np.float64),
            stopped=stopped,
            fault=fault or ("" if not stopped else "not in servo mode"),
        )

    def send(self, target: Float, dt: float) -> None:
        start = time.monotonic()
        self._check(
            self._arm.set_servo_angle_j(target.tolist(), is_radian=True), "set_servo_angle_j"
        )
        time.sleep(max(0.0, dt - (time.monotonic() - start)))

    def stop(self) -> None:
        self._arm.emergency_stop()

    def release(self) -> None:
        """Clear the error, switch the motors on, and follow targets from where the arm is."""
        self._arm.clean_error()
        for name, value in (
            ("motion_enable", True),
            ("set_mode", SERVO_MODE),
            ("set_state", RUN_STATE),
        ):
            self._check(getattr(self._arm, name)(value), name)

    def close(self) -> None:
        if self._arm is not None:
            self._arm.disconnect()
            self._arm = None

    def _check(self, code: int, call: str, stopped_is_error: bool = True) -> None:
        if code == NOT_CONNECTED or code in TIMED_OUT or not self._arm.connected:
            raise ConnectionLostError(
                f"xArm at {self.address}: no answer to {call} (code {code}); check the cable"
            )
        if code != 0 and stopped_is_error:
            raise StoppedRobotError(
                f"xArm at {self.address}: {call} was refused with code {code}, controller error "
                f"{self._arm.error_code}; see to it that nobody is near, then release()"
            )
