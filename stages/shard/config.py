"""Config of the shard room."""

from dataclasses import dataclass, field

from stages.contract import OPTIONAL
from stages.shard.errors import ShardConfigError

COMPRESSIONS = ("none", "blosc", "zstd")


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardConfig:
    """How a dataset is cut into files, and whether the visibility of grasps is stored.

    The cut does not change the content (`dataset_digest`).
    """

    scenes_per_shard: int = 64
    """Scenes of one split in one `.zarr`; each worker holds the clouds of one in memory."""
    chunk_points: int = 65536
    """Points in one readable chunk: 768 KiB of float32 xyz, some tens of clouds of 2048."""
    chunks_per_file: int = 256
    """Chunks in one file of an array (a Zarr shard), at most: 192 MiB of points."""
    compression: str = "none"
    """none, blosc (LZ4 of shuffled bytes, a third smaller) or zstd: docs/decisions/0011."""
    compression_level: int = 3
    """zstd level, 1 to 19; 3 is zstd's own default."""
    visibility: bool = field(default=False, metadata=OPTIONAL)
    """Store, for each cloud and grasp of its objects, how much of the contact region it shows."""
    contact_radius: float = field(default=0.01, metadata=OPTIONAL)
    """m; the contact region is the surface within this of a contact: a fingertip's size."""
    point_distance: float = field(default=0.005, metadata=OPTIONAL)
    """m; a place of the surface is seen when a point of the cloud lies within this of it."""

    def __post_init__(self) -> None:
        problems: list[str] = []
        for name in ("scenes_per_shard", "chunk_points", "chunks_per_file"):
            if getattr(self, name) < 1:
                problems.append(f"{name}: expected >= 1, got {getattr(self, name)}")
        if self.compression not in COMPRESSIONS:
            problems.append(
                f"compression: expected one of {', '.join(COMPRESSIONS)}, got {self.compression!r}"
            )
        if not 1 <= self.compression_level <= 19:
            problems.append(f"compression_level: expected 1..19, got {self.compression_level}")
        for name in ("contact_radius", "point_distance"):
            if not getattr(self, name) > 0:
                problems.append(f"{name}: expected metres > 0, got {getattr(self, name)}")
        if problems:
            raise ShardConfigError("shard config: " + "; ".join(problems))
