"""Pictures without a display or a GPU: points drawn by a z-buffer in numpy.

Meshes are drawn as points on their surface. It is slow and plain next to a renderer, and works
wherever numpy does.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Intrinsics
from schemas.frames import invert, look_at, transform_points
from stages.grasp.surface import face_normals, surface_points

Float = NDArray[np.float64]
Image = NDArray[np.uint8]

BACKGROUND = 255
# Okabe and Ito's colours, told apart with colour-blind eyes too; grey is the table.
PALETTE = np.array(
    [[60, 60, 60], [170, 170, 170], [230, 159, 0], [86, 180, 233], [0, 158, 115],
     [204, 121, 167], [0, 114, 178], [213, 94, 0], [240, 228, 66]], np.uint8,
)  # fmt: skip
HAND_COLOUR = np.array([120, 130, 190], np.uint8)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Paint:
    """Coloured points: points (N, 3) m, any one frame; colours (N, 3) RGB."""

    points: Float
    colours: NDArray[np.uint8]


def paint_segments(points: NDArray[Any], segment: NDArray[Any]) -> Paint:
    """(N, 3) points coloured by segment id; the colours of the objects repeat after seven."""
    ids = np.where(segment < 2, segment, 2 + (segment.astype(np.int64) - 2) % (len(PALETTE) - 2))
    return Paint(points=np.asarray(points, np.float64), colours=PALETTE[ids])


def paint_mesh(
    vertices: NDArray[Any], faces: NDArray[Any], colour: NDArray[np.uint8], count: int
) -> Paint:
    """`count` points spread evenly over a mesh, lit from above by Lambert's law."""
    rng = np.random.default_rng(0)  # the same picture every time
    points, rows = surface_points(vertices, faces, count, rng)
    light = np.array([0.4, 0.3, 0.87])
    cosine = np.abs(face_normals(vertices, faces)[rows] @ light)
    lit = colour * (0.45 + 0.55 * cosine)[:, None]
    return Paint(points=points, colours=lit.astype(np.uint8))


def join(paints: list[Paint]) -> Paint:
    return Paint(
        points=np.concatenate([p.points for p in paints]),
        colours=np.concatenate([p.colours for p in paints]),
    )


def around(paint: Paint, direction: Float, size: tuple[int, int]) -> tuple[Intrinsics, Float]:
    """A camera (intrinsics, T_frame_cam) that sees all points, from `direction` (3,)."""
    points = paint.points
    if not len(points):
        points = np.zeros((1, 3))
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    radius = max(float(np.linalg.norm(points - middle, axis=1).max()), 0.02)
    width, height = size
    # Three radii away: near enough for depth to be seen, far enough for little distortion.
    eye = middle + direction / np.linalg.norm(direction) * 3 * radius
    T = look_at(eye, middle)
    seen = transform_points(invert(T), points)
    reach = np.maximum(np.abs(seen[:, :2] / seen[:, 2:]).max(axis=0), 1e-3)
    focal = float((0.47 * np.array(size) / reach).min())
    camera = Intrinsics(fx=focal, fy=focal, cx=width / 2, cy=height / 2, width=width, height=height)
    return camera, T


def draw(paint: Paint, camera: Intrinsics, T_frame_cam: Float, radius: int = 1) -> Image:
    """(height, width, 3) RGB: squares of 2 `radius` + 1 pixels, the nearest in front.

    Steps in depth are darkened, so that shapes of one colour stand out.
    """
    width, height = camera.width, camera.height
    seen = transform_points(invert(T_frame_cam), paint.points)
    ahead = seen[:, 2] > 1e-6
    seen, colours = seen[ahead], paint.colours[ahead]
    z = seen[:, 2]
    u = np.floor(camera.fx * seen[:, 0] / z + camera.cx).astype(np.int64)
    v = np.floor(camera.fy * seen[:, 1] / z + camera.cy).astype(np.int64)
    image = np.full((height * width, 3), BACKGROUND, np.uint8)
    depth = np.full(height * width, np.inf)
    order = np.argsort(-z, kind="stable")  # far to near: of equal pixels the last written stays
    for dv in range(-radius, radius + 1):
        for du in range(-radius, radius + 1):
            x, y = u[order] + du, v[order] + dv
            inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
            pixel, rows = (y * width + x)[inside], order[inside]
            layer = np.full(height * width, -1, np.int64)
            layer[pixel] = rows
            hit = np.flatnonzero(layer >= 0)
            nearer = hit[z[layer[hit]] < depth[hit]]
            depth[nearer] = z[layer[nearer]]
            image[nearer] = colours[layer[nearer]]
    shade = _eye_dome(depth.reshape(height, width))
    return (image.reshape(height, width, 3) * shade[:, :, None]).astype(np.uint8)


def _eye_dome(depth: Float, strength: float = 30.0) -> Float:
    """(H, W) brightness in (0, 1]: eye-dome lighting (Boucheny 2009) over four neighbours."""
    known = np.isfinite(depth)
    log = np.log(np.where(known, depth, 1.0))
    behind = np.zeros(depth.shape)
    for axis in (0, 1):
        for step in (-1, 1):
            both = known & np.roll(known, step, axis)
            behind += np.where(both, np.maximum(0.0, log - np.roll(log, step, axis)), 0.0)
    return np.where(known, np.maximum(np.exp(-strength * behind), 0.35), 1.0)


def tile(images: list[Image], titles: list[str], columns: int) -> Image:
    """Pictures of one size in rows of `columns`, each under its title."""
    from PIL import Image as Pillow
    from PIL import ImageDraw, ImageFont

    height, width = images[0].shape[:2]
    font, bar = ImageFont.load_default(13), 38
    rows = -(-len(images) // columns)
    sheet = Pillow.new("RGB", (columns * width, rows * (height + bar)), "white")
    pen = ImageDraw.Draw(sheet)
    for i, (image, title) in enumerate(zip(images, titles, strict=True)):
        x, y = i % columns * width, i // columns * (height + bar)
        sheet.paste(Pillow.fromarray(image), (x, y + bar))
        pen.multiline_text((x + 6, y + 4), title, fill="black", font=font, spacing=2)
    return np.asarray(sheet)


def save(image: Image, path: Path) -> None:
    """PNG, whatever the name."""
    from PIL import Image as Pillow

    Pillow.fromarray(image).save(path, format="PNG")
