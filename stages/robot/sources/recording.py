"""Frames written to a folder as they came, and read back as if the camera were there.

One `.npz` a frame: `depth` (H, W) float32 m (missing NaN) or integer millimetres (missing 0),
`intrinsics` (6,) fx fy cx cy width height with pixel centres at +0.5, and, where the frame has
them, `distortion`, `colour`, `segment` with `segment_names` and `segment_ids`, `mask` (bool, the
pixels of object:0), `T_world_cam`, `time`.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from schemas.errors import ForeignFileError
from schemas.files import read_json
from stages.crop.errors import ImageFileError
from stages.crop.files import to_metres
from stages.robot.errors import CaptureError, EndOfRecordingError
from stages.robot.frame import Frame
from stages.robot.segments import OBJECT
from stages.robot.sources.values import read_npz

INDEX = "recording.json"


class Recorder:
    """Writes frames into `folder`; `close` writes the index. What was written reads without it."""

    def __init__(self, folder: Path) -> None:
        if (folder / INDEX).exists() or any(folder.glob("*.npz")):
            raise CaptureError(f"{folder}: holds a recording already; choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._names = folder, list[str]()

    def write(self, frame: Frame) -> None:
        """One file, exactly as the frame is."""
        name = f"{len(self._names):06d}.npz"
        temporary = self._folder / (name + ".tmp")
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **frame_arrays(frame))
        os.replace(temporary, self._folder / name)
        self._names.append(name)

    def close(self) -> None:
        temporary = self._folder / (INDEX + ".tmp")
        temporary.write_text(json.dumps({"frames": self._names}))
        os.replace(temporary, self._folder / INDEX)


class FrameFile:
    """A source of one `.npz` file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Frame:
        return read_frame_file(self._path)

    def close(self) -> None:
        pass


class RecordedSource:
    """The frames of a recording in order; EndOfRecordingError after the last.

    Without an index, of a program that ended early, the frames that it had written.
    """

    def __init__(self, folder: Path) -> None:
        self._next = 0
        if not (folder / INDEX).exists() and (found := numbered(folder)):
            self._files = found
            return
        try:
            index = read_json(folder / INDEX)
            self._files = [folder / str(name) for name in index["frames"]]
        except (OSError, ForeignFileError, TypeError, KeyError) as error:
            raise CaptureError(f"{folder / INDEX}: no recording: {error}") from error

    def __len__(self) -> int:
        return len(self._files)

    def read(self) -> Frame:
        if self._next >= len(self._files):
            raise EndOfRecordingError(f"the recording has {len(self._files)} frames, all were read")
        self._next += 1
        return read_frame_file(self._files[self._next - 1])

    def close(self) -> None:
        self._next = len(self._files)


def numbered(folder: Path) -> list[Path]:
    """The files that a `Recorder` wrote into `folder`, in order."""
    return sorted(folder.glob("[0-9]" * 6 + ".npz"))


def frame_arrays(frame: Frame) -> dict[str, NDArray[Any]]:
    """What a frame's file holds."""
    arrays: dict[str, Any] = {
        "depth": frame.depth,
        "intrinsics": frame.intrinsics.to_array(),
        "distortion": frame.intrinsics.distortion.to_array(),
        "time": np.float64(frame.time),
        "colour": frame.colour,
        "segment": frame.segment,
        "T_world_cam": frame.T_world_cam,
    }
    if frame.segment_table is not None:
        arrays["segment_names"] = np.array(list(frame.segment_table))
        arrays["segment_ids"] = np.array(list(frame.segment_table.values()), np.uint16)
    return {name: np.asarray(value) for name, value in arrays.items() if value is not None}


def read_frame_file(path: Path) -> Frame:
    """A frame from its `.npz` file. Raises CaptureError, or SchemaError for a K that cannot be."""
    if not path.is_file():
        raise CaptureError(f"capture {path}: no such file")
    found = read_npz(path)
    if lacks := [name for name in ("depth", "intrinsics") if name not in found]:
        raise CaptureError(f"capture {path}: lacks {', '.join(lacks)}; it holds {sorted(found)}")
    kinds = {"segment_names": "U", "segment_ids": "ui"}
    if wrong := [n for n, v in found.items() if v.dtype.kind not in kinds.get(n, "buif")]:
        raise CaptureError(
            f"capture {path}: expected numbers, and text in segment_names; got "
            + ", ".join(f"{n} of {found[n].dtype}" for n in wrong)
        )
    if found["intrinsics"].shape != (6,):
        raise CaptureError(f"capture {path}: intrinsics: expected fx fy cx cy width height")
    if found["depth"].ndim != 2:
        raise CaptureError(f"{path}: expected depth (H, W), got shape {found['depth'].shape}")
    try:
        depth = to_metres(found["depth"], None, path.name)
    except ImageFileError as error:
        raise CaptureError(f"capture {error}") from error
    segment, table = found.get("segment"), None
    if segment is not None:
        ids = found.get("segment_ids", np.zeros(0, np.uint16))
        names = found.get("segment_names", np.zeros(0, str))
        if names.ndim != 1 or names.shape != ids.shape:
            raise CaptureError(
                f"capture {path}: expected as many segment_names as segment_ids, got shapes "
                f"{names.shape} and {ids.shape}"
            )
        table = {str(n): int(i) for n, i in zip(names, ids, strict=True)}
    elif "mask" in found:
        mask = found["mask"].astype(bool)
        if mask.shape != depth.shape:
            raise CaptureError(f"capture {path}: mask {mask.shape} and depth {depth.shape} differ")
        segment, table = mask.astype(np.uint16), {"background": 0, f"{OBJECT}0": 1}
    time = found.get("time", np.array(np.nan))
    if time.size != 1:
        raise CaptureError(f"capture {path}: time: expected one number, got shape {time.shape}")
    return Frame(
        depth=depth,
        intrinsics=Intrinsics.from_array(found["intrinsics"], found.get("distortion", ())),
        colour=found.get("colour"),
        segment=segment,
        segment_table=table,
        T_world_cam=found.get("T_world_cam"),
        time=float(time.item()),
        name=path.stem,
    )
