"""A picture drawn off-screen by Open3D.

In a child process, for without a working OpenGL driver Open3D does not raise but
ends the process: `python -m pipeline.pictures.open3d_child IN.npz OUT.png`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.pictures.points import Float, Image, Paint
from schemas.camera import Intrinsics
from schemas.frames import invert

TIMEOUT_S = 60.0
COLOUR_STEP = 8  # of 256 levels


def try_draw(paint: Paint, camera: Intrinsics, T_frame_cam: Float) -> tuple[Image | None, str]:
    """(height, width, 3) RGB, or None and the reason."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npy")
        size = np.array([camera.width, camera.height])
        np.savez(source, points=paint.points, colours=paint.colours, K=camera.K, size=size,
                 T_cam_frame=invert(T_frame_cam))  # fmt: skip
        command = [sys.executable, "-m", "pipeline.pictures.open3d_child", str(source), str(target)]
        root = Path(__file__).resolve().parents[2]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=root, check=False
            )
        except subprocess.TimeoutExpired:
            return None, f"no picture within {TIMEOUT_S:.0f} s"
        if done.returncode or not target.is_file():
            lines = done.stderr.strip().splitlines() or ["no message"]
            return None, f"exit {done.returncode}: {lines[-1]}"
        return np.load(target), ""


def _cloud(paint: Paint) -> Any:
    import open3d

    cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(paint.points))
    cloud.colors = open3d.utility.Vector3dVector(paint.colours / 255.0)
    return cloud


def _draw_here(source: str, target: str) -> None:
    import open3d

    with np.load(source) as data:
        paint = Paint(points=data["points"], colours=data["colours"])
        width, height = data["size"].tolist()
        renderer = open3d.visualization.rendering.OffscreenRenderer(width, height)
        renderer.scene.set_background([1.0, 1.0, 1.0, 1.0])
        renderer.scene.view.set_post_processing(False)  # its exposure shifts every colour
        # One geometry a colour: on software Vulkan the shaders with a colour per point draw black.
        coarse = paint.colours // COLOUR_STEP * COLOUR_STEP + COLOUR_STEP // 2
        colours, which = np.unique(coarse, axis=0, return_inverse=True)
        for i, colour in enumerate(colours):
            material = open3d.visualization.rendering.MaterialRecord()
            material.shader, material.point_size = "unlitSolidColor", 3.0
            material.base_color = [*_encoded(colour / 255.0), 1.0]
            mine = Paint(points=paint.points[which == i], colours=paint.colours[which == i])
            renderer.scene.add_geometry(str(i), _cloud(mine), material)
        renderer.setup_camera(data["K"], data["T_cam_frame"], width, height)
        np.save(target, np.asarray(renderer.render_to_image()))


def _encoded(linear: Float) -> list[float]:
    """sRGB's transfer curve (IEC 61966-2-1), which the renderer will undo."""
    low, high = 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055
    return np.where(linear <= 0.0031308, low, high).tolist()


if __name__ == "__main__":
    _draw_here(sys.argv[1], sys.argv[2])
