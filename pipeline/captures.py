"""Real frames and the objects they show, from files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from schemas.errors import SchemaError
from stages.render.retake import Capture
from stages.robot.config import CaptureConfig
from stages.robot.segments import OBJECT
from stages.robot.sources.files import FileSource
from stages.robot.sources.recording import read_frame_file

Mesh = tuple[NDArray[np.float64], NDArray[np.int64]]


def read_capture(path: Path, whole: bool = False) -> Capture:
    """One frame of `path`; `whole` takes every pixel where the file has no mask.

    - `.npz`, as `stages.robot.sources.recording` describes it, with `mask` or segments;
    - `.npy` as 6-DOF GraspNet publishes them: a pickled dict with `depth` m, `intrinsics_matrix`
      (pixel centres at whole numbers) and `smoothed_object_pc` (N, 3), which tells the object's
      pixels.
    """
    if not path.is_file():
        raise UserError(f"capture {path}: no such file")
    try:
        if path.suffix == ".npz":
            frame = read_frame_file(path)
        else:
            config = CaptureConfig(
                depth=f"{path.name}#depth",
                K=f"{path.name}#intrinsics_matrix",
                pixel_centre=0.0,
                object_points="" if whole else f"{path.name}#smoothed_object_pc",
            )
            frame = FileSource(config, path.parent, path.stem).read()
    except SchemaError as error:
        raise UserError(f"capture {path}: {error}") from error
    depth = frame.depth.astype(np.float64)
    if frame.segment is not None and frame.segment_table is not None:
        ids = [i for name, i in frame.segment_table.items() if name.startswith(OBJECT)]
        mask = np.isin(frame.segment, ids)
    elif whole:
        mask = np.ones(depth.shape, bool)
    else:
        raise UserError(f"capture {path}: holds no mask, so where is the object? Add one")
    return Capture(name=path.stem, depth=depth, intrinsics=frame.intrinsics, mask=mask)


def read_mesh(entry: str) -> tuple[str, Mesh]:
    """Object id and triangles, metres, of one entry like those of `assets.objects`."""
    from stages.assets.errors import AssetConfigError, MeshFileError
    from stages.assets.load import load_mesh
    from stages.assets.sources import expand

    try:
        sources = expand([entry], Path("."), "")
        if len(sources) != 1:
            names = ", ".join(s.object_id for s in sources[:5])
            raise UserError(f"--object {entry}: expected one object, got {len(sources)}: {names}")
        mesh = load_mesh(sources[0].path.read_bytes(), sources[0].path.suffix)
    except (AssetConfigError, MeshFileError, ValueError, OSError) as error:
        raise UserError(f"--object {entry}: {error}") from error
    if not len(mesh.faces):
        raise UserError(f"--object {entry}: holds no triangles")
    return sources[0].object_id, (mesh.vertices, mesh.faces)


def paired(captures: Sequence[Path], objects: Sequence[str]) -> list[tuple[Path, str]]:
    """Each capture with its object: one for all, or one each in order."""
    if len(objects) not in (1, len(captures)):
        raise UserError(
            f"--object: expected one for all captures or one each ({len(captures)}), "
            f"got {len(objects)}"
        )
    names = list(objects) * (len(captures) if len(objects) == 1 else 1)
    return list(zip(captures, names, strict=True))
