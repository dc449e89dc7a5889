"""A depth image in, the stored cloud out. One function for the generator and for the robot.

The order is fixed: validity, back-projection, segment choice, box, outliers, sampling. All
arithmetic is element by element in float32, never a matrix product, so that a point does not
depend on which other pixels were there: the renderer may skip pixels and still give equal bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.camera import Intrinsics
from schemas.frames import check_quaternion, check_transform, invert, pose_to_matrix
from stages.crop.errors import CropError
from stages.crop.rays import slopes_at
from stages.crop.sampling import inliers, sample
from stages.crop.segments import kept_segments
from stages.crop.spec import CropSpec

F32 = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CroppedCloud:
    """`points` (N, 3) float32 m in `spec.frame`; `segment` (N,) uint16; pixels of the image.

    `pixel` (N,) int64 is row * width + column. `valid_count` counts points before sampling.
    """

    points: F32
    segment: NDArray[np.uint16]
    pixel: NDArray[np.int64]
    valid_count: int


def crop_depth(
    depth: NDArray[np.floating],
    intrinsics: Intrinsics,
    spec: CropSpec,
    *,
    seed: int,
    segment: NDArray[np.integer] | None = None,
    segment_table: Mapping[str, int] | None = None,
    T_world_cam: ArrayLike | None = None,
    table_pose: ArrayLike | None = None,
) -> CroppedCloud:
    """Crop a dense depth image.

    `depth` (H, W) float: z-depth in metres, missing = NaN, infinite, or not positive. `segment`
    (H, W) integer ids named by `segment_table`. `T_world_cam` (4, 4) and `table_pose` (7,) xyz +
    wxyz are needed when the crop works in the world frame. `seed` is used by random sampling.

    Raises CropError, SchemaError (image size against intrinsics) or FrameError (poses).
    """
    depth = np.asarray(depth)
    intrinsics.check_image(depth.shape, "depth")
    if not np.issubdtype(depth.dtype, np.floating):
        raise CropError(
            f"depth: expected floating metres, got {depth.dtype}; integer images are usually "
            "millimetres: multiply by 0.001 and turn the missing value into NaN"
        )
    flat = depth.astype(np.float32, copy=False).reshape(-1)
    with np.errstate(invalid="ignore"):
        pixel = np.flatnonzero((flat > 0) & (flat < np.inf))
    ids = None
    if segment is not None:
        segment = np.asarray(segment)
        intrinsics.check_image(segment.shape, "segment")
        if not np.issubdtype(segment.dtype, np.integer):
            raise CropError(f"segment: expected integer ids, got {segment.dtype}")
        ids = segment.reshape(-1)[pixel]
    return crop_pixels(
        pixel,
        flat[pixel],
        intrinsics,
        spec,
        seed=seed,
        segment=ids,
        segment_table=segment_table,
        T_world_cam=T_world_cam,
        table_pose=table_pose,
    )


def crop_pixels(
    pixel: NDArray[np.integer],
    z: F32,
    intrinsics: Intrinsics,
    spec: CropSpec,
    *,
    seed: int,
    segment: NDArray[np.integer] | None = None,
    segment_table: Mapping[str, int] | None = None,
    T_world_cam: ArrayLike | None = None,
    table_pose: ArrayLike | None = None,
) -> CroppedCloud:
    """The same crop for some pixels only: `pixel` (M,) ascending row * width + column, `z` (M,).

    Gives the same bits as `crop_depth` on the full image whenever the pixels left out would not
    have survived. Raises as `crop_depth` does.
    """
    if not (pixel.ndim == 1 and pixel.shape == z.shape):
        raise CropError(f"expected pixel and z of one shape (M,), got {pixel.shape}, {z.shape}")
    with np.errstate(invalid="ignore"):
        keep = (z > np.float32(spec.min_depth)) & (z < np.float32(spec.max_depth))
    kept_ids = kept_segments(spec, segment_table)
    if segment is None:
        if kept_ids is not None:
            raise CropError("crop: it chooses segments, but no segment image was given")
        segment = np.zeros(len(pixel), np.uint16)
    elif kept_ids is not None:
        # A table over all 16-bit ids: one gather instead of a sort.
        table = np.zeros(2**16, bool)
        table[kept_ids] = True
        keep &= table[segment]
    pixel, z, segment = pixel[keep], z[keep], segment[keep]

    x, y = slopes_at(pixel, intrinsics)
    points = np.stack([x * z, y * z, z], axis=1)
    if intrinsics.distortion:
        reached = np.isfinite(x)
        points, segment, pixel = points[reached], segment[reached], pixel[reached]

    to_world = None
    if spec.frame == "world" or (spec.box_min is not None and spec.box_frame == "world"):
        if T_world_cam is None:
            raise CropError("crop: it works in the world frame and needs T_world_cam")
        to_world = check_transform(T_world_cam, "T_world_cam")
    if spec.box_min is not None and spec.box_max is not None:
        inside = _inside(points, spec, to_world, table_pose)
        points, segment, pixel = points[inside], segment[inside], pixel[inside]
    if spec.outlier_cell > 0:
        good = inliers(points, spec.outlier_cell, spec.outlier_min_points)
        points, segment, pixel = points[good], segment[good], pixel[good]
    if spec.frame == "world" and to_world is not None:
        points = _mapped(to_world, points)

    valid_count = len(points)
    chosen = sample(points, spec, np.random.default_rng(seed))
    if chosen is not None:
        points, segment, pixel = points[chosen], segment[chosen], pixel[chosen]
    return CroppedCloud(
        points=points,
        segment=segment.astype(np.uint16),
        pixel=pixel.astype(np.int64),
        valid_count=valid_count,
    )


def _inside(
    points: F32,
    spec: CropSpec,
    to_world: NDArray[np.float64] | None,
    table_pose: ArrayLike | None,
) -> NDArray[np.bool_]:
    if spec.box_frame == "world" and to_world is not None:
        if table_pose is None:
            raise CropError(
                "crop: its box is relative to the table and needs table_pose (xyz + wxyz); "
                "pass (0, 0, 0, 1, 0, 0, 0) when the table top is the world origin"
            )
        pose = np.asarray(table_pose, np.float64)
        if pose.shape != (7,):
            raise CropError(f"table_pose: expected 7 numbers (xyz + wxyz), got {pose.shape}")
        check_quaternion(pose[3:], "table_pose quaternion")
        points = _mapped(invert(pose_to_matrix(pose)) @ to_world, points)
    low, high = (np.asarray(corner, np.float32) for corner in (spec.box_min, spec.box_max))
    return np.all((points >= low) & (points <= high), axis=1)


def _mapped(T: NDArray[np.float64], points: F32) -> F32:
    """Rigid map, element by element (see the note on equal bits above)."""
    R, t = T[:3, :3].astype(np.float32), T[:3, 3].astype(np.float32)
    x, y, z = points[:, 0], points[:, 1], points[:, 2]
    return np.stack([R[i, 0] * x + R[i, 1] * y + R[i, 2] * z + t[i] for i in range(3)], axis=1)
