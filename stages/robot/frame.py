"""One frame of a depth camera, whatever it came from, in the project's conventions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.camera import Intrinsics
from schemas.frames import check_transform
from stages.crop import CroppedCloud, CropSpec, crop_depth
from stages.robot.errors import CaptureError, StaleFrameError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Frame:
    """`depth` (H, W) float32 z-depth in metres, missing NaN, and what goes with it.

    `colour` (H, W, 3) uint8 RGB; `segment` (H, W) integer ids, named by `segment_table`;
    `T_world_cam` (4, 4); `time` in seconds since the epoch, NaN unknown. All of the depth camera.
    """

    depth: NDArray[np.float32]
    intrinsics: Intrinsics
    colour: NDArray[np.uint8] | None = None
    segment: NDArray[np.integer] | None = None
    segment_table: Mapping[str, int] | None = None
    T_world_cam: NDArray[np.float64] | None = None
    time: float = math.nan
    name: str = "frame"

    def __post_init__(self) -> None:
        if self.depth.dtype != np.float32:
            raise CaptureError(f"{self.name}: depth: expected float32 m, got {self.depth.dtype}")
        self.intrinsics.check_image(self.depth.shape, f"{self.name}: depth")
        colour, wanted = self.colour, (*self.depth.shape, 3)
        if colour is not None and (colour.dtype != np.uint8 or colour.shape != wanted):
            raise CaptureError(
                f"{self.name}: colour: expected uint8 {wanted} like depth, got {colour.dtype} "
                f"{colour.shape}; align colour to depth first"
            )
        if (self.segment is None) != (self.segment_table is None):
            raise CaptureError(f"{self.name}: segment and segment_table go together")
        if self.segment is not None:
            self.intrinsics.check_image(self.segment.shape, f"{self.name}: segment")
            if not np.issubdtype(self.segment.dtype, np.integer):
                raise CaptureError(
                    f"{self.name}: segment: expected integer ids, got {self.segment.dtype}"
                )
        if self.T_world_cam is not None:
            check_transform(self.T_world_cam, f"{self.name}: T_world_cam")

    def crop(
        self, spec: CropSpec, *, seed: int = 0, table_pose: ArrayLike | None = None
    ) -> CroppedCloud:
        """The cloud that training would have seen of this frame; raises as `crop_depth` does.

        `table_pose` (7,) xyz + wxyz, world, is needed when the crop's box stands on the table.
        """
        return crop_depth(
            self.depth,
            self.intrinsics,
            spec,
            seed=seed,
            segment=self.segment,
            segment_table=self.segment_table,
            T_world_cam=self.T_world_cam,
            table_pose=table_pose,
        )


def check_age(frame: Frame, now: float, limit_s: float) -> None:
    """Raise StaleFrameError unless `frame` was taken at most `limit_s` seconds before `now`.

    A frame without a time is refused, and so is one from more than `limit_s` in the future: its
    clock is another.
    """
    age = now - frame.time
    if not abs(age) <= limit_s:
        raise StaleFrameError(frame.name, age, limit_s)
