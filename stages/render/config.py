"""What the cameras look like and what their clouds keep."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from schemas.camera import Intrinsics
from schemas.distortion import Distortion
from schemas.errors import FrameError
from schemas.frames import check_quaternion
from stages.contract import CONFIG_PATH, OPTIONAL, PLAN_ONLY
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
    - look_at: uniform in the box of half extents `eye_box` around `eye`, looking at `target`;
    - wrist: on the mount `T_hand_cam` of `hand`, which comes down to one of the scene's objects,
      drawn at random, tilted by at most `approach_tilt` from straight down, with its grasp centre
      `standoff` short of the middle of the object. The hand itself is not in the picture;
    - file: view i is row i of `poses_file`, (V, 4, 4) `T_world_cam` as .npy or nested JSON.

    hemisphere and ring look at the middle of the scene's objects. All but fixed and file are moved
    by `target_jitter`, and all but those and wrist rolled by `roll_jitter`.
    """

    kind: Literal["hemisphere", "ring", "fixed", "look_at", "wrist", "file"] = "hemisphere"
    radius_min: float = 0.5
    radius_max: float = 0.8
    elevation_min: float = 25.0  # above the horizon
    elevation_max: float = 80.0
    ring_size: int = 8
    target_jitter: float = 0.02  # standard deviation per axis
    roll_jitter: float = 5.0  # standard deviation about the optical axis
    eye: tuple[float, float, float] = (0.5, 0.0, 0.5)
    target: tuple[float, float, float] = (0.0, 0.0, 0.05)
    eye_box: tuple[float, float, float] = field(default=(0.05, 0.05, 0.05), metadata=OPTIONAL)
    hand: str = field(default="panda_gripper", metadata=OPTIONAL)  # a name in configs/hands
    # (7,) xyz, wxyz of the camera in the hand's root body; OpenCV axes. By default beside the
    # flange, looking along its z
    T_hand_cam: tuple[float, float, float, float, float, float, float] = field(
        default=(0.07, 0.0, 0.02, 1.0, 0.0, 0.0, 0.0), metadata=OPTIONAL
    )
    standoff_min: float = field(default=0.1, metadata=OPTIONAL)
    standoff_max: float = field(default=0.25, metadata=OPTIONAL)
    approach_tilt: float = field(default=60.0, metadata=OPTIONAL)
    poses_file: str = field(default="", metadata=PLAN_ONLY | CONFIG_PATH)  # rows are in the keys
    preset: str = "d435_640x480"  # see stages/render/presets.py; "" uses the numbers below
    fx: float = 0.0  # pixels
    fy: float = 0.0
    cx: float = 0.0
    cy: float = 0.0
    width: int = 0
    height: int = 0
    # of the lens, with the preset as well; see schemas/distortion.py
    distortion: Distortion = field(default_factory=Distortion, metadata=OPTIONAL)
    # width, height, pixels: another image size of the same camera; K is rescaled with it
    resize: tuple[int, int] | None = field(default=None, metadata=OPTIONAL)

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
        if not all(0 <= v < math.inf for v in self.eye_box):
            problems.append(f"eye_box: expected half extents >= 0 m, got {self.eye_box}")
        if not 0 < self.standoff_min <= self.standoff_max:
            problems.append("expected 0 < standoff_min <= standoff_max in metres")
        if not 0 <= self.approach_tilt <= 90:
            problems.append(f"approach_tilt: expected 0 to 90 degrees, got {self.approach_tilt}")
        try:
            check_quaternion(self.T_hand_cam[3:], "T_hand_cam quaternion (wxyz)")
        except FrameError as error:
            problems.append(str(error))
        if self.resize is not None and min(self.resize) < 1:
            problems.append(f"resize: expected width, height >= 1 pixel, got {self.resize}")
        if problems:
            raise RenderConfigError("camera: " + "; ".join(problems))

    @property
    def intrinsics(self) -> Intrinsics:
        """The preset's or the explicit numbers, with the lens, at the size asked for."""
        if self.preset:
            K = PRESETS[self.preset]
        else:
            K = Intrinsics(
                fx=self.fx, fy=self.fy, cx=self.cx, cy=self.cy, width=self.width, height=self.height
            )
        K = replace(K, distortion=self.distortion)
        return K if self.resize is None else K.rescaled(*self.resize)


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderConfig:
    """Views per scene, cameras, backend, what the sensor does to depth, and crop."""

    views: int = field(default=8, metadata=PLAN_ONLY)
    backend: str = "embree"  # see stages/render/backends/__init__.py
    camera: CameraConfig = field(default_factory=CameraConfig)
    sensor: SensorConfig = field(default_factory=SensorConfig, metadata=OPTIONAL)  # off: exact
    crop: CropSpec = field(default_factory=CropSpec)
    # Pictures that the maniskill backend takes at once: 0 is 1 on the CPU and 64 on CUDA
    sub_scenes: int = field(default=0, metadata=PLAN_ONLY)
    # Store the normal, or the colour (needs assets.colour), of the surface at every point.
    normals: bool = field(default=False, metadata=OPTIONAL)
    colour: bool = field(default=False, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        if self.views < 1:
            raise RenderConfigError(f"views: expected at least 1, got {self.views}")
        if self.sub_scenes < 0:
            raise RenderConfigError(f"sub_scenes: expected 0 or more, got {self.sub_scenes}")
