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


def info(
    width: int = 8, height: int = 6, d: float = 0.0, cx: float = 3.5, p: tuple[float, ...] = (),
    roi_width: int = 0, binning: int = 0,
) -> Any:  # fmt: skip
    roi = TYPE["sensor_msgs/msg/RegionOfInterest"](
        x_offset=0, y_offset=0, height=height if roi_width else 0, width=roi_width,
        do_rectify=False,
    )  # fmt: skip
    return TYPE["sensor_msgs/msg/CameraInfo"](
        header=HEADER, height=height, width=width, distortion_model="plumb_bob",
        d=np.array([d] * 5),
        k=np.array([10.0, 0, cx, 0, 11.0, 2.5, 0, 0, 1]), r=np.eye(3).reshape(-1),
        p=np.array(p or [0.0] * 12), binning_x=binning, binning_y=binning, roi=roi,
    )  # fmt: skip


RECTIFIED = (9.0, 0.0, 3.0, -0.5, 0.0, 9.5, 2.0, 0.0, 0.0, 0.0, 1.0, 0.0)  # p of a second camera


def test_p_belongs_to_the_rectified_image_and_k_to_the_raw() -> None:
    raw = np.full((6, 8), 700, np.uint16)
    for given, rectified, wanted in (
        (info(d=0.1, p=RECTIFIED), True, (9.0, 9.5, 3.5, 2.5)),
        (info(p=RECTIFIED), True, (9.0, 9.5, 3.5, 2.5)),
        (info(p=RECTIFIED), False, (10.0, 11.0, 4.0, 3.0)),
        (info(), True, (10.0, 11.0, 4.0, 3.0)),  # no calibration but k, and nothing to rectify
        (info(roi_width=8, binning=1), None, (10.0, 11.0, 4.0, 3.0)),
    ):
        K = frame_of_messages(image(raw, "16UC1"), given, rectified=rectified).intrinsics
        assert (K.fx, K.fy, K.cx, K.cy) == wanted


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
    for given, rectified, message in (
        (info(d=0.1), None, "Pass rectified=True if the image is"),
        (info(d=0.1), False, "d is not zero"),
        (info(d=0.1), True, "expected p of the rectified image, got zeros"),
        (info(p=RECTIFIED), None, "k of the raw image and p of the rectified differ"),
        (info(binning=2), None, "got binning 2x2"),
        (info(roi_width=4), None, "roi of 4x6"),
    ):
        with pytest.raises(CaptureError, match=message):
            frame_of_messages(image(raw, "16UC1"), given, rectified=rectified)
    with pytest.raises(SchemaError, match=r"expected shape \(12, 16\)"):
        frame_of_messages(image(raw, "16UC1"), info(width=16, height=12))
    short = image(raw, "16UC1")
    short.step = 2
    with pytest.raises(CaptureError, match="rows of 2"):
        frame_of_messages(short, info())
