"""Point clouds of other programs, PCD and PLY, as depth images.

An organised cloud (one point a pixel) is a depth image already, and its camera matrix follows from
its points. Any other cloud is seen by a camera whose K is given: the nearest point wins a pixel,
and a point that is not on the ray through its pixel's centre moves by up to half a pixel.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from schemas.errors import ForeignFileError
from schemas.files import NPY_LIMIT, read_limited
from stages.crop import slopes_at
from stages.robot.errors import CaptureError

Float = NDArray[np.float64]
POINTS = 2**26  # most points of a cloud
OFF_RAY = 0.25  # pixels; organised points that miss their pixels' centres by more are no image


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cloud:
    """`points` (N, 3) float64 in the file's frame, NaN unknown; `shape` (H, W), or ()."""

    points: Float
    shape: tuple[int, ...] = ()


def read_cloud(path: Path) -> Cloud:
    """A `.pcd` (ascii, binary, binary_compressed) or `.ply` file. Raises CaptureError."""
    readers = {".pcd": _read_pcd, ".ply": _read_ply}
    if path.suffix not in readers:
        raise CaptureError(f"{path}: expected .pcd or .ply, got {path.suffix!r}")
    try:
        cloud = readers[path.suffix](read_limited(path, NPY_LIMIT))
    except (OSError, ForeignFileError) as error:
        raise CaptureError(f"{path}: {error}") from error
    except Exception as error:  # text of another program fails in many ways
        raise CaptureError(f"{path}: cannot be read: {type(error).__name__}: {error}") from error
    if not len(cloud.points):
        raise CaptureError(f"{path}: holds no points")
    return cloud


def cloud_to_depth(
    points_cam: Float, shape: tuple[int, ...], K: Intrinsics | None, name: str = "cloud"
) -> tuple[NDArray[np.float32], Intrinsics]:
    """Depth (H, W) float32 m, NaN missing, and the camera, of (N, 3) points in the camera frame.

    `shape` (H, W) of an organised cloud, whose K is fitted where none is given; () for another,
    which needs K. Raises CaptureError.
    """
    with np.errstate(invalid="ignore"):
        seen = np.isfinite(points_cam).all(axis=1) & (points_cam[:, 2] > 0)
    if not seen.any():
        raise CaptureError(f"{name}: no point lies before the camera (z > 0, metres)")
    if shape:
        pixel = np.flatnonzero(seen)
        K = K or _fit_intrinsics(points_cam[seen], pixel, shape, name)
        K.check_image(shape, name)
        depth = np.full(K.height * K.width, np.nan, np.float32)
        depth[pixel] = points_cam[seen, 2]
        x, y = slopes_at(pixel, K)
        off = points_cam[seen, :2] / points_cam[seen, 2:] - np.stack([x, y], axis=1)
        if float(np.median(np.abs(off) * [K.fx, K.fy])) > OFF_RAY:
            raise CaptureError(
                f"{name}: the points do not lie on the rays of their pixels; is the cloud in the "
                "camera frame (z forward), and K its own?"
            )
        return depth.reshape(shape), K
    if K is None:
        raise CaptureError(
            f"{name}: a cloud without rows and columns needs intrinsics with width and height"
        )
    visible = points_cam[seen]
    column, row = np.floor(K.project(visible)).astype(np.int64).T
    inside = (column >= 0) & (column < K.width) & (row >= 0) & (row < K.height)
    pixel, z = (row * K.width + column)[inside], visible[inside, 2]
    depth = np.full(K.height * K.width, np.inf, np.float32)
    np.minimum.at(depth, pixel, z.astype(np.float32))
    depth[np.isinf(depth)] = np.nan
    return depth.reshape(K.height, K.width), K


def _fit_intrinsics(
    points: Float, pixel: NDArray[np.int64], shape: tuple[int, ...], name: str
) -> Intrinsics:
    """Least squares of the pixels' centres over the points' slopes."""
    height, width = shape
    row, column = np.divmod(pixel, width)
    numbers: list[float] = []
    for slope, centre in ((points[:, 0], column), (points[:, 1], row)):
        A = np.stack([slope / points[:, 2], np.ones(len(points))], axis=1)
        numbers += np.linalg.lstsq(A, centre + 0.5, rcond=None)[0].tolist()
    (fx, cx), (fy, cy) = numbers[:2], numbers[2:]
    try:
        return Intrinsics(fx=fx, fy=fy, cx=cx, cy=cy, width=width, height=height)
    except ValueError as error:
        raise CaptureError(f"{name}: no camera has such points: {error}") from error


_PCD_TYPES = {"F": "f", "I": "i", "U": "u"}


