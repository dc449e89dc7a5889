"""A robot's files: depth, segment, intrinsics and pose in, the cloud out.

Whatever a sensor's driver writes becomes metres and the project's conventions here, once.
"""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from schemas.distortion import Distortion
from schemas.errors import SchemaError
from schemas.files import load_npy, read_json, read_limited
from schemas.frames import check_transform
from stages.crop.crop import CroppedCloud
from stages.crop.errors import ImageFileError
from stages.crop.spec import CropSpec

MILLIMETRE = 0.001
PIXELS, PNG_LIMIT = 2**26, 2**28  # pixels of an image, bytes of its file
FAR = 50.0  # m; a depth camera for grasping sees nothing so far, so such numbers are not metres
OFF_CENTRE = 0.2  # of the image size; a principal point farther off is K of another image size


def read_image(path: Path) -> NDArray[Any]:
    """(H, W) array of a .npy or .png file. Raises ImageFileError."""
    try:
        if path.suffix == ".npy":
            image = load_npy(path)
        elif path.suffix == ".png":
            image = read_png(path)
        else:
            raise ImageFileError(f"{path}: expected .npy or .png, got {path.suffix or 'no suffix'}")
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, ImageFileError):
            raise
        raise ImageFileError(f"{path}: cannot be read: {error}") from error
    if image.ndim != 2 or not image.size:
        raise ImageFileError(f"{path}: expected one channel (H, W), got shape {image.shape}")
    if image.dtype.kind not in "buif":
        raise ImageFileError(f"{path}: expected numbers, got {image.dtype}")
    return image


