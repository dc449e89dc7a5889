"""Messages of ROS 2 as frames: `sensor_msgs/Image` and `CameraInfo`, by their fields alone.

`rclpy` comes with a ROS installation only, so that a node and its subscription are the user's; this
module imports nothing of ROS and takes the messages of any client library or bag reader.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from stages.crop.files import to_metres
from stages.robot.errors import CaptureError
from stages.robot.frame import Frame

DEPTH = {"16UC1": np.uint16, "mono16": np.uint16, "32FC1": np.float32}  # mm, mm, m (REP 118)
COLOUR = {"rgb8": (0, 1, 2), "bgr8": (2, 1, 0)}


def frame_of_messages(
    depth: Any, info: Any, colour: Any = None, *, rectified: bool | None = None
) -> Frame:
    """A frame of a depth `Image`, its `CameraInfo`, and a colour `Image` aligned to it.

    `rectified` says which image it is: by `CameraInfo`, k and d belong to the raw image and p to
    the rectified. It may be left out where both are the same. Raises CaptureError for another
    encoding, a raw image with distortion, binning or a part of an image, and SchemaError for a K of
    another image.
    """
    if depth.encoding not in DEPTH:
        raise CaptureError(f"depth: expected one of {', '.join(DEPTH)}, got {depth.encoding!r}")
    raw = _pixels(depth, DEPTH[depth.encoding], 1)[..., 0]
    k = _matrix(info, rectified)
    k[:2, 2] += 0.5  # ROS has pixel centres at whole numbers
    picture: NDArray[np.uint8] | None = None
    if colour is not None:
        if colour.encoding not in COLOUR:
            raise CaptureError(
                f"colour: expected one of {', '.join(COLOUR)}, got {colour.encoding!r}"
            )
        picture = np.ascontiguousarray(
            _pixels(colour, np.uint8, 3)[..., COLOUR[colour.encoding]], np.uint8
        )
    stamp = depth.header.stamp
    return Frame(
        depth=to_metres(raw, None, "depth"),
        intrinsics=Intrinsics.from_matrix(k, int(info.width), int(info.height)),
        colour=picture,
        time=float(stamp.sec) + 1e-9 * float(stamp.nanosec),
        name=str(depth.header.frame_id) or "ros2",
    )


def _matrix(info: Any, rectified: bool | None) -> NDArray[np.float64]:
    """(3, 3) of the raw or of the rectified image, pixels."""
    roi = info.roi
    whole = (roi.x_offset, roi.y_offset) == (0, 0) and (roi.height, roi.width) in (
        (0, 0),
        (info.height, info.width),
    )
    if max(info.binning_x, info.binning_y) > 1 or not whole:
        raise CaptureError(
            "camera_info: expected the whole image at full resolution, got binning "
            f"{info.binning_x}x{info.binning_y} and a roi of {roi.width}x{roi.height} at "
            f"({roi.x_offset}, {roi.y_offset})"
        )
    raw = np.asarray(info.k, np.float64).reshape(3, 3).copy()
    p = np.asarray(info.p, np.float64).reshape(3, 4)[:, :3].copy()
    bent, calibrated = bool(np.any(np.asarray(info.d, np.float64))), p[0, 0] != 0
    if rectified and (calibrated or bent):
        if not calibrated:
            raise CaptureError("camera_info: expected p of the rectified image, got zeros")
        return p
    if bent:
        raise CaptureError(
            "camera_info: d is not zero, as of a lens with distortion. Pass rectified=True if "
            "the image is rectified; else subscribe to the rectified topic, or run image_proc"
        )
    if rectified is None and calibrated and not np.allclose(p, raw):
        raise CaptureError(
            "camera_info: k of the raw image and p of the rectified differ; say which the image "
            "is: rectified=True or rectified=False"
        )
    return raw


def _pixels(image: Any, dtype: Any, channels: int) -> NDArray[Any]:
    """(H, W, channels) out of rows of `step` bytes, in this machine's byte order."""
    height, width, step = int(image.height), int(image.width), int(image.step)
    kind = np.dtype(dtype)
    used = width * channels * kind.itemsize
    data = np.frombuffer(bytes(image.data), np.uint8)
    if step < used or len(data) < height * step:
        raise CaptureError(
            f"image: expected {height} rows of {used} bytes and more, got rows of {step} in "
            f"{len(data)} bytes"
        )
    rows = np.ascontiguousarray(data[: height * step].reshape(height, step)[:, :used])
    pixels = rows.view(kind)
    if bool(image.is_bigendian) != (sys.byteorder == "big"):
        pixels = pixels.byteswap()
    return pixels.reshape(height, width, channels)
