"""An Intel RealSense camera, or its recording (`.bag`, `.db3`), through `pyrealsense2`.

Depth is in the camera's own unit with 0 for missing; its K has pixel centres at whole numbers.
"""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from schemas.distortion import Distortion
from stages.crop.files import to_metres
from stages.robot.errors import CaptureError, EndOfRecordingError
from stages.robot.frame import Frame

TIMEOUT_MS = 5000
LAST_MS = 2000  # a recording is read as fast as it goes, so that this wait is its end
LIBRARY = "pyrealsense2"


def load_library() -> Any:
    """The module `pyrealsense2`; CaptureError where it is not installed."""
    try:
        import pyrealsense2  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise CaptureError(
            f"{LIBRARY} cannot be imported: {error}; pip install 'grasp-clouds[robot]'"
        ) from error
    return pyrealsense2


class RealSenseSource:
    """Frames of the camera with serial number `device` ("" the first found), or of a recording.

    `frames` replaces the camera by anything else that waits for framesets, a `syncer` for example.
    Colour is aligned to depth where the camera gives it.
    """

    def __init__(
        self,
        device: str = "",
        *,
        width: int = 640,
        height: int = 480,
        fps: int = 30,
        colour: bool = True,
        frames: Any = None,
    ) -> None:
        self._rs: Any = load_library()
        self.name = f"realsense:{device}"
        self._recorded = device.endswith((".bag", ".db3"))
        self._pipeline: Any = None
        self._frames: Any = frames
        self._align: Any = self._rs.align(self._rs.stream.depth)
        if frames is None:
            self._start(device, width, height, fps, colour)

    def _start(self, device: str, width: int, height: int, fps: int, colour: bool) -> None:
        rs = self._rs
        config = rs.config()
        pipeline = rs.pipeline()
        try:
            if self._recorded:
                config.enable_device_from_file(device, False)
            else:
                if device:
                    config.enable_device(device)
                config.enable_stream(rs.stream.depth, width, height, rs.format.z16, fps)
                if colour:
                    config.enable_stream(rs.stream.color, width, height, rs.format.rgb8, fps)
            profile = pipeline.start(config)
            if self._recorded:
                profile.get_device().as_playback().set_real_time(False)
        except RuntimeError as error:
            raise CaptureError(
                f"{self.name}: cannot be opened: {error}; is the camera plugged in, its serial "
                f"number right and {width}x{height} at {fps} Hz one of its modes?"
            ) from error
        self._pipeline = self._frames = pipeline

    def read(self) -> Frame:
        """The next frame. Raises CaptureError, or EndOfRecordingError after the last of a file."""
        if self._frames is None:
            raise CaptureError(f"{self.name}: is closed")
        try:
            found = self._frames.wait_for_frames(LAST_MS if self._recorded else TIMEOUT_MS)
        except RuntimeError as error:
            if self._recorded:
                raise EndOfRecordingError(f"{self.name}: no more frames: {error}") from error
            raise CaptureError(
                f"{self.name}: no frame within {TIMEOUT_MS / 1000:g} s: {error}; is the camera "
                "still connected?"
            ) from error
        arrived = time.time()
        depth = found.get_depth_frame()
        if not depth:
            raise CaptureError(f"{self.name}: a frameset came without depth")
        colour: NDArray[np.uint8] | None = None
        if found.get_color_frame():
            aligned = self._align.process(found)
            depth, picture = aligned.get_depth_frame(), aligned.get_color_frame()
            colour = np.array(picture.get_data(), np.uint8)
        metres = to_metres(np.asanyarray(depth.get_data()), float(depth.get_units()), self.name)
        return Frame(
            depth=metres,
            intrinsics=self._intrinsics(depth.profile.as_video_stream_profile().get_intrinsics()),
            colour=colour,
            time=self._time(depth, arrived),
            name=self.name,
        )

    def close(self) -> None:
        if self._pipeline is not None:
            self._pipeline.stop()
        self._pipeline = self._frames = None

    def _time(self, depth: Any, arrived: float) -> float:
        """s since the epoch; when it arrived, where the camera counts from its own start."""
        own = depth.get_frame_timestamp_domain() == self._rs.timestamp_domain.hardware_clock
        return arrived if own else depth.get_timestamp() / 1000.0

    def _intrinsics(self, found: Any) -> Intrinsics:
        lens = Distortion()
        if any(found.coeffs):
            if found.model != self._rs.distortion.brown_conrady:
                raise CaptureError(
                    f"{self.name}: lens model {found.model} with coefficients is not supported; "
                    "take the rectified depth stream"
                )
            names = ("k1", "k2", "p1", "p2", "k3")
            numbers = dict(zip(names, map(float, found.coeffs), strict=True))
            lens = Distortion.from_dict({"model": "brown_conrady", **numbers})
        return Intrinsics(
            fx=found.fx,
            fy=found.fy,
            cx=found.ppx + 0.5,
            cy=found.ppy + 0.5,
            width=found.width,
            height=found.height,
            distortion=lens,
        )
