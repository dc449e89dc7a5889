"""Where frames come from, behind one protocol."""

from pathlib import Path

from stages.robot.errors import CaptureError
from stages.robot.sources.protocol import CaptureSource

__all__ = ["CaptureSource", "open_source"]

REALSENSE = "realsense:"


def open_source(what: str | Path, convention: Path | None = None) -> CaptureSource:
    """The source that `what` names.

    - `realsense:`, `realsense:SERIAL`: a live camera; `realsense:FILE.db3` (`.bag`): its recording;
    - a folder that `Recorder` wrote;
    - `FILE.npz` with `depth`, `intrinsics` and more (`stages/robot/sources/recording.py`);
    - a `capture.json`, or a folder with one;
    - with `convention`, a `CaptureConfig` in JSON: the folder, the file or the common beginning of
      the files of a capture of that kind.

    Raises CaptureError.
    """
    text = str(what)
    if text.startswith(REALSENSE):
        from stages.robot.sources.realsense import RealSenseSource

        return RealSenseSource(text.removeprefix(REALSENSE))
    path = Path(what)
    if convention is None and path.suffix == ".npz":
        from stages.robot.sources.recording import FrameFile

        return FrameFile(path)
    if convention is None and path.is_dir() and not (path / "capture.json").is_file():
        from stages.robot.sources.recording import INDEX, RecordedSource, numbered

        if (path / INDEX).is_file() or numbered(path):
            return RecordedSource(path)
    from stages.robot.sources.files import FileSource

    if convention is not None:
        folder = path if path.is_dir() else path.parent
        return FileSource(convention, folder=folder, stem=path.stem)
    own = path / "capture.json" if path.is_dir() else path
    if own.suffix != ".json" or not own.is_file():
        raise CaptureError(
            f"capture {path}: expected a folder with capture.json or recording.json, a .npz file "
            "or realsense:[SERIAL]; or say with a convention what its files are (configs/captures)"
        )
    return FileSource(own, folder=own.parent, stem=own.parent.name)
