"""What to keep of a depth image, as data with a digest."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, cast

from stages.crop.errors import CropDigestError, CropError

Vector3 = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class CropSpec:
    """Parameters of the crop, in the order in which they are applied.

    Segments are named as in `Scene.segment_table` ("table", "object:0"); `*` and `?` match as in
    file names. `extract_segments` wins over `remove_segments`: where it is given, only those
    segments stay and `remove_segments` is not looked at.
    """

    min_depth: float = 0.0  # m, z-depth; nearer pixels are invalid
    max_depth: float = 10.0  # m; farther pixels are invalid
    extract_segments: tuple[str, ...] = ("object:*",)
    remove_segments: tuple[str, ...] = ()
    box_min: Vector3 | None = None  # m; None keeps everything
    box_max: Vector3 | None = None
    # "world": the box is given relative to the scene's table pose; "camera": camera axes
    box_frame: Literal["camera", "world"] = "world"
    outlier_cell: float = 0.0  # m; 0 switches the outlier rule off
    outlier_min_points: int = 4  # fewer points in the 3x3x3 cells around a point drop it
    sampling: Literal["none", "random", "voxel", "farthest"] = "none"
    num_points: int = 2048  # for random and farthest: at most so many
    voxel_size: float = 0.005  # m, edge of the cells of sampling: voxel
    frame: Literal["camera", "world"] = "camera"  # of the points that come out

    def __post_init__(self) -> None:
        problems = self._wrong_types()
        if problems:
            raise CropError("crop: " + "; ".join(problems))
        if not 0 <= self.min_depth < self.max_depth:
            problems.append(
                f"expected 0 <= min_depth < max_depth in metres, got {self.min_depth} and "
                f"{self.max_depth}"
            )
        if (self.box_min is None) != (self.box_max is None):
            problems.append("box_min and box_max go together, got only one of them")
        if self.box_min is not None and self.box_max is not None:
            if len(self.box_min) != 3 or len(self.box_max) != 3:
                problems.append("box_min and box_max: expected three numbers each")
            elif not all(a < b for a, b in zip(self.box_min, self.box_max, strict=True)):
                problems.append(f"expected box_min < box_max, got {self.box_min}, {self.box_max}")
        if self.outlier_cell < 0 or self.outlier_min_points < 1:
            problems.append("expected outlier_cell >= 0 and outlier_min_points >= 1")
        if self.num_points < 1 or not self.voxel_size > 0:
            problems.append("expected num_points >= 1 and voxel_size > 0")
        for name, choices in (
            ("box_frame", ("camera", "world")),
            ("frame", ("camera", "world")),
            ("sampling", ("none", "random", "voxel", "farthest")),
        ):
            if getattr(self, name) not in choices:
                problems.append(f"{name}: expected one of {choices}, got {getattr(self, name)!r}")
        if problems:
            raise CropError("crop: " + "; ".join(problems))

    def _wrong_types(self) -> list[str]:
        """Values of another type than the field's, as a file may hold them."""
        problems: list[str] = []
        for f in fields(self):
            value, kind = getattr(self, f.name), f.type
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if kind is float and not (number and value == value):
                problems.append(f"{f.name}: expected a number, got {value!r}")
            elif kind is int and not (number and isinstance(value, int)):
                problems.append(f"{f.name}: expected a whole number, got {value!r}")
            elif kind == tuple[str, ...] and not _all(value, str):
                problems.append(f"{f.name}: expected a list of names, got {value!r}")
            elif kind == Vector3 | None and value is not None and not _all(value, int | float):
                problems.append(f"{f.name}: expected three numbers, got {value!r}")
        return problems

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` gives the same spec back."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "CropSpec":
        """From `to_dict`'s values; an unknown key is an error that lists the known ones."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise CropError(f"crop: unknown keys {unknown}; known: {known}")
        return cls(
            **{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}  # type: ignore[arg-type]
        )

    def digest(self) -> str:
        """sha256 of the canonical JSON; stored with every shard and checked on the robot."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def check_digest(self, expected: str) -> None:
        """Raise CropDigestError unless `expected` is this spec's digest."""
        if self.digest() != expected:
            raise CropDigestError(expected, self.digest())


def _all(value: object, kind: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(v, kind) for v in cast(tuple[Any, ...], value)
    )
