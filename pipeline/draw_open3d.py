"""Open3D: a window, or a picture drawn off-screen.

Off-screen drawing runs in a child process, for without a working OpenGL driver Open3D does not
raise but ends the process: `python -m pipeline.draw_open3d IN.npz OUT.png`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.draw import Float, Image, Paint
from schemas.camera import Intrinsics
from schemas.frames import invert

TIMEOUT_S = 60.0


def try_draw(paint: Paint, camera: Intrinsics, T_frame_cam: Float) -> tuple[Image | None, str]:
    """(height, width, 3) RGB, or None and the reason."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npy")
        size = np.array([camera.width, camera.height])
        np.savez(source, points=paint.points, colours=paint.colours, K=camera.K, size=size,
                 T_cam_frame=invert(T_frame_cam))  # fmt: skip
        command = [sys.executable, "-m", "pipeline.draw_open3d", str(source), str(target)]
        root = Path(__file__).resolve().parents[1]
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


def show(paint: Paint, title: str) -> None:
    """Open a window and wait until it is closed."""
    import open3d

    open3d.visualization.draw_geometries([_cloud(paint)], window_name=title)


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
        material = open3d.visualization.rendering.MaterialRecord()
        material.shader, material.point_size = "defaultUnlit", 3.0
        renderer.scene.set_background([1.0, 1.0, 1.0, 1.0])
        renderer.scene.add_geometry("cloud", _cloud(paint), material)
        renderer.setup_camera(data["K"], data["T_cam_frame"], width, height)
        np.save(target, np.asarray(renderer.render_to_image()))


if __name__ == "__main__":
    _draw_here(sys.argv[1], sys.argv[2])
