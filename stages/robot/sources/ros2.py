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


def frame_of_messages(depth: Any, info: Any, colour: Any = None) -> Frame:
    """A frame of a rectified depth `Image`, its `CameraInfo`, and a colour `Image` aligned to it.

    Raises CaptureError for another encoding, and SchemaError for a K of another image.
    """
    if depth.encoding not in DEPTH:
        raise CaptureError(f"depth: expected one of {', '.join(DEPTH)}, got {depth.encoding!r}")
    raw = _pixels(depth, DEPTH[depth.encoding], 1)[..., 0]
    if any(np.asarray(info.d, np.float64)):
        raise CaptureError(
            "camera_info: the image is not rectified (d is not zero); subscribe to the rectified "
            "topic, or run image_proc"
        )
    k = np.asarray(info.k, np.float64).reshape(3, 3).copy()
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
