"""A capture in files, read as its config says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from schemas.distortion import Distortion
from schemas.errors import ForeignFileError
from schemas.files import read_json
from schemas.frames import check_transform
from stages.crop.errors import ImageFileError
from stages.crop.files import check_centred, to_metres
from stages.robot.config import CaptureConfig
from stages.robot.errors import CaptureError
from stages.robot.frame import Frame
from stages.robot.segments import OBJECT, named_ids
from stages.robot.sources.clouds import cloud_to_depth, read_cloud
from stages.robot.sources.values import read_numbers, read_value


def read_config(path: Path) -> CaptureConfig:
    """A `CaptureConfig` from its JSON file. Raises CaptureError."""
    try:
        values = read_json(path)
    except (OSError, ForeignFileError) as error:
        raise CaptureError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(values, dict):
        raise CaptureError(f"{path}: expected a JSON object, got {type(values).__name__}")
    return CaptureConfig.from_dict(cast(dict[str, Any], values), path.name)


class FileSource:
    """One frame, read when it is asked for; `stem` replaces "{stem}" in the config's names."""

    def __init__(self, config: Path | CaptureConfig, folder: Path, stem: str = "") -> None:
        self.config = config if isinstance(config, CaptureConfig) else read_config(config)
        self.folder, self.stem = folder, stem

    def close(self) -> None:
        pass

    def read(self) -> Frame:
        """Raises CaptureError, or another SchemaError for a K or pose that cannot be."""
        config = self.config
        if config.depth:
            depth = self._depth()
            K = self._intrinsics(depth.shape)
        else:
            depth, K = self._cloud()
        segment, table = self._segment(depth, K)
        colour = None if not config.colour else np.asarray(self._value(config.colour))
        T = config.T_world_cam
        if isinstance(T, str):
            T_world_cam = None if not T else self._numbers(T, (4, 4))
        else:
            T_world_cam = T
        if T_world_cam is not None:
            T_world_cam = check_transform(T_world_cam, f"{self.stem}: T_world_cam")
        return Frame(
            depth=depth,
            intrinsics=K,
            colour=colour,
            segment=segment,
            segment_table=table,
            T_world_cam=T_world_cam,
            time=self._time(),
            name=self.stem or "frame",
        )

    def _named(self, reference: str) -> str:
        return reference.replace("{stem}", self.stem)

    def _value(self, reference: str) -> Any:
        return read_value(self.folder, self._named(reference))

    def _numbers(self, reference: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        return read_numbers(self.folder, self._named(reference), shape)

    def _image(self, reference: str, what: str) -> NDArray[Any]:
        image = np.asarray(self._value(reference))
        if image.ndim != 2 or not image.size or image.dtype.kind not in "buif":
            raise CaptureError(
                f"{self._named(reference)}: expected {what} (H, W) of numbers, got {image.dtype} "
                f"{image.shape}"
            )
        return image

    def _depth(self) -> NDArray[np.float32]:
        image = self._image(self.config.depth, "depth")
        missing = np.isin(image, self.config.missing) if self.config.missing else None
        if missing is not None:
            image = np.where(missing, np.zeros((), image.dtype), image)
        try:
            return to_metres(image, self.config.depth_scale, self._named(self.config.depth))
        except ImageFileError as error:
            raise CaptureError(str(error)) from error

    def _intrinsics(self, shape: tuple[int, ...]) -> Intrinsics:
        config, (height, width) = self.config, shape
        if config.K:
            K = self._numbers(config.K, (3, 3))
            numbers = [K[0, 0], K[1, 1], K[0, 2], K[1, 2], width, height]
            Intrinsics.from_matrix(K, width, height)  # no skew
        else:
            numbers = [self._number(value) for value in config.intrinsics]
            numbers = numbers if len(numbers) == 6 else [*numbers, width, height]
        shift = 0.5 - config.pixel_centre
        numbers[2], numbers[3] = numbers[2] + shift, numbers[3] + shift
        lens = Distortion.from_dict(config.distortion) if config.distortion else Distortion()
        K = Intrinsics.from_array(numbers, lens.to_array())
        if len(config.intrinsics) != 6:
            try:
                check_centred(K, self._named(config.K) or "intrinsics")
            except ImageFileError as error:
                raise CaptureError(str(error)) from error
        return K

    def _number(self, value: str | float) -> float:
        try:
            return float(self._value(value) if isinstance(value, str) else value)
        except (TypeError, ValueError, OverflowError) as error:
            raise CaptureError(f"{value!r:.60}: expected one number: {error}") from error

    def _cloud(self) -> tuple[NDArray[np.float32], Intrinsics]:
        cloud = read_cloud(self.folder / self._named(self.config.cloud))
        points = cloud.points
        if self.config.T_cam_cloud:
            T = check_transform(self.config.T_cam_cloud, "T_cam_cloud")
            points = points @ T[:3, :3].T + T[:3, 3]
        K = self._intrinsics((0, 0)) if self.config.intrinsics else None
        return cloud_to_depth(points, cloud.shape, K, self.stem)

    def _segment(
        self, depth: NDArray[np.float32], K: Intrinsics
    ) -> tuple[NDArray[np.integer] | None, Mapping[str, int] | None]:
        if self.config.object_points:
            points = self._numbers(self.config.object_points, (-1, 3))
            pixel = np.floor(K.project(points)).astype(np.int64)
            inside = ((pixel >= 0) & (pixel < [K.width, K.height])).all(axis=1)
            segment = np.zeros(depth.shape, np.uint16)
            segment[pixel[inside, 1], pixel[inside, 0]] = 1
            return segment, {"background": 0, f"{OBJECT}0": 1}
        if not self.config.segment:
            return None, None
        image = self._image(self.config.segment, "segment")
        if image.dtype.kind == "b":
            image = image.astype(np.uint8)
        if image.dtype.kind == "f":
            raise CaptureError(f"segment: expected integer ids, got {image.dtype}")
        return image, named_ids(self.config.segments, int(image.max()))

    def _time(self) -> float:
        time = self.config.time
        return self._number(time) if time != "" else float("nan")
