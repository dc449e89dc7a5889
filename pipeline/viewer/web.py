"""A web page on an album, by viser: for machines without a screen, over an ssh tunnel."""

import contextlib
import io
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.errors import CannotDrawError, UserError
from pipeline.pictures.hand import Mesh
from pipeline.pictures.points import HAND_COLOUR
from pipeline.pictures.sheet import OBJECT_COLOUR
from pipeline.viewer.album import FRUSTUM, POSES, Album, Shown, replay_frame
from pipeline.viewer.film import RATE
from schemas.frames import matrix_to_pose
from stages.shard.errors import DatasetError, UnknownChoiceError


class WebPage:
    """The server and its controls. One album for all visitors."""

    def __init__(self, album: Album, host: str, port: int) -> None:
        try:
            import viser
        except ImportError as error:
            raise CannotDrawError(f"--web needs viser ({error}); pip install viser") from error
        self.album = album
        self._lock = threading.RLock()  # viser calls back from threads of its own
        with contextlib.redirect_stdout(io.StringIO()):  # its own banner
            self._server: Any = viser.ViserServer(
                host=host, port=port, label="grasp-clouds", verbose=False
            )
        scene = self._server.scene
        scene.set_up_direction("+z")
        scene.configure_environment_map(hdri=None)  # a picture from the network, which is not asked
        gui: Any = self._server.gui
        gui.configure_theme(show_share_button=False)  # a tunnel to a machine of others
        self._title: Any = gui.add_markdown("")
        self._place: Any = gui.add_slider(
            "cloud", min=0, max=max(1, len(album.clouds) - 1), step=1, initial_value=album.place
        )
        self._place.on_update(self._slide)
        actions: tuple[tuple[str, Callable[[], None]], ...] = (
            ("Next scene", lambda: album.move_scene(1)),
            ("Next view", lambda: album.move_view(1)),
            ("Next grasp", lambda: album.move_grasp(1)),
        )
        for text, act in actions:
            gui.add_button(text).on_click(self._call(act))
        self._pose: Any = gui.add_dropdown("pose", POSES, initial_value=album.pose)
        self._pose.on_update(self._call(self._set_pose))
        self._cameras: Any = gui.add_checkbox("cameras", True)
        self._cameras.on_update(self._call(lambda: None))
        gui.add_button("Play rollout").on_click(self._play)
        self._drawn: list[Any] = []
        self._do(lambda: None)
        self._look_at(album.shown())

    @property
    def url(self) -> str:
        return f"http://{self._server.get_host()}:{self._server.get_port()}"

    def wait(self) -> None:
        """Until Ctrl-C."""
        while True:
            time.sleep(3600)

    def stop(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            self._server.stop()

    def _slide(self, _: Any) -> None:
        if int(self._place.value) != self.album.place:  # else it was set to where the album is
            self._do(lambda: self.album.go_to(int(self._place.value)))

    def _set_pose(self) -> None:
        self.album.pose = str(self._pose.value)

    def _call(self, act: Callable[[], None]) -> Callable[[Any], None]:
        def called(_: Any) -> None:
            self._do(act)

        return called

    def _do(self, act: Callable[[], None]) -> None:
        with self._lock:
            act()
            self._show(self.album.shown())
            if int(self._place.value) != self.album.place:
                self._place.value = self.album.place

    def _play(self, _: Any) -> None:
        with self._lock:
            try:
                play, surface = self.album.replay(), self.album.surface()
            except (UserError, DatasetError, UnknownChoiceError) as error:
                self._title.content = f"**{error}**"
                return
            title = f"{play.title} (stored: {play.stored})"
            for i in range(0, len(play.hand_qpos), 2):
                self._show(replay_frame(play, surface, i, title))
                time.sleep(1 / RATE)

    def _show(self, shown: Shown) -> None:
        server = self._server
        self._title.content = shown.title
        with server.atomic():
            for old in self._drawn:
                old.remove()
            scene, self._drawn = server.scene, []
            if len(shown.cloud.points):
                self._drawn.append(
                    scene.add_point_cloud(
                        "/cloud", shown.cloud.points.astype(np.float32), shown.cloud.colours,
                        point_size=0.002, precision="float32", point_shading="flat",
                    )
                )  # fmt: skip
            self._drawn += self._meshes("hand", shown.hand, HAND_COLOUR)
            self._drawn += self._meshes("thing", shown.things, OBJECT_COLOUR)
            if self._cameras.value:
                for i, (T, camera) in enumerate(shown.cameras):
                    pose = matrix_to_pose(T)
                    self._drawn.append(
                        scene.add_camera_frustum(
                            f"/cameras/{i}", fov=2 * np.arctan(camera.height / 2 / camera.fy),
                            aspect=camera.width / camera.height, scale=FRUSTUM,
                            color=(213, 94, 0) if i == 0 else (150, 150, 150),
                            position=pose[:3], wxyz=pose[3:], thickness=0.0015,
                            cast_shadow=False, receive_shadow=False,
                        )
                    )  # fmt: skip

    def _meshes(self, name: str, meshes: tuple[Mesh, ...], colour: Any) -> list[Any]:
        rgb = tuple(int(c) for c in colour)
        return [
            self._server.scene.add_mesh_simple(
                f"/{name}/{i}", vertices.astype(np.float32), faces.astype(np.uint32), color=rgb,
                flat_shading=True, side="double",
            )
            for i, (vertices, faces) in enumerate(meshes)
        ]  # fmt: skip

    def _look_at(self, shown: Shown) -> None:
        """Start where the view's own camera stood."""
        points = shown.cloud.points
        middle = points.mean(axis=0) if len(points) else np.zeros(3)
        camera: Any = self._server.initial_camera
        camera.look_at = middle
        camera.position = middle + 0.8 * (shown.cameras[0][0][:3, 3] - middle)
        camera.up = np.array([0.0, 0.0, 1.0])