def _read_pcd(data: bytes) -> Cloud:
    head, fields = 0, dict[str, list[str]]()
    while "DATA" not in fields:
        line, newline, _ = data[head : head + 4096].partition(b"\n")
        if not newline:
            raise ValueError("the header does not end with DATA")
        head += len(line) + 1
        words = line.decode("ascii").split()
        if words and not words[0].startswith("#"):
            fields[words[0]] = words[1:]
    names, counts = fields["FIELDS"], [int(c) for c in fields.get("COUNT", ["1"] * 99)]
    width, height = int(fields["WIDTH"][0]), int(fields["HEIGHT"][0])
    total = width * height
    if not 0 <= total <= POINTS:
        raise ValueError(f"expected at most {POINTS} points, got {total}")
    columns = list(zip(names, fields["TYPE"], fields["SIZE"], counts, strict=False))
    kind = [
        (f"{name}#{i}", f"<{_PCD_TYPES[type_]}{int(size)}", (count,))
        for i, (name, type_, size, count) in enumerate(columns)
    ]
    at = {name: f"{name}#{i}" for i, name in enumerate(names)}
    mode = fields["DATA"][0]
    if mode == "ascii":
        words = data[head:].split()
        starts = np.cumsum([0, *(count for *_, count in columns)])
        table = np.array(words, "S").reshape(total, int(starts[-1]))
        points = np.stack(
            [table[:, starts[names.index(axis)]].astype(np.float64) for axis in "xyz"], axis=1
        )
    else:
        body = data[head:]
        row = np.dtype(kind)
        if mode == "binary":
            array: Any = np.frombuffer(body, row, total)
            points = np.stack([array[at[axis]][:, 0] for axis in "xyz"], axis=1)
        elif mode == "binary_compressed":
            packed, size = np.frombuffer(body, "<u4", 2).tolist()
            if size != total * row.itemsize:
                raise ValueError(f"expected {total * row.itemsize} bytes unpacked, got {size}")
            points = _by_field(_lzf(body[8 : 8 + packed], size), row, at, total)
        else:
            raise ValueError(f"DATA {mode}: expected ascii, binary or binary_compressed")
    return Cloud(points=points.astype(np.float64), shape=(height, width) if height > 1 else ())


def _by_field(data: bytes, row: np.dtype[Any], at: dict[str, str], total: int) -> Float:
    """Compressed files hold one field after the other."""
    start, found = 0, dict[str, Float]()
    for name in row.names or ():
        part = row[name]
        values = np.frombuffer(data, part, total, start)
        found[name] = values.reshape(total, -1)[:, 0].astype(np.float64)
        start += total * part.itemsize
    return np.stack([found[at[axis]] for axis in "xyz"], axis=1)


def _lzf(data: bytes, size: int) -> bytes:
    """LZF as PCD uses it: runs of literals and references back, by M. Lehmann's format."""
    out, i = bytearray(), 0
    while i < len(data):
        control = data[i]
        i += 1
        if control < 32:
            out += data[i : i + control + 1]
            i += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += data[i]
            i += 1
        back = len(out) - ((control & 31) << 8) - data[i] - 1
        i += 1
        if back < 0:
            raise ValueError("a reference before the beginning")
        for j in range(back, back + length + 2):  # it may overlap what it writes
            out.append(out[j])
        if len(out) > size:
            break
    if len(out) != size:
        raise ValueError(f"expected {size} bytes unpacked, got {len(out)}")
    return bytes(out)


_PLY_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "float": "f4", "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2",
    "int32": "i4", "uint32": "u4", "float32": "f4", "float64": "f8",
}  # fmt: skip


def _read_ply(data: bytes) -> Cloud:
    end = data.find(b"end_header")
    if not data.startswith(b"ply") or end < 0:
        raise ValueError("no PLY header")
    body = data[data.index(b"\n", end) + 1 :]
    lines = data[:end].decode("ascii").splitlines()
    form = next(line.split()[1] for line in lines if line.startswith("format"))
    elements = [line.split() for line in lines if line.startswith("element")]
    if not elements or elements[0][1] != "vertex":
        raise ValueError("expected vertices as the first element")
    total = int(elements[0][2])
    if not 0 <= total <= POINTS:
        raise ValueError(f"expected at most {POINTS} points, got {total}")
    properties: list[tuple[str, str]] = []
    for line in lines[next(i for i, v in enumerate(lines) if v.startswith("element")) + 1 :]:
        if line.startswith("element"):
            break
        if line.startswith("property"):
            _, type_, name = line.split()
            properties.append((name, _PLY_TYPES[type_]))
    if form == "ascii":
        rows = [line.split() for line in body.decode("ascii").splitlines()[:total]]
        names = [name for name, _ in properties]
        table = np.array(rows, np.float64).reshape(total, -1)
        points = np.stack([table[:, names.index(axis)] for axis in "xyz"], axis=1)
    else:
        order = "<" if form == "binary_little_endian" else ">"
        array: Any = np.frombuffer(body, [(n, order + t) for n, t in properties], total)
        points = np.stack([array[axis] for axis in "xyz"], axis=1).astype(np.float64)
    # rows and columns as range scanners (obj_info num_cols) and this project (comment) write them
    text = "\n".join(lines)
    size = [re.search(rf"(?:obj_info|comment) num_{n} (\d+)", text) for n in ("rows", "cols")]
    rows, cols = (int(found[1]) if found else 0 for found in size)
    return Cloud(points=points, shape=(rows, cols) if rows * cols == total and rows > 1 else ())
