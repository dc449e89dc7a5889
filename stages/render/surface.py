"""Normals and colours of the points that survived the crop, from the faces that were hit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Camera
from schemas.records import FIRST_OBJECT, ObjectAsset
from stages.contract import Item
from stages.crop import slopes_at
from stages.render.backends.protocol import Hits
from stages.render.config import RenderConfig
from stages.render.errors import RenderConfigError


def surface_fields(
    hits: Hits,
    pixel: NDArray[np.int64],
    camera: Camera,
    config: RenderConfig,
    assets: Sequence[ObjectAsset],
) -> dict[str, NDArray[Any]]:
    """`normals` and `colour` of a Cloud for its pixels (N,), each when the config asks for it."""
    if not (config.normals or config.colour):
        return {}
    row = np.searchsorted(hits.pixel, pixel)
    out: dict[str, NDArray[Any]] = {}
    if config.normals:
        out["normals"] = normals_of(hits, row, camera, config.crop.frame)
    if config.colour:
        out["colour"] = colours_of(hits, row, assets)
    return out


def normals_of(
    hits: Hits, row: NDArray[np.int64], camera: Camera, frame: str
) -> NDArray[np.float32]:
    """(N, 3) unit normals of the hit faces, in `frame`, on the side that the camera sees.

    Flat, of the face itself: not smoothed over the mesh, and not touched by sensor noise.
    """
    if hits.normal is None:
        raise RenderConfigError("normals: this backend does not give them; use backend: embree")
    R_world_cam = camera.T_world_cam[:3, :3]
    normal = hits.normal[row].astype(np.float64) @ R_world_cam
    x, y = slopes_at(hits.pixel[row], camera.intrinsics)
    away = normal[:, 0] * x + normal[:, 1] * y + normal[:, 2] > 0
    normal *= np.where(away, -1.0, 1.0)[:, None] / np.linalg.norm(normal, axis=1, keepdims=True)
    if frame == "world":
        normal = normal @ R_world_cam.T
    return normal.astype(np.float32)


def colours_of(
    hits: Hits, row: NDArray[np.int64], assets: Sequence[ObjectAsset]
) -> NDArray[np.uint8]:
    """(N, 3) RGB between the corners of the hit faces; 0 0 0 where no colour is known.

    Unknown: the table, the background, flying pixels, and objects whose file has no colours.
    """
    if hits.face is None or hits.barycentric is None:
        raise RenderConfigError("colour: this backend does not give it; use backend: embree")
    out = np.zeros((len(row), 3), np.uint8)
    segment = hits.segment[row]
    for i, asset in enumerate(assets):
        mine = (segment == FIRST_OBJECT + i) & (hits.face[row] >= 0)
        if not len(asset.vertex_colours) or not mine.any():
            continue
        corners = asset.faces[hits.face[row[mine]]]
        u, v = (b[row[mine]][:, None] for b in hits.barycentric)
        a, b, c = (asset.vertex_colours[corners[:, k]].astype(np.float32) for k in range(3))
        mixed = (1 - u - v) * a + u * b + v * c
        out[mine] = np.clip(np.rint(mixed), 0, 255).astype(np.uint8)
    return out


def check_colour(config: RenderConfig, upstream: Mapping[str, Sequence[Item]]) -> None:
    """Raise RenderConfigError when colours are asked for but the assets were told to drop them."""
    if config.colour and not all(item.params.get("colour") for item in upstream.get("assets", ())):
        raise RenderConfigError("render.colour: the assets carry none; set assets.colour: true too")
