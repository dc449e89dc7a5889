"""All views of a scene as one cloud, put together when it is read: nothing is stored twice."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.shard.clouds import PER_POINT, CloudTable, side_by_side

CAMERA_FIELDS = ("T_world_cam", "intrinsics", "distortion")


@dataclass(kw_only=True, slots=True)
class FusedTable:
    """A `CloudTable` whose rows are scenes. `clouds` must be read in the world frame.

    Points that several views see come several times, as a robot that moves its camera gets them.
    """

    clouds: CloudTable
    rows: list[tuple[int, int]] = field(default_factory=list)  # start, stop in `clouds`

    def __post_init__(self) -> None:
        if self.clouds.frame != "world":
            raise ValueError(f"fuse: views meet in the world frame, got {self.clouds.frame!r}")
        cut = np.flatnonzero(np.diff(self.clouds.index.scene)) + 1
        edges = [0, *cut.tolist(), len(self.clouds)] if len(self.clouds) else []
        self.rows = list(pairwise(edges))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def frame(self) -> str:
        return "world"

    def blocks(self, size: int) -> NDArray[np.int64]:
        """(B, 2) runs start, stop of at most `size` scenes that lie side by side in one shard."""
        return side_by_side(self.clouds.index.shard[[start for start, _ in self.rows]], size)

    def ahead(self, indices: NDArray[np.int64]) -> None:
        """Have the system read what these scenes are made of, without waiting for it."""
        runs = [np.arange(*self.rows[i]) for i in indices.tolist()]
        self.clouds.ahead(np.concatenate([np.zeros(0, np.int64), *runs]))

    def read(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Scenes start:stop, all of one shard; see `fused`."""
        first = self.rows[start][0]
        clouds = self.clouds.read(first, self.rows[stop - 1][1])
        return [
            fused(clouds[a - first : b - first]) | {"index": start + i}
            for i, (a, b) in enumerate(self.rows[start:stop])
        ]


def fused(clouds: list[dict[str, Any]]) -> dict[str, Any]:
    """V clouds of one scene, world frame -> one cloud.

    Per point: points, segment, normals and colour where there are some, and view_of_point (N,)
    int64, the number of the view that each point is from. Per view: view (V,), T_world_cam
    (V, 4, 4), intrinsics (V, 6), distortion (V, 6). `visibility` is left out: it is by view.
    """
    out = {k: v for k, v in clouds[0].items() if k != "visibility"}
    for key in ("points", "segment", *PER_POINT):
        if key in out:
            out[key] = np.concatenate([cloud[key] for cloud in clouds])
    for key in CAMERA_FIELDS:
        if key in out:
            out[key] = np.stack([cloud[key] for cloud in clouds])
    out["view"] = np.array([cloud["view"] for cloud in clouds], np.int64)
    out["view_of_point"] = np.repeat(out["view"], [len(cloud["points"]) for cloud in clouds])
    return out
