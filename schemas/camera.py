"""Cameras, OpenCV convention (x right, y down, z forward), pixel centres at +0.5."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.distortion import Distortion
from schemas.errors import SchemaError
from schemas.frames import check_transform


@dataclass(frozen=True, kw_only=True, slots=True)
class Intrinsics:
    """Focal lengths and principal point in pixels, always with the image size they belong to.

    A pixel is where `distortion` puts the ray, times the focal length, plus the principal point.
    """

    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int
    distortion: Distortion = field(default_factory=Distortion)

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not (self.fx > 0 and self.fy > 0):
            problems.append(f"focal lengths must be positive pixels, got {self.fx}, {self.fy}")
        if self.width < 1 or self.height < 1:
            problems.append(f"image size must be positive, got {self.width}x{self.height}")
        elif not (0 <= self.cx <= self.width and 0 <= self.cy <= self.height):
            problems.append(
                f"principal point ({self.cx}, {self.cy}) lies outside the "
                f"{self.width}x{self.height} image: K of another image size? use rescaled()"
            )
        if problems:
            raise SchemaError("intrinsics: " + "; ".join(problems))

    @classmethod
    def from_matrix(cls, K: ArrayLike, width: int, height: int) -> "Intrinsics":
        """From a (3, 3) K without skew and the size (pixels) of the image it belongs to."""
        K = np.asarray(K, dtype=np.float64)
        if K.shape != (3, 3):
            raise SchemaError(f"K: expected a 3x3 matrix, got shape {K.shape}")
        if K[0, 1] != 0 or K[1, 0] != 0 or not np.array_equal(K[2], [0, 0, 1]):
            raise SchemaError(f"K: expected [fx 0 cx; 0 fy cy; 0 0 1], got {K.tolist()}")
        return cls(
            fx=float(K[0, 0]),
            fy=float(K[1, 1]),
            cx=float(K[0, 2]),
            cy=float(K[1, 2]),
            width=width,
            height=height,
        )

    @property
    def K(self) -> NDArray[np.float64]:
        """(3, 3) float64 camera matrix, pixels."""
        return np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1]], np.float64)

    @classmethod
    def from_array(cls, numbers: ArrayLike, distortion: ArrayLike = ()) -> "Intrinsics":
        """From (6,) fx fy cx cy width height and `Distortion.to_array`, as datasets store them."""
        values = np.asarray(numbers, np.float64)
        if values.shape != (6,) or not np.isfinite(values).all():
            raise SchemaError(f"intrinsics: expected six finite numbers, got {values.tolist()}")
        fx, fy, cx, cy, width, height = values.tolist()
        lens = Distortion.from_array(distortion)
        size = {"width": int(width), "height": int(height)}
        return cls(fx=fx, fy=fy, cx=cx, cy=cy, distortion=lens, **size)

    def to_array(self) -> NDArray[np.float64]:
        """(6,) float64 fx fy cx cy width height, pixels; without the distortion."""
        return np.array([self.fx, self.fy, self.cx, self.cy, self.width, self.height], np.float64)

    def rescaled(self, width: int, height: int) -> "Intrinsics":
        """The same camera with its image resized to `width` x `height` pixels."""
        sx, sy = width / self.width, height / self.height
        return replace(
            self,
            fx=self.fx * sx,
            fy=self.fy * sy,
            cx=self.cx * sx,
            cy=self.cy * sy,
            width=width,
            height=height,
        )

    def project(self, points_cam: ArrayLike) -> NDArray[np.float64]:
        """(N, 3) points, camera frame -> (N, 2) pixels u, v; NaN for z <= 0."""
        x, y, z = np.asarray(points_cam, np.float64).T
        ahead = np.where(z > 0, z, np.nan)
        x, y = self.distortion.distort(x / ahead, y / ahead)
        return np.stack([self.fx * x + self.cx, self.fy * y + self.cy], axis=1)

    def check_image(self, shape: tuple[int, ...], name: str = "depth") -> None:
        """Raise SchemaError unless `shape` is (height, width) of these intrinsics."""
        if tuple(shape) != (self.height, self.width):
            raise SchemaError(
                f"{name}: expected shape {(self.height, self.width)} (height, width) as the "
                f"intrinsics say, got {tuple(shape)}; pass the K of this image or use rescaled()"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Camera:
    """A posed camera. `T_world_cam` (4, 4) float64 maps camera points to world, metres."""

    intrinsics: Intrinsics
    T_world_cam: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "T_world_cam", check_transform(self.T_world_cam, "T_world_cam"))

    def moved(self, position_cam: ArrayLike) -> "Camera":
        """The same camera with its centre at `position_cam` (3,) m of its own frame."""
        T = self.T_world_cam.copy()
        T[:3, 3] += T[:3, :3] @ np.asarray(position_cam, np.float64)
        return replace(self, T_world_cam=T)
