"""An open3d window on an album, turned by keys."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.errors import UserError
from pipeline.pictures.hand import Mesh
from pipeline.pictures.points import HAND_COLOUR
from pipeline.pictures.sheet import OBJECT_COLOUR
from pipeline.viewer.album import Album, Shown, frustum, replay_frame
from pipeline.viewer.film import RATE
from stages.shard.errors import DatasetError, UnknownChoiceError

KEYS = (
    ("S", "next scene"), ("A", "scene before"), ("V", "next view"), ("B", "view before"),
    ("G", "next grasp"), ("F", "grasp before"), ("P", "pregrasp, grasp, squeeze"),
    ("R", "play the rollout"), ("C", "cameras on or off"), ("Q", "close"),
)  # fmt: skip


class Window:
    """`start` opens it; `key` does what a key does, so that a test can press them."""

    def __init__(self, album: Album, say: Callable[[str], None]) -> None:
        import open3d

        self.o3d: Any = open3d
        self.album, self.say = album, say
        self.cameras = True
        self._vis: Any = self.o3d.visualization.VisualizerWithKeyCallback()

    def start(self, *, visible: bool = True) -> None:
        """Raises UserError when no window can be opened."""
        if not self._vis.create_window("grasp-clouds", 1100, 800, visible=visible):
            raise UserError(
                "open3d could not open a window (no OpenGL, or no display); "
                "use --web, or draw with --save"
            )
        for letter, _ in KEYS:
            if letter != "Q":  # open3d's own
                self._vis.register_key_callback(ord(letter), self._callback(letter))
        self.say("keys: " + ", ".join(f"{letter} {what}" for letter, what in KEYS))
        self.redraw(self.album.shown(), reset=True)

    def run(self) -> None:
        """Until the window is closed."""
        self._vis.run()
        self.close()

    def close(self) -> None:
        self._vis.destroy_window()

    def picture(self) -> Any:
        """(H, W, 3) RGB of what the window shows."""
        self._vis.poll_events()
        self._vis.update_renderer()
        image = np.asarray(self._vis.capture_screen_float_buffer(do_render=True))
        return (255 * image).astype(np.uint8)

    def _callback(self, letter: str) -> Callable[[Any], bool]:
        def press(_: Any) -> bool:
            self.key(letter)
            return False

        return press

    def key(self, letter: str) -> None:
        """What the key does; what cannot be done is said and changes nothing."""
        album, moved = self.album, letter in "SA"
        if letter in "SA":
            album.move_scene(1 if letter == "S" else -1)
        elif letter in "VB":
            album.move_view(1 if letter == "V" else -1)
        elif letter in "GF":
            album.move_grasp(1 if letter == "G" else -1)
        elif letter == "P":
            album.move_pose()
        elif letter == "C":
            self.cameras = not self.cameras
        elif letter == "R":
            try:
                self.play()
            except (UserError, DatasetError, UnknownChoiceError) as error:
                self.say(str(error))
                return
        self.redraw(album.shown(), reset=moved)

    def play(self) -> None:
        """The chosen grasp, simulated again, in the window."""
        play, surface = self.album.replay(), self.album.surface()
        self.say(f"{play.title} (stored: {play.stored})")
        for i in range(len(play.hand_qpos)):
            self.redraw(replay_frame(play, surface, i, play.title), reset=i == 0, quiet=True)
            self._vis.poll_events()
            self._vis.update_renderer()
            time.sleep(1 / RATE / 4)

    def redraw(self, shown: Shown, *, reset: bool, quiet: bool = False) -> None:
        vis = self._vis
        vis.clear_geometries()
        geometries = [self._cloud(shown)] if len(shown.cloud.points) else []
        geometries += [self._mesh(mesh, HAND_COLOUR) for mesh in shown.hand]
        geometries += [self._mesh(mesh, OBJECT_COLOUR) for mesh in shown.things]
        if self.cameras:
            geometries += [self._frustum(*c, i == 0) for i, c in enumerate(shown.cameras)]
        for geometry in geometries:
            vis.add_geometry(geometry, reset_bounding_box=reset)
        if reset:
            self._look_at(shown)
        if not quiet:
            self.say(shown.title)

    def _look_at(self, shown: Shown) -> None:
        """From where the view's own camera stood; of a rollout, a little from above."""
        parts = [shown.cloud.points, *(v for v, _ in (*shown.hand, *shown.things))]
        points = np.concatenate([p for p in parts if len(p)] or [np.zeros((1, 3))])
        low, high = points.min(axis=0), points.max(axis=0)
        middle = (low + high) / 2
        eye = shown.cameras[0][0][:3, 3] if shown.cameras else middle + [0.5, 0.35, 0.3]
        control = self._vis.get_view_control()
        control.set_lookat(middle)
        control.set_front((eye - middle) / max(float(np.linalg.norm(eye - middle)), 1e-9))
        control.set_up([0.0, 0.0, 1.0])
        # the window's own zoom 1 shows the box of everything, cameras included
        control.set_zoom(0.35 if self.cameras and shown.cameras else 0.7)

    def _cloud(self, shown: Shown) -> Any:
        cloud = self.o3d.geometry.PointCloud(self.o3d.utility.Vector3dVector(shown.cloud.points))
        cloud.colors = self.o3d.utility.Vector3dVector(shown.cloud.colours / 255.0)
        return cloud

    def _mesh(self, mesh: Mesh, colour: Any) -> Any:
        vertices, faces = mesh
        drawn = self.o3d.geometry.TriangleMesh(
            self.o3d.utility.Vector3dVector(vertices),
            self.o3d.utility.Vector3iVector(faces.astype(np.int32)),
        )
        drawn.compute_vertex_normals()
        drawn.paint_uniform_color((colour / 255.0).tolist())
        return drawn

    def _frustum(self, T_world_cam: Any, camera: Any, own: bool) -> Any:
        points, edges = frustum(T_world_cam, camera)
        lines = self.o3d.geometry.LineSet(
            self.o3d.utility.Vector3dVector(points), self.o3d.utility.Vector2iVector(edges)
        )
        lines.paint_uniform_color([0.85, 0.37, 0.0] if own else [0.6, 0.6, 0.6])
        return lines
