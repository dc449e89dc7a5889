"""A digital twin's picture: simulated objects before a real background, in colour and in depth.

After the greenscreen of SIMPLER (Li et al. 2024) and ManiSkill's digital twins. Beyond them: a real
depth image behind the objects, with a z-test, so that depth and clouds are composited as well and a
real thing can hide a simulated one.

The arrays may be numpy's or PyTorch's, on any device; what comes out is of the same kind.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from stages.crop.errors import ImageFileError
from stages.crop.files import read_png
from stages.crop.segments import matching_ids
from stages.robot.errors import OverlayError
from stages.robot.frame import Frame

Mode = Literal["background", "debug", "none"]
MODES = ("background", "debug", "none")
K_TOLERANCE = 0.005  # 1; focal lengths, and principal points by image size, may differ by so much


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Overlay:
    """A real picture: `rgb` (H, W, 3) uint8, `depth` (H, W) float32 m with NaN missing, and K."""

    rgb: NDArray[np.uint8]
    depth: NDArray[np.float32] | None = None
    intrinsics: Intrinsics | None = None
    name: str = "overlay"

    def __post_init__(self) -> None:
        if self.rgb.ndim != 3 or self.rgb.shape[2] != 3 or self.rgb.dtype != np.uint8:
            raise OverlayError(
                f"{self.name}: expected uint8 (H, W, 3), got {self.rgb.dtype} {self.rgb.shape}"
            )
        size = self.rgb.shape[:2]
        if self.depth is not None and self.depth.shape != size:
            raise OverlayError(f"{self.name}: depth {self.depth.shape} and picture {size} differ")
        if self.intrinsics is not None:
            self.intrinsics.check_image(size, f"{self.name}: picture")

    @classmethod
    def of_file(cls, path: str | Path, intrinsics: Intrinsics | None = None) -> "Overlay":
        """A .png picture. Raises OverlayError; FileNotFoundError names the file."""
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"overlay {path}: no such file")
        try:
            picture = read_png(path)
        except ImageFileError as error:
            raise OverlayError(f"overlay {error}") from error
        if picture.ndim == 3 and picture.shape[2] == 4:
            picture = picture[..., :3]
        return cls(rgb=np.ascontiguousarray(picture), intrinsics=intrinsics, name=path.name)

    @classmethod
    def of_frame(cls, frame: Frame) -> "Overlay":
        """A capture with colour, its depth behind the objects."""
        if frame.colour is None:
            raise OverlayError(f"{frame.name}: has no colour, so it cannot be a background")
        return cls(
            rgb=frame.colour, depth=frame.depth, intrinsics=frame.intrinsics, name=frame.name
        )

    def fitted(self, camera: Intrinsics) -> "Overlay":
        """The overlay in the size of `camera`. Raises OverlayError.

        Resized only when width and height shrink or grow alike; its K, where it is known, must then
        be the camera's. Depth is taken from the nearest pixel, never mixed over an edge.
        """
        height, width = self.rgb.shape[:2]
        if width * camera.height != height * camera.width:
            raise OverlayError(
                f"{self.name}: {width}x{height} has another aspect than the camera's "
                f"{camera.width}x{camera.height}; stretching would move everything. Crop the "
                "picture, and shift its principal point, or render another size"
            )
        K = None
        if self.intrinsics is not None:
            K = self.intrinsics.rescaled(camera.width, camera.height)
            off = np.abs(K.to_array()[:4] - camera.to_array()[:4]) / [
                camera.fx, camera.fy, camera.width, camera.height
            ]  # fmt: skip
            if (off > K_TOLERANCE).any():
                raise OverlayError(
                    f"{self.name}: its K rescaled to {camera.width}x{camera.height} is "
                    f"{_numbers(K)}, the simulated camera has {_numbers(camera)}; give the "
                    "simulated camera the real one's K"
                )
        if (width, height) == (camera.width, camera.height):
            return replace(self, intrinsics=K)
        depth = None
        if self.depth is not None:
            rows = np.minimum((np.arange(camera.height) + 0.5) * height / camera.height, height - 1)
            columns = np.minimum((np.arange(camera.width) + 0.5) * width / camera.width, width - 1)
            depth = self.depth[np.ix_(rows.astype(int), columns.astype(int))]
        rgb = _resized(self.rgb, camera.height, camera.width)
        return replace(self, rgb=rgb, depth=depth, intrinsics=K)


def kept_ids(names: Sequence[str], segment_table: Mapping[str, int]) -> list[int]:
    """Ids of the objects that stay, by name or pattern. Raises SegmentNameError."""
    return sorted(matching_ids(tuple(names), segment_table))


def composite(
    rgb: Any,
    depth: Any,
    segment: Any,
    overlay_rgb: Any,
    overlay_depth: Any,
    keep: Any,
    mode: Mode = "background",
) -> tuple[Any, Any, Any]:
    """Simulated objects before a real background: rgb, depth and segment of the twin.

    `rgb` (..., H, W, 3) uint8, `depth` (..., H, W) floating m with NaN for missing, or None,
    `segment` (..., H, W) ids, or None, all of the simulation; `overlay_rgb` and `overlay_depth`
    (or None) likewise, of the real picture. `keep` (..., H, W) bool: pixels of objects that stay.

    `background`: what is not kept comes from the picture; a kept object that lies behind the real
    depth is hidden. Depth without a real one becomes missing, segments become 0. `debug`: half of
    each colour, depth and segments as simulated. `none`: as simulated.
    """
    if mode not in MODES:
        raise OverlayError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    if mode == "none":
        return rgb, depth, segment
    if overlay_rgb.shape[-3:] != rgb.shape[-3:]:
        raise OverlayError(
            f"overlay: expected {tuple(rgb.shape[-3:])} like the picture, got "
            f"{tuple(overlay_rgb.shape[-3:])}; use Overlay.fitted"
        )
    xp = _library(rgb)
    if mode == "debug":
        # the mean of bytes without a wider type: half of each, and one where both lost a half
        return rgb // 2 + overlay_rgb // 2 + (rgb & overlay_rgb & 1), depth, segment
    shown = keep
    if overlay_depth is not None:
        if depth is None:
            raise OverlayError("overlay: a real depth image needs the simulation's depth too")
        shown = keep & ~(overlay_depth < depth)  # a missing depth hides nothing
    out = xp.where(shown[..., None], rgb, overlay_rgb)
    if depth is not None:
        behind = overlay_depth if overlay_depth is not None else depth * float("nan")
        depth = xp.where(shown, depth, behind)
    if segment is not None:
        segment = xp.where(shown, segment, xp.zeros_like(segment))
    return out, depth, segment


def twin_frame(frame: Frame, overlay: Overlay, keep: Sequence[str], mode: Mode) -> Frame:
    """`composite` of a simulated frame: kept names, fitted overlay, and a frame to crop.

    Segments of the result are those of the simulation, and "real" for what comes from the picture.
    """
    if frame.colour is None or frame.segment is None or frame.segment_table is None:
        raise OverlayError(f"{frame.name}: a twin needs colour and segments of the simulation")
    fitted = overlay.fitted(frame.intrinsics)
    mask = np.isin(frame.segment, kept_ids(keep, frame.segment_table))
    rgb, depth, segment = composite(
        frame.colour, frame.depth, frame.segment, fitted.rgb, fitted.depth, mask, mode
    )
    table = dict(frame.segment_table)
    if mode == "background":
        real = max(table.values()) + 1
        segment = np.where((segment == 0) & np.isfinite(depth), real, segment)
        table["real"] = real
    return replace(
        frame,
        colour=rgb,
        depth=depth.astype(np.float32),
        segment=segment.astype(np.uint16),
        segment_table=table,
    )


def outlined(
    colour: NDArray[np.uint8], mask: NDArray[np.bool_], ink: Sequence[int] = (255, 0, 90)
) -> NDArray[np.uint8]:
    """(H, W, 3) uint8: the outline of a simulated silhouette `mask` (H, W) on a real picture."""
    inner = mask.copy()
    inner[1:] &= mask[:-1]
    inner[:-1] &= mask[1:]
    inner[:, 1:] &= mask[:, :-1]
    inner[:, :-1] &= mask[:, 1:]
    edge = mask & ~inner
    thick = edge.copy()
    thick[1:] |= edge[:-1]
    thick[:, 1:] |= edge[:, :-1]
    out = colour.copy()
    out[thick] = ink
    return out


def overlap(simulated: NDArray[np.bool_], real: NDArray[np.bool_]) -> float:
    """Intersection over union of two silhouettes (H, W); 0 when both are empty."""
    union = int((simulated | real).sum())
    return int((simulated & real).sum()) / union if union else 0.0


def _numbers(K: Intrinsics) -> str:
    return f"fx {K.fx:.1f} fy {K.fy:.1f} cx {K.cx:.1f} cy {K.cy:.1f}"


def _library(array: Any) -> Any:
    """numpy or torch, whichever `array` is of; nothing is imported."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def _resized(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Bilinear between the centres of pixels; the mean of whole blocks first when it shrinks."""
    block = min(image.shape[0] // height, image.shape[1] // width)
    if block > 1:
        h, w = image.shape[0] // block * block, image.shape[1] // block * block
        parts = image[:h, :w].reshape(h // block, block, w // block, block, 3)
        image = np.rint(parts.mean(axis=(1, 3))).astype(np.uint8)
    rows, columns = _taps(image.shape[0], height), _taps(image.shape[1], width)
    values = image.astype(np.float32)
    for axis, (low, high, weight) in enumerate((rows, columns)):
        shape = [1, 1, 1]
        shape[axis] = len(weight)
        part = weight.reshape(shape)
        values = values.take(low, axis) * (1 - part) + values.take(high, axis) * part
    return np.rint(values).astype(np.uint8)


def _taps(old: int, new: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    at = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    low = np.floor(at).astype(np.int64)
    return low, np.minimum(low + 1, old - 1), (at - low).astype(np.float32)
