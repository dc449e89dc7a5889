"""What a real workplace needs besides its robot and its camera."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from schemas.frames import check_quaternion
from stages.crop import CropSpec

HERE = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class RealEnvConfig:
    """A robot, a camera, and the crop that the dataset was made with."""

    driver: str = ""  # "socket:HOST:PORT", "xarm:ADDRESS", or "" for a camera alone
    camera: str = ""  # what stages.robot.open_source takes, or "robot" for the driver's own
    convention: str = ""  # JSON of the camera's files, see stages/robot/config.py
    dataset: str = ""  # folder with dataset.json, or JSON of a crop; instead of crop
    crop: CropSpec = field(default_factory=CropSpec)
    table: str = ""  # JSON of calibrate-table; "" is a table top at the world's origin
    base_pose: tuple[float, ...] = HERE  # (7,) xyz m + wxyz of the robot's base, world
    home_qpos: tuple[float, ...] = ()  # (J,) where reset goes; () stays where the robot is
    control_dt: float = 0.02  # s of a step
    speed_scale: float = 0.25  # 1, of the driver's speed limits; reset and steps keep it
    max_lag: float = 0.2  # rad or m; a joint that trails its target by more is blocked
    max_frame_age: float = 0.25  # s; an older frame is refused. math.inf for a recording

    def __post_init__(self) -> None:
        problems: list[str] = []
        if len(self.base_pose) != 7:
            problems.append(f"base_pose: expected 7 numbers, got {len(self.base_pose)}")
        else:
            check_quaternion(self.base_pose[3:], "base_pose")
        for name in ("control_dt", "max_lag", "max_frame_age"):
            if not getattr(self, name) > 0:
                problems.append(f"{name}: expected > 0, got {getattr(self, name)}")
        if not 0 < self.speed_scale <= 1:
            problems.append(f"speed_scale: expected 0 to 1, got {self.speed_scale}")
        if not math.isfinite(self.control_dt):
            problems.append("control_dt: expected finite seconds")
        if self.camera == "robot" and not self.driver.startswith("socket:"):
            problems.append('camera "robot": only a driver "socket:HOST:PORT" has a camera')
        if problems:
            raise ValueError("real: " + "; ".join(problems))

    @property
    def convention_path(self) -> Path | None:
        return Path(self.convention) if self.convention else None