def read_png(path: Path) -> NDArray[Any]:
    """(H, W) or (H, W, C) array of a .png file, as it is. Raises ImageFileError."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImageFileError(f"{path}: PNG needs Pillow: pip install pillow") from error

    data = read_limited(path, PNG_LIMIT)
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            if image.width * image.height > PIXELS:
                raise ValueError(f"{image.width}x{image.height}, over {PIXELS} pixels")
            return np.asarray(image)
    except Exception as error:  # Pillow fails in many ways on a broken file
        raise ImageFileError(f"{path}: cannot be read: {type(error).__name__}: {error}") from error


def to_metres(image: NDArray[Any], scale: float | None, name: str = "depth") -> NDArray[np.float32]:
    """(H, W) float32 metres, missing = NaN.

    `scale` is metres per unit of the image; None takes 1 for floating and 0.001 (millimetres) for
    integer images. Zero, negative and infinite values count as missing. Raises ImageFileError when
    half of the valid values lie beyond 50 m: the unit is wrong.
    """
    if scale is None:
        scale = 1.0 if np.issubdtype(image.dtype, np.floating) else MILLIMETRE
    if not scale > 0:
        raise ImageFileError(f"{name}: expected a scale > 0 metres per unit, got {scale}")
    depth = image.astype(np.float32) * np.float32(scale)
    with np.errstate(invalid="ignore"):
        valid = (depth > 0) & (depth < np.inf)
    depth[~valid] = np.nan
    if valid.any():
        middle = float(np.median(depth[valid]))
        if middle > FAR:
            raise ImageFileError(
                f"{name}: the median depth is {middle:.4g} m with a scale of {scale:g}; expected "
                f"less than {FAR:g} m. If the image is in millimetres, give a scale of 0.001"
            )
    return depth


def parse_intrinsics(text: str, shape: tuple[int, ...]) -> Intrinsics:
    """Intrinsics of an image of `shape` (H, W) from a JSON file or from numbers.

    The file holds fx, fy, cx, cy, width, height, or K (3, 3), width, height; and, for a lens with
    distortion, "distortion": {"model": "brown_conrady", "k1": ...} (schemas/distortion.py). An
    image that the driver has rectified already has none. Numbers are
    "fx,fy,cx,cy", whose principal point must lie near the middle, or "fx,fy,cx,cy,width,height".
    Raises ImageFileError, or SchemaError when they belong to another image size.
    """
    height, width = shape
    if text.endswith(".json"):
        values = _read_json(Path(text))
        if not isinstance(values, dict):
            raise ImageFileError(f"{text}: expected a JSON object, got {type(values).__name__}")
        found = cast(dict[str, Any], values)
        size = [key for key in ("width", "height") if key not in found]
        if size:
            raise ImageFileError(f"{text}: lacks {', '.join(size)}: K belongs to an image size")
        if "K" in found:
            try:
                K, w, h = np.asarray(found["K"], float), int(found["width"]), int(found["height"])
            except (TypeError, ValueError, OverflowError) as error:
                raise ImageFileError(f"{text}: K, width, height: not numbers: {error}") from error
            out = Intrinsics.from_matrix(K, w, h)
        else:
            missing = [key for key in ("fx", "fy", "cx", "cy") if key not in found]
            if missing:
                raise ImageFileError(f"{text}: lacks {', '.join(missing)} (pixels), or K")
            out = _intrinsics([found[k] for k in ("fx", "fy", "cx", "cy", "width", "height")], text)
        if "distortion" in found:
            out = replace(out, distortion=Distortion.from_dict(found["distortion"]))
    else:
        numbers = text.split(",")
        if len(numbers) not in (4, 6):
            raise ImageFileError(
                f"intrinsics {text!r}: expected fx,fy,cx,cy in pixels, with ,width,height to be "
                "safe, or a .json file"
            )
        out = _intrinsics(numbers if len(numbers) == 6 else [*numbers, width, height], text)
        if len(numbers) == 4:
            check_centred(out, f"intrinsics {text!r}")
    out.check_image(shape)
    return out


def check_centred(K: Intrinsics, name: str) -> None:
    """Raise ImageFileError for a K far off the middle of an image whose size nobody gave."""
    if max(abs(K.cx / K.width - 0.5), abs(K.cy / K.height - 0.5)) > OFF_CENTRE:
        raise ImageFileError(
            f"{name}: the principal point ({K.cx:g}, {K.cy:g}) lies far from the middle of the "
            f"{K.width}x{K.height} image: K of another image size? Give the size they belong to "
            "as well: fx,fy,cx,cy,width,height"
        )


def _intrinsics(numbers: list[Any], source: str) -> Intrinsics:
    try:
        values = [float(n) for n in numbers]
    except (TypeError, ValueError, OverflowError) as error:
        raise ImageFileError(f"intrinsics {source}: not numbers: {error}") from error
    return Intrinsics.from_array(values)


def read_transform(path: Path) -> NDArray[np.float64]:
    """(4, 4) rigid transform from .npy or nested .json. Raises ImageFileError or FrameError."""
    try:
        values = _read_json(path) if path.suffix == ".json" else load_npy(path)
        return check_transform(np.asarray(values, np.float64), path.name)
    except SchemaError:
        raise
    except (OSError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ImageFileError):
            raise
        raise ImageFileError(f"{path}: cannot be read as a transform: {error}") from error


def read_spec(path: Path) -> CropSpec:
    """CropSpec from JSON: `CropSpec.to_dict()`, or a dataset.json, whose `crop` is taken."""
    values = _read_json(path)
    if isinstance(values, dict):
        found = cast(Mapping[str, Any], values)
        if "crop_digest" in found:
            crop = found.get("crop")
            if not isinstance(crop, dict):
                raise ImageFileError(f"{path}: expected a `crop` with its keys, got {crop!r:.60}")
            spec = CropSpec.from_dict(cast(Mapping[str, Any], crop))
            spec.check_digest(str(found["crop_digest"]))
            return spec
        return CropSpec.from_dict(found)
    raise ImageFileError(f"{path}: expected the JSON object of a crop, got {type(values).__name__}")


def write_ply(path: Path, cloud: CroppedCloud) -> None:
    """Binary PLY: x y z float32 in metres, segment uint16."""
    vertex = np.empty(
        len(cloud.points), [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("segment", "<u2")]
    )
    vertex["x"], vertex["y"], vertex["z"] = cloud.points.T
    vertex["segment"] = cloud.segment
    header = (
        "ply\nformat binary_little_endian 1.0\ncomment metres\n"
        f"element vertex {len(vertex)}\nproperty float x\nproperty float y\nproperty float z\n"
        "property ushort segment\nend_header\n"
    )
    path.write_bytes(header.encode() + vertex.tobytes())


def _read_json(path: Path) -> Any:
    try:
        return read_json(path)
    except (OSError, ValueError) as error:
        raise ImageFileError(f"{path}: cannot be read as JSON: {error}") from error
