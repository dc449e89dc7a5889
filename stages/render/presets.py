"""Intrinsics of real depth cameras, pixels; how they err is in `sensor_presets.py`.

Nominal values of the makers' documents or typical factory calibrations; a real unit differs by a
few pixels, so take its own K where you have it. Fields of view: RealSense D400 series datasheet
(rev. 2023): D435 depth 87 x 58 degrees, D415 depth 65 x 40 degrees, both at 16:9; Azure Kinect
DK hardware specification: NFOV unbinned 640x576, 75 x 65 degrees; Kinect v1 / PrimeSense: the
525-pixel focal length that its OpenNI drivers report at 640x480.
"""

from schemas.camera import Intrinsics


def _focal(f: float, width: int, height: int) -> Intrinsics:
    return Intrinsics(fx=f, fy=f, cx=width / 2, cy=height / 2, width=width, height=height)


# 1280 / 2 / tan(87/2 deg) = 674.4; 640x480 keeps the height's focal length, cut at the sides.
PRESETS: dict[str, Intrinsics] = {
    "d435_1280x720": _focal(674.4, 1280, 720),
    "d435_640x480": _focal(449.6, 640, 480),
    # 1280 / 2 / tan(65/2 deg) = 1004.6
    "d415_1280x720": _focal(1004.6, 1280, 720),
    "d415_640x480": _focal(669.7, 640, 480),
    # 640 / 2 / tan(75/2 deg) = 417.0; 576 / 2 / tan(65/2 deg) = 452.1: square pixels near 504
    # in practice, since the field of view is that of a hexagon; the factory calibration's value.
    "azure_kinect_nfov_640x576": _focal(504.0, 640, 576),
    "kinect_v1_640x480": _focal(525.0, 640, 480),
}
