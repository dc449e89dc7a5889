"""What is said of one array of a shard."""

from dataclasses import dataclass
from typing import Any

CLOUD_FRAME = "<cloud>"
"""Frame of `points`: "camera" or "world", one per dataset; written out in the attributes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """One array of a shard. A `shape` entry is a size or the name of a dimension."""

    dtype: str
    shape: tuple[str | int, ...]
    unit: str  # SI, "" when it has none
    frame: str  # "" when it has none
    description: str
    low: float | None = None  # smallest allowed value, inclusive
    high: float | None = None
    no_data: str = ""  # how a missing value is written; "" when none may be missing
    strings: str = ""  # group attribute whose list this array indexes
    optional: bool = False  # written only when asked for

    def attributes(self, cloud_frame: str) -> dict[str, Any]:
        """What is stored with the array, JSON values."""
        out: dict[str, Any] = {"description": self.description}
        out["unit"] = self.unit
        out["frame"] = cloud_frame if self.frame == CLOUD_FRAME else self.frame
        out["valid_range"] = [self.low, self.high]
        out["no_data"] = self.no_data
        if "wxyz" in self.description:
            out["quaternion_order"] = "wxyz"
        if self.strings:
            out["indexes_attribute"] = self.strings
        return out
