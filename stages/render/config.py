"""What the cameras look like and what their clouds keep."""

import math
from dataclasses import dataclass, field
from typing import Literal

from schemas.camera import Intrinsics
from stages.contract import CONFIG_PATH, PLAN_ONLY
from stages.crop import CropSpec
from stages.render.errors import RenderConfigError
from stages.render.presets import PRESETS
from stages.render.sensor_config import SensorConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class CameraConfig:
    """Where cameras stand. Angles in degrees, lengths in metres, world frame.

    - hemisphere: uniform over the part of the sphere around the scene between the elevations;
    - ring: view i at azimuth 360 i / `ring_size`, middle radius and elevation;
    - fixed: at `eye`, looking at `target`;
    - file: view i is row i of `poses_file`, (V, 4, 4) `T_world_cam` as .npy or nested JSON.

    hemisphere and ring look at the middle of the scene's objects, moved by `target_jitter`.
    """

    kind: Literal["hemisphere", "ring", "fixed", "file"] = "hemisphere"
    radius_min: float = 0.5
    radius_max: float = 0.8
    elevation_min: float = 25.0  # above the horizon
    elevation_max: float = 80.0
    ring_size: int = 8
    target_jitter: float = 0.02  # standard deviation per axis
    roll_jitter: float = 5.0  # standard deviation about the optical axis
    eye: tuple[float, float, float] = (0.5, 0.0, 0.5)
    target: tuple[float, float, float] = (0.0, 0.0, 0.05)
    poses_file: str = field(default="", metadata=PLAN_ONLY | CONFIG_PATH)  # rows are in the keys
    preset: str = "d435_640x480"  # see stages/render/presets.py; "" uses the numbers below
    fx: float = 0.0  # pixels
    fy: float = 0.0
    cx: float = 0.0
    cy: float = 0.0
    width: int = 0
    height: int = 0

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not 0 < self.radius_min <= self.radius_max:
            problems.append("expected 0 < radius_min <= radius_max")
        if not -90 <= self.elevation_min <= self.elevation_max <= 90:
            problems.append("expected -90 <= elevation_min <= elevation_max <= 90 degrees")
        if self.ring_size < 1:
            problems.append(f"ring_size: expected at least 1, got {self.ring_size}")
        if self.preset and self.preset not in PRESETS:
            problems.append(f"preset: unknown {self.preset!r}; choose from {', '.join(PRESETS)}")
        if self.kind == "file" and not self.poses_file:
            problems.append("kind: file needs poses_file")
        if not all(math.isfinite(v) for v in (self.target_jitter, self.roll_jitter)):
            problems.append("target_jitter and roll_jitter must be finite")
        if problems:
            raise RenderConfigError("camera: " + "; ".join(problems))

    @property
    def intrinsics(self) -> Intrinsics:
        """The preset's, or the explicit numbers."""
        if self.preset:
            return PRESETS[self.preset]
        return Intrinsics(
            fx=self.fx, fy=self.fy, cx=self.cx, cy=self.cy, width=self.width, height=self.height
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderConfig:
    """Views per scene, cameras, backend, what the sensor does to depth, and crop."""

    views: int = field(default=8, metadata=PLAN_ONLY)
    backend: str = "embree"  # see stages/render/backends/__init__.py
    camera: CameraConfig = field(default_factory=CameraConfig)
    sensor: SensorConfig = field(default_factory=SensorConfig)  # off: exact depth
    crop: CropSpec = field(default_factory=CropSpec)

    def __post_init__(self) -> None:
        if self.views < 1:
            raise RenderConfigError(f"views: expected at least 1, got {self.views}")
