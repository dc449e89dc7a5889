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
from stages.crop.sampling import inliers, random_points, spatial_sample
from stages.crop.segments import kept_segments
from stages.crop.spec import CropSpec

F32 = NDArray[np.float32]
BLOCK = 2**15  # pixels
FARTHEST = float(np.finfo(np.float32).max)  # m; infinite depth is missing


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
    ids = None
    if segment is not None:
        segment = np.asarray(segment)
        intrinsics.check_image(segment.shape, "segment")
        if not np.issubdtype(segment.dtype, np.integer):
            raise CropError(f"segment: expected integer ids, got {segment.dtype}")
        ids = segment.reshape(-1)
    return _crop(
        None,
        depth.astype(np.float32, copy=False).reshape(-1),
        ids,
        intrinsics,
        spec,
        seed,
        segment_table,
        T_world_cam,
        table_pose,
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
    return _crop(pixel, z, segment, intrinsics, spec, seed, segment_table, T_world_cam, table_pose)


def _crop(
    pixel: NDArray[np.integer] | None,
    z: F32,
    segment: NDArray[np.integer] | None,
    intrinsics: Intrinsics,
    spec: CropSpec,
    seed: int,
    segment_table: Mapping[str, int] | None,
    T_world_cam: ArrayLike | None,
    table_pose: ArrayLike | None,
) -> CroppedCloud:
    """The crop of `pixel`, or of all pixels, which then need no list."""
    kept_ids = kept_segments(spec, segment_table)
    if segment is None and kept_ids is not None:
        raise CropError("crop: it chooses segments, but no segment image was given")
    runs = None if kept_ids is None else _runs(kept_ids)
    to_world = None
    if spec.frame == "world" or (spec.box_min is not None and spec.box_frame == "world"):
        if T_world_cam is None:
            raise CropError("crop: it works in the world frame and needs T_world_cam")
        to_world = check_transform(T_world_cam, "T_world_cam")
    to_box = None
    if spec.box_min is not None and spec.box_frame == "world" and to_world is not None:
        to_box = _to_table(table_pose) @ to_world

    # In blocks that stay in the processor's cache: several times faster than whole images.
    at = np.concatenate(
        [
            _survivors(a, pixel, z, segment, runs, intrinsics, spec, to_box)
            for a in range(0, max(1, len(z)), BLOCK)
        ]
    )
    if spec.outlier_cell > 0:
        points = np.stack(_coordinates(at, pixel, z, intrinsics), axis=1)
        at = at[inliers(points, spec.outlier_cell, spec.outlier_min_points)]
    valid_count, rng = len(at), np.random.default_rng(seed)
    if spec.sampling == "random":  # it needs no points: compute those alone that stay
        at = at[random_points(valid_count, spec.num_points, rng)]
    x, y, depth = _coordinates(at, pixel, z, intrinsics)
    if spec.frame == "world" and to_world is not None:
        x, y, depth = _mapped(to_world, x, y, depth)
    points = np.stack([x, y, depth], axis=1)
    chosen = spatial_sample(points, spec, rng)
    if chosen is not None:
        points, at = points[chosen], at[chosen]
    return CroppedCloud(
        points=points,
        segment=(np.zeros(len(at)) if segment is None else segment[at]).astype(np.uint16),
        pixel=(at if pixel is None else pixel[at]).astype(np.int64),
        valid_count=valid_count,
    )


def _survivors(
    start: int,
    pixel: NDArray[np.integer] | None,
    z: F32,
    segment: NDArray[np.integer] | None,
    runs: list[tuple[int, int]] | None,
    intrinsics: Intrinsics,
    spec: CropSpec,
    to_box: NDArray[np.float64] | None,
) -> NDArray[np.int64]:
    """What one block of `z` leaves, as indices into it, before outliers and sampling."""
    block = slice(start, start + BLOCK)
    with np.errstate(invalid="ignore"):
        keep = z[block] > np.float32(spec.min_depth)
        keep &= z[block] < np.float32(min(spec.max_depth, FARTHEST))
    if runs is not None and segment is not None:
        own, wanted = segment[block], np.zeros(len(keep), bool)
        for first, last in runs:
            wanted |= (own >= first) & (own <= last)
        keep &= wanted
    at = np.flatnonzero(keep) + start
    boxed = spec.box_min is not None and spec.box_max is not None
    if not (boxed or intrinsics.distortion):
        return at
    where = _coordinates(at, pixel, z, intrinsics)
    inside = np.isfinite(where[0])  # not where no ray leaves a distorted lens
    if spec.box_min is not None and spec.box_max is not None:
        if to_box is not None:
            where = _mapped(to_box, *where)
        for value, low, high in zip(where, spec.box_min, spec.box_max, strict=True):
            inside &= value >= np.float32(low)
            inside &= value <= np.float32(high)
    return at[inside]


def _coordinates(
    at: NDArray[np.int64], pixel: NDArray[np.integer] | None, z: F32, intrinsics: Intrinsics
) -> tuple[F32, F32, F32]:
    """x, y, z (N,) m in the camera frame of the rows `at`."""
    x, y = slopes_at(at if pixel is None else pixel[at], intrinsics)
    depth = z[at]
    return x * depth, y * depth, depth


def _runs(ids: NDArray[np.uint16]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive ids: two comparisons instead of a gather."""
    breaks = np.flatnonzero(np.diff(ids.astype(np.int64)) != 1) + 1
    return [(int(run[0]), int(run[-1])) for run in np.split(ids, breaks) if len(run)]


def _to_table(table_pose: ArrayLike | None) -> NDArray[np.float64]:
    """(4, 4) from the world to the table's frame."""
    if table_pose is None:
        raise CropError(
            "crop: its box is relative to the table and needs table_pose (xyz + wxyz); "
            "pass (0, 0, 0, 1, 0, 0, 0) when the table top is the world origin"
        )
    pose = np.asarray(table_pose, np.float64)
    if pose.shape != (7,):
        raise CropError(f"table_pose: expected 7 numbers (xyz + wxyz), got {pose.shape}")
    check_quaternion(pose[3:], "table_pose quaternion")
    return invert(pose_to_matrix(pose))


def _mapped(T: NDArray[np.float64], x: F32, y: F32, z: F32) -> tuple[F32, F32, F32]:
    """Rigid map of (N,) coordinates, element by element (see the note on equal bits above)."""
    R, t = T[:3, :3].astype(np.float32), T[:3, 3].astype(np.float32)

    def row(i: int) -> F32:
        out = R[i, 0] * x
        out += R[i, 1] * y
        out += R[i, 2] * z
        out += t[i]
        return out

    return row(0), row(1), row(2)
