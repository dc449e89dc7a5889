"""The dataset's crop on a robot: frames in, the clouds that training saw out.

The one entry for the command, for `RealEnv.get_pointcloud` and for the user's own loop. It keeps
nothing from frame to frame.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.errors import ForeignFileError
from schemas.files import read_json
from schemas.frames import check_quaternion, check_transform
from stages.crop import CroppedCloud, CropSpec
from stages.crop.files import read_spec
from stages.robot.errors import CalibrationError
from stages.robot.frame import Frame
from stages.robot.segments import Segmenter, segmented
from stages.robot.table import ON_THE_ORIGIN, TableFit


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RobotCrop:
    """`spec`, and what of a training scene a robot must be told: segments and the table.

    `T_world_cam` (4, 4) stands in for that of frames which carry none. `table_pose` (7,) xyz +
    wxyz, world; the default is a table top at the world's origin.
    """

    spec: CropSpec
    segmenter: Segmenter | None = None
    T_world_cam: NDArray[np.float64] | None = None
    table_pose: tuple[float, ...] = ON_THE_ORIGIN

    @classmethod
    def of_dataset(
        cls,
        dataset: str | Path,
        *,
        segmenter: Segmenter | None = None,
        table: str | Path | TableFit | None = None,
        digest: str | None = None,
    ) -> Self:
        """The crop of `dataset`, a folder with dataset.json or the JSON of a crop.

        `table` is what `calibrate-table` wrote, or a fit. `digest` is what a checkpoint was trained
        with. Raises CropDigestError when either digest is another.
        """
        path = Path(dataset)
        spec = read_spec(path / "dataset.json" if path.is_dir() else path)
        if digest is not None:
            spec.check_digest(digest)
        return cls.of_spec(spec, segmenter=segmenter, table=table)

    @classmethod
    def of_spec(
        cls,
        spec: CropSpec,
        *,
        segmenter: Segmenter | None = None,
        table: str | Path | TableFit | None = None,
    ) -> Self:
        """A crop at hand, and the `table` of `of_dataset`."""
        T, pose = (None, ON_THE_ORIGIN) if table is None else read_table(table)
        return cls(spec=spec, segmenter=segmenter, T_world_cam=T, table_pose=pose)

    def prepare(self, frame: Frame) -> Frame:
        """`frame` with the pose and the segments that it lacks."""
        if frame.T_world_cam is None and self.T_world_cam is not None:
            frame = replace(frame, T_world_cam=self.T_world_cam)
        return frame if self.segmenter is None else segmented(frame, self.segmenter)

    def __call__(self, frame: Frame, seed: int = 0) -> CroppedCloud:
        """The cloud of `frame`; `seed` is that of random sampling."""
        return self.prepare(frame).crop(self.spec, seed=seed, table_pose=self.table_pose)


def table_dict(fit: TableFit) -> dict[str, Any]:
    """Plain JSON values of a fit, for `read_table`."""
    return {
        "table_pose": fit.table_pose.tolist(),
        "T_world_cam": fit.T_world_cam.tolist(),
        "height_m": fit.height,
        "tilt_deg": math.degrees(fit.tilt),
        "residual_m": fit.residual,
        "share": fit.share,
        "points": fit.points,
    }


def read_table(
    table: str | Path | TableFit,
) -> tuple[NDArray[np.float64], tuple[float, ...]]:
    """`T_world_cam` (4, 4) and `table_pose` (7,) that a calibration found."""
    if isinstance(table, TableFit):
        return table.T_world_cam, tuple(table.table_pose.tolist())
    try:
        values = read_json(Path(table))
    except (OSError, ForeignFileError) as error:
        raise CalibrationError(f"{table}: cannot be read as JSON: {error}") from error
    if not isinstance(values, dict) or not {"T_world_cam", "table_pose"} <= values.keys():
        raise CalibrationError(f"{table}: expected T_world_cam and table_pose; calibrate-table "
                               "writes such a file")  # fmt: skip
    found = cast(dict[str, Any], values)
    T = check_transform(cast(ArrayLike, found["T_world_cam"]), f"{table}: T_world_cam")
    try:
        pose = np.asarray(found["table_pose"], np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise CalibrationError(f"{table}: table_pose: expected 7 numbers: {error}") from error
    if pose.shape != (7,) or not np.isfinite(pose).all():
        raise CalibrationError(f"{table}: table_pose: expected 7 numbers, got {pose.tolist()}")
    check_quaternion(pose[3:], f"{table}: table_pose")
    return T, tuple(pose.tolist())
