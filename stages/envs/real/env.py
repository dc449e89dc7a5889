"""RealEnv: a robot and a depth camera behind the interface of the simulations. No `evaluate`."""

import math
import time
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from schemas.frames import rotation_angle
from stages.crop import CroppedCloud
from stages.envs.base import BaseEnv
from stages.envs.real.config import RealEnvConfig
from stages.envs.real.driver import Float, RobotDriver, RobotState
from stages.envs.real.errors import (
    BlockedError,
    MotionRefusedError,
    NoDeviceError,
    NoGroundTruthError,
    StoppedRobotError,
)
from stages.robot import CaptureSource, Frame, check_age, open_source
from stages.robot.deploy import RobotCrop
from stages.robot.segments import Segmenter

BASE_MOVE, BASE_TURN = 1e-4, 1e-3  # m, rad; the base of a real robot stands


class RealEnv(BaseEnv):
    """One workplace: N = 1 in every shape.

    `driver` and `source` replace those that the config names; `segmenter` finds the segments of
    frames that come without. `clock` gives seconds since the epoch.
    """

    def __init__(
        self,
        config: RealEnvConfig,
        *,
        driver: RobotDriver | None = None,
        source: CaptureSource | None = None,
        segmenter: Segmenter | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self._clock = clock
        self._driver = driver
        self._source = source
        self._commanded: Float | None = None
        self._frame: Frame | None = None
        self.crop = (
            RobotCrop.of_dataset(config.dataset, segmenter=segmenter, table=config.table or None)
            if config.dataset
            else RobotCrop.of_spec(config.crop, segmenter=segmenter, table=config.table or None)
        )
        try:
            if driver is None and config.driver:
                from stages.envs.real.drivers import open_driver

                self._driver = open_driver(config.driver)
            if source is None and config.camera == "robot":
                self._source = self._robot.camera()  # type: ignore[attr-defined]
            elif source is None and config.camera:
                self._source = open_source(config.camera, config.convention_path)
        except BaseException:
            self.close()
            raise

    @property
    def _robot(self) -> RobotDriver:
        if self._driver is None:
            raise NoDeviceError("RealEnv: this workplace has no robot; set RealEnvConfig.driver")
        return self._driver

    @property
    def joint_names(self) -> tuple[str, ...]:
        """(J,) the order of the joints in every qpos."""
        return self._robot.limits.names

    def reset(self, seed: int | None = None) -> None:
        """Go to `home_qpos`, in a straight line in joint space and within the speed limits.

        `seed` is ignored: the real world has none. Raises as `step_qpos` does.
        """
        if not self.config.home_qpos:
            if self._driver is not None:
                self._running(self._driver.state())
            return
        limits, dt = self._robot.limits.scaled(self.config.speed_scale), self.config.control_dt
        home = np.array(self.config.home_qpos, np.float64)
        start = self._start()
        limits.check(home, home, dt)
        steps = max(1, math.ceil(float((np.abs(home - start) / (limits.speed * dt)).max())))
        for i in range(1, steps + 1):
            self._step(start + (home - start) * (i / steps))

    def get_qpos(self) -> Float:
        """(1, 7 + J) base pose and measured joints."""
        return np.concatenate([self.config.base_pose, self._robot.state().qpos])[None]

    def step_qpos(self, qpos: Float) -> None:
        """Aim at `qpos` (1, 7 + J) and return after one control step.

        Raises MotionRefusedError, before anything is sent, when a joint would leave its range or
        exceed its speed, the base would have to move, or something else moved the arm since the
        last step; StoppedRobotError, ConnectionLostError, or BlockedError when the arm does not
        follow, after stopping it.
        """
        wanted = np.asarray(qpos, np.float64)
        joints = len(self._robot.limits.names)
        if wanted.shape != (1, 7 + joints):
            raise MotionRefusedError(
                f"qpos: expected shape (1, {7 + joints}): base xyz, wxyz, then "
                f"{', '.join(self.joint_names)}; got {wanted.shape}"
            )
        base = np.array(self.config.base_pose)
        moved = float(np.linalg.norm(wanted[0, :3] - base[:3]))
        if not (moved <= BASE_MOVE and rotation_angle(wanted[0, 3:7], base[3:]) <= BASE_TURN):
            raise MotionRefusedError(
                f"qpos: the robot's base stands at {base.tolist()}, got {wanted[0, :7].tolist()}; "
                "only its joints can move. Nothing was sent"
            )
        self._step(wanted[0, 7:])

    def _start(self) -> Float:
        """What the next step starts from: the last target, or where the robot is.

        Raises MotionRefusedError, and forgets the target, when the robot is not near it.
        """
        here = self._running(self._robot.state()).qpos
        before = self._commanded = here if self._commanded is None else self._commanded
        off = np.abs(here - before)
        if not (off <= self.config.max_lag).all():
            self._commanded = None
            joint = int(np.argmax(off))
            raise MotionRefusedError(
                f"{self.joint_names[joint]}: is {off[joint]:.3f} away from its last target, "
                f"expected at most {self.config.max_lag:g}: something else moved the robot; "
                "nothing was sent. Go on from get_qpos()"
            )
        return before

    def _step(self, target: Float) -> None:
        before, dt = self._start(), self.config.control_dt
        self._robot.limits.scaled(self.config.speed_scale).check(target, before, dt)
        try:
            self._robot.send(target, dt)
        except (StoppedRobotError, ConnectionError):
            self._commanded = None
            raise
        self._commanded = target
        state = self._running(self._robot.state())
        lag = np.abs(state.qpos - target)
        if (lag > self.config.max_lag).any():
            self.stop()
            joint = int(np.argmax(lag))
            raise BlockedError(
                f"{self.joint_names[joint]}: trails its target by {lag[joint]:.3f}, expected at "
                f"most {self.config.max_lag:g}; the robot was stopped. Free it, then release()"
            )

    def _running(self, state: RobotState) -> RobotState:
        if state.stopped:
            self._commanded = None
            raise StoppedRobotError(
                f"the robot is stopped{': ' + state.fault if state.fault else ''}; see to it that "
                "nobody is near, then release()"
            )
        return state

    def stop(self) -> None:
        """Emergency stop: at once, and until `release`."""
        self._commanded = None
        self._robot.stop()

    def release(self) -> None:
        """Allow motion again, from where the robot is."""
        self._commanded = None
        self._robot.release()

    def get_info(self) -> dict[str, Any]:
        """State of the robot (J,) and age of the newest frame, s; of success nobody knows."""
        info: dict[str, Any] = {}
        if self._driver is not None:
            state = self._driver.state()
            info |= {"qpos": state.qpos, "stopped": state.stopped, "fault": state.fault}
            info["target"] = self._commanded
        if self._frame is not None:
            info["frame_age"] = self._clock() - self._frame.time
        return info

    def get_frame(self) -> Frame:
        """The newest frame. Raises StaleFrameError when it is too old, CaptureError."""
        if self._source is None:
            raise NoDeviceError("RealEnv: this workplace has no camera; set RealEnvConfig.camera")
        self._frame = self._source.read()
        if math.isfinite(self.config.max_frame_age):
            check_age(self._frame, self._clock(), self.config.max_frame_age)
        return self._frame

    def get_rgb(self) -> NDArray[np.uint8]:
        """(1, H, W, 3)."""
        frame = self.get_frame()
        if frame.colour is None:
            raise NoDeviceError(f"{frame.name}: gives no colour; switch its colour stream on")
        return frame.colour[None]

    def get_pointcloud(self, seed: int = 0) -> list[CroppedCloud]:
        """The cloud that training would have seen of the newest frame; `seed` is the sampling's."""
        return [self.crop(self.get_frame(), seed)]

    def evaluate(self, *_: Any, **__: Any) -> NoReturn:
        raise NoGroundTruthError

    @property
    def engine(self) -> str:
        return "real"  # nothing simulates

    def close(self) -> None:
        for device in (self._source, self._driver):
            if device is not None:
                device.close()
