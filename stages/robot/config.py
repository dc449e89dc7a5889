"""How the files of a capture say what they hold: units, missing values, K, names of segments.

A capture's config is JSON beside its files, or one for many captures of the same kind
(configs/captures). Values that name a file are "FILE" or "FILE#KEY"; "{stem}" in them is the name
of the capture that was asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from stages.robot.errors import CaptureError

Entry = str | float  # a file's value, or a number


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureConfig:
    """Every field of a capture's JSON. One of `depth` and `cloud` is needed, and intrinsics."""

    depth: str = ""  # (H, W) z-depth, .npy, .png, .npz#key, .mat#key
    cloud: str = ""  # PCD or PLY in the camera frame, instead of depth
    depth_scale: float | None = None  # m per unit; None: 1 for floating, 0.001 for integer images
    missing: tuple[float, ...] = ()  # values, in the file's unit, that mean "not measured" besides
    # zero, negative, infinite and NaN ones, which always do
    K: str = ""  # (3, 3) camera matrix, pixels, of the depth image's size
    intrinsics: tuple[Entry, ...] = ()  # fx fy cx cy [width height], instead of K
    distortion: Mapping[str, Any] = field(default_factory=dict[str, Any])  # schemas/distortion.py
    pixel_centre: float = 0.5  # where K has the centre of the first pixel: 0.5 here, 0 in OpenCV's
    # calibration, ROS and RealSense
    colour: str = ""  # (H, W, 3) uint8 RGB
    segment: str = ""  # (H, W) integer ids or bool
    object_points: str = ""  # (N, 3) m, camera frame: their pixels are object:0; instead of segment
    segments: Mapping[str, int] = field(default_factory=dict[str, int])  # name -> id; "object:*"
    # names all ids from its own upwards
    T_world_cam: str | tuple[tuple[float, ...], ...] = ""  # (4, 4) file or numbers
    T_cam_cloud: tuple[tuple[float, ...], ...] = ()  # (4, 4) of a cloud in another frame
    time: Entry = ""  # s since the epoch

    def __post_init__(self) -> None:
        problems: list[str] = []
        if bool(self.depth) == bool(self.cloud):
            problems.append("expected either depth or cloud")
        if self.K and self.intrinsics:
            problems.append("expected either K or intrinsics, not both")
        if self.depth and not (self.K or self.intrinsics):
            problems.append("depth needs K or intrinsics")
        if self.intrinsics and len(self.intrinsics) not in (4, 6):
            problems.append("intrinsics: expected fx fy cx cy, with width height to be safe")
        if self.cloud and self.intrinsics and len(self.intrinsics) != 6:
            problems.append("intrinsics of a cloud: expected fx fy cx cy width height")
        if self.pixel_centre not in (0.0, 0.5):
            problems.append(f"pixel_centre: expected 0 or 0.5, got {self.pixel_centre}")
        if self.segment and self.object_points:
            problems.append("expected either segment or object_points, not both")
        if problems:
            raise CaptureError("capture: " + "; ".join(problems))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str) -> "CaptureConfig":
        """From JSON's values; an unknown key is an error that lists the known ones."""
        known = [f.name for f in fields(cls)]
        if unknown := sorted(set(values) - set(known)):
            raise CaptureError(f"{source}: unknown keys {unknown}; known: {known}")
        wrong = [
            f"{name} (expected {expected.__name__})"
            for name, value in values.items()
            if not isinstance(value, expected := _TYPES.get(name, object))
        ]
        scale = values.get("depth_scale")
        if not (scale is None or _is_number(scale)):
            wrong.append("depth_scale (expected a number or null)")
        if not wrong and not all(map(_is_number, values.get("missing", []))):
            wrong.append("missing (expected numbers)")
        if wrong:
            raise CaptureError(f"{source}: {', '.join(wrong)}")
        return cls(**{name: _frozen(value) for name, value in values.items()})


_TYPES: dict[str, type] = {
    **dict.fromkeys(("depth", "cloud", "K", "colour", "segment", "object_points"), str),
    **dict.fromkeys(("missing", "intrinsics", "T_cam_cloud"), list),
    **dict.fromkeys(("distortion", "segments"), dict),
}


def _is_number(value: Any) -> bool:
    """Finite, and not one of JSON's integers of a thousand digits."""
    return isinstance(value, int | float) and abs(value) < 1e300


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value
