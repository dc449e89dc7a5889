"""Messages with the fields of sensor_msgs, by a library that serialises real ROS 2 bags."""

import sys
from typing import Any

import numpy as np
import pytest

from schemas.errors import SchemaError
from stages.crop import CropSpec
from stages.robot import CaptureError
from stages.robot.sources.ros2 import frame_of_messages

typesys = pytest.importorskip("rosbags.typesys")
STORE = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
TYPE = STORE.types
HEADER = TYPE["std_msgs/msg/Header"](
    stamp=TYPE["builtin_interfaces/msg/Time"](sec=12, nanosec=500_000_000), frame_id="camera"
)


def image(pixels: np.ndarray, encoding: str, pad: int = 0, big: bool = False) -> Any:
    """As it comes off the wire: serialised and read again."""
    rows = pixels.reshape(len(pixels), -1)
    if big != (sys.byteorder == "big"):
        rows = rows.byteswap()
    data = np.ascontiguousarray(rows).view(np.uint8)
    data = np.pad(data, ((0, 0), (0, pad)), constant_values=99)
    message = TYPE["sensor_msgs/msg/Image"](
        header=HEADER, height=len(pixels), width=pixels.shape[1], encoding=encoding,
        is_bigendian=int(big), step=data.shape[1], data=data.reshape(-1),
    )  # fmt: skip
    name = "sensor_msgs/msg/Image"
    return STORE.deserialize_cdr(STORE.serialize_cdr(message, name), name)


def info(width: int = 8, height: int = 6, d: float = 0.0, cx: float = 3.5) -> Any:
    roi = TYPE["sensor_msgs/msg/RegionOfInterest"](
        x_offset=0, y_offset=0, height=0, width=0, do_rectify=False
    )
    return TYPE["sensor_msgs/msg/CameraInfo"](
        header=HEADER, height=height, width=width, distortion_model="plumb_bob",
        d=np.array([d] * 5),
        k=np.array([10.0, 0, cx, 0, 11.0, 2.5, 0, 0, 1]), r=np.eye(3).reshape(-1),
        p=np.zeros(12), binning_x=0, binning_y=0, roi=roi,
    )  # fmt: skip


@pytest.mark.parametrize("pad", [0, 6])
@pytest.mark.parametrize("big", [False, True])
def test_a_frame_of_messages(pad: int, big: bool) -> None:
    rng = np.random.default_rng(0)
    raw = rng.integers(300, 900, (6, 8)).astype(np.uint16)
    raw[1, 2] = 0
    rgb = rng.integers(0, 255, (6, 8, 3)).astype(np.uint8)
    frame = frame_of_messages(
        image(raw, "16UC1", pad, big), info(), image(rgb[..., ::-1].copy(), "bgr8", pad)
    )
    np.testing.assert_array_equal(np.isnan(frame.depth), raw == 0)
    np.testing.assert_allclose(frame.depth[raw > 0], raw[raw > 0] / 1000, rtol=1e-6)
    np.testing.assert_array_equal(frame.colour, rgb)
    assert frame.time == 12.5
    assert (frame.intrinsics.cx, frame.intrinsics.cy) == (4.0, 3.0)
    # the point of pixel (column 5, row 2) by ROS's own pinhole: (u - cx) z / fx
    cloud = frame.crop(CropSpec(extract_segments=()))
    [point] = cloud.points[cloud.pixel == 2 * 8 + 5]
    z = raw[2, 5] / 1000
    np.testing.assert_allclose(point, [(5 - 3.5) * z / 10, (2 - 2.5) * z / 11, z], rtol=1e-5)
    metres = np.where(raw == 0, np.nan, raw / 1000).astype(np.float32)
    again = frame_of_messages(image(metres, "32FC1", 4 * pad, big), info())
    np.testing.assert_allclose(again.depth, frame.depth, rtol=1e-6)


def test_messages_that_cannot_be_are_told() -> None:
    raw = np.full((6, 8), 700, np.uint16)
    with pytest.raises(CaptureError, match="depth: expected one of 16UC1, mono16, 32FC1"):
        frame_of_messages(image(raw, "8UC1"), info())
    with pytest.raises(CaptureError, match="colour: expected one of rgb8, bgr8"):
        frame_of_messages(image(raw, "16UC1"), info(), image(raw, "mono16"))
    with pytest.raises(CaptureError, match="is not rectified"):
        frame_of_messages(image(raw, "16UC1"), info(d=0.1))
    with pytest.raises(SchemaError, match=r"expected shape \(12, 16\)"):
        frame_of_messages(image(raw, "16UC1"), info(width=16, height=12))
    short = image(raw, "16UC1")
    short.step = 2
    with pytest.raises(CaptureError, match="rows of 2"):
        frame_of_messages(short, info())
