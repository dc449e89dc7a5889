"""Real frames and the objects they show, from files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from schemas.camera import Intrinsics
from schemas.errors import SchemaError
from stages.render.retake import Capture

Mesh = tuple[NDArray[np.float64], NDArray[np.int64]]
_DEPTH, _K, _MASK, _POINTS = "depth", "intrinsics", "mask", "smoothed_object_pc"


def read_capture(path: Path, whole: bool = False) -> Capture:
    """One frame of `path`; `whole` takes every pixel where the file has no mask.

    - `.npz`: `depth` (H, W) floating metres (missing 0 or NaN) or integer millimetres,
      `intrinsics` (6,) fx fy cx cy width height with pixel centres at +0.5, `mask` (H, W) bool;
    - `.npy` as 6-DOF GraspNet publishes them: a pickled dict with `depth` m, `intrinsics_matrix`
      (pixel centres at whole numbers) and `smoothed_object_pc` (N, 3), which tells the object's
      pixels.
    """
    if not path.is_file():
        raise UserError(f"capture {path}: no such file")
    try:
        depth, K, mask = _read_npz(path) if path.suffix == ".npz" else _read_pickled(path)
        K.check_image(depth.shape)
    except SchemaError as error:
        raise UserError(f"capture {path}: {error}") from error
    if mask is None:
        if not whole:
            raise UserError(f"capture {path}: holds no {_MASK}, so where is the object? Add one")
        mask = np.ones(depth.shape, bool)
    if mask.shape != depth.shape:
        raise UserError(f"capture {path}: {_MASK} {mask.shape} and depth {depth.shape} differ")
    return Capture(name=path.stem, depth=depth, intrinsics=K, mask=mask)


def _metres(path: Path, value: NDArray[Any]) -> NDArray[np.float64]:
    from stages.crop.errors import ImageFileError
    from stages.crop.files import to_metres

    if value.ndim != 2:
        raise UserError(f"capture {path}: expected depth (H, W), got shape {value.shape}")
    try:
        return to_metres(value, None, path.name).astype(np.float64)
    except ImageFileError as error:
        raise UserError(f"capture {error}") from error


def _read_npz(path: Path) -> tuple[NDArray[np.float64], Intrinsics, NDArray[np.bool_] | None]:
    try:
        with np.load(path, allow_pickle=False) as data:
            found = {name: data[name] for name in data.files}
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"capture {path}: cannot be read: {error}") from error
    lacks = [name for name in (_DEPTH, _K) if name not in found]
    if lacks:
        raise UserError(f"capture {path}: lacks {', '.join(lacks)}; it holds {sorted(found)}")
    if found[_K].shape != (6,):
        raise UserError(f"capture {path}: {_K}: expected fx fy cx cy width height")
    mask = found[_MASK].astype(bool) if _MASK in found else None
    return _metres(path, found[_DEPTH]), Intrinsics.from_array(found[_K]), mask


def _read_pickled(path: Path) -> tuple[NDArray[np.float64], Intrinsics, NDArray[np.bool_] | None]:
    from stages.grasp.errors import GraspFormatError
    from stages.grasp.formats.pickled import read_pickled

    try:
        value = read_pickled(path, "latin1")
    except (GraspFormatError, OSError) as error:
        raise UserError(f"capture {path}: {error}") from error
    keys = (_DEPTH, "intrinsics_matrix")
    if not isinstance(value, dict) or any(key not in value for key in keys):
        raise UserError(f"capture {path}: expected a dict with {', '.join(keys)}, or a .npz file")
    found = cast(dict[str, NDArray[Any]], value)
    depth = _metres(path, np.asarray(found[_DEPTH]))
    height, width = depth.shape
    matrix = np.asarray(found["intrinsics_matrix"], np.float64)
    mask = None
    if _POINTS in found:
        points = np.asarray(found[_POINTS], np.float64)
        pixel = np.rint((points @ matrix.T)[:, :2] / points[:, 2:]).astype(np.int64)
        inside = ((pixel >= 0) & (pixel < [width, height])).all(axis=1)
        mask = np.zeros(depth.shape, bool)
        mask[pixel[inside, 1], pixel[inside, 0]] = True
    matrix = matrix + np.array([[0, 0, 0.5], [0, 0, 0.5], [0, 0, 0]])  # our centres are at +0.5
    return depth, Intrinsics.from_matrix(matrix, width, height), mask


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
