"""What a renderer does: z-depth and segment id of the same hit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Camera
from schemas.records import ObjectAsset, Scene

VISIBLE_SLACK = 1e-3  # m; more than float32 loses, less than anything that casts a shadow


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Hits:
    """What some pixels see. Depth and id come from one hit, so they never disagree on edges."""

    pixel: NDArray[np.int64]  # (M,) row * width + column, ascending
    z: NDArray[np.float32]  # (M,) z-depth, m; NaN where nothing was hit
    segment: NDArray[np.uint16]  # (M,) ids of Scene.segment_table; 0 where nothing was hit
    # What normals and colours are made of; None when the backend does not tell.
    normal: NDArray[np.float32] | None = None  # (M, 3) of the face, world, of any length and side
    face: NDArray[np.int32] | None = None  # (M,) triangle of the segment's mesh; -1 unknown
    # (M,), (M,): the hit is (1 - u - v) a + u b + v c of the triangle's corners a, b, c
    barycentric: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
    # (M,) cosine between ray and surface normal, >= 0; NaN where nothing was hit; None unless cast
    cosine: NDArray[np.float64] | None = None

    def dense(self, height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
        """Images (H, W): depth (NaN where not cast or missed) and segment (0 there)."""
        depth = np.full(height * width, np.nan, np.float32)
        segment = np.zeros(height * width, np.uint16)
        depth[self.pixel] = self.z
        segment[self.pixel] = self.segment
        return depth.reshape(height, width), segment.reshape(height, width)


class RenderBackend(Protocol):
    """`prepare` once per scene, `render` once per view.

    Depths are within half of `depth_step` (m) of exact ones; 0 where only floats round.
    """

    depth_step: float

    def prepare(self, scene: Scene, assets: Sequence[ObjectAsset]) -> Any:
        """Whatever serves all views of a scene; `assets` in the order of `scene.object_ids`."""
        ...

    def hulls(self, prepared: Any) -> Sequence[NDArray[np.float64]]:
        """Per object, (n, 3) world points whose convex hull contains the object."""
        ...

    def render(
        self, prepared: Any, camera: Camera, pixels: NDArray[np.int64] | None = None
    ) -> Hits:
        """Hits of `pixels` (ascending), or of all pixels."""
        ...


@runtime_checkable
class BatchBackend(RenderBackend, Protocol):
    """A backend that renders several (scene, view) pairs at once."""

    batch: int  # pairs that are worth announcing together

    def configure(self, *, normals: bool, sub_scenes: int) -> None:
        """Before the first picture: whether normals are needed, and RenderConfig.sub_scenes."""
        ...

    def announce(self, wanted: Sequence[tuple[Any, Camera]]) -> None:
        """These (prepared, camera) pairs will be rendered next, and none announced before."""
        ...


@runtime_checkable
class RayBackend(RenderBackend, Protocol):
    """A backend that casts any ray, which is what the sensor models need."""

    def cast(
        self,
        prepared: Any,
        camera: Camera,
        pixels: NDArray[np.int64],
        slopes: NDArray[np.float32],
    ) -> Hits:
        """Hits, with their cosines, of rays whose x/z and y/z in the camera frame are `slopes`.

        `slopes` (M, 2) go with `pixels` (M,); through the pixels' centres they give `render`'s
        bits.
        """
        ...

    def visible(
        self, prepared: Any, camera: Camera, eye_cam: Any, points_cam: NDArray[np.float32]
    ) -> NDArray[np.bool_]:
        """(M,) whether `eye_cam` (3,) sees `points_cam` (M, 3), metres, camera frame.

        A surface within `VISIBLE_SLACK` before a point does not hide it.
        """
        ...
