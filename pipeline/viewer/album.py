"""Where somebody who leafs through a dataset stands, and what there is to see; no drawing.

A window, a web page and a film all show `Album.shown()`, so that they cannot differ, and all of it
comes from the dataset on the disk.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.pictures.cloud import find_cloud, load_surface
from pipeline.pictures.hand import HandSurface, Mesh
from pipeline.pictures.points import Float, Paint, paint_segments
from pipeline.viewer.replay import Replay, replay
from schemas.camera import Intrinsics
from stages.shard.clouds import CloudTable
from stages.shard.errors import UnknownChoiceError
from stages.shard.grasps import GraspTable
from stages.shard.open import load_manifest

POSES = ("pregrasp", "grasp", "squeeze")
FRUSTUM = 0.08  # m from a camera's centre to the corners that are drawn


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shown:
    """World frame, m. Of a replay the cloud is empty and `things` hold the object."""

    title: str
    cloud: Paint
    hand: tuple[Mesh, ...] = ()
    things: tuple[Mesh, ...] = ()
    cameras: tuple[tuple[Float, Intrinsics], ...] = ()  # T_world_cam; the view's own first


@dataclass(kw_only=True, slots=True)
class Album:
    """`hand` shows its grasps, `protocol` their labels too; `place` counts all clouds."""

    out: Path
    tables: list[CloudTable]
    clouds: list[tuple[int, int]]  # table and row of every cloud
    place: int = 0
    hand: str | None = None
    protocol: str | None = None
    grasp: int = 0
    pose: str = "grasp"
    _surface: HandSurface | None = None
    _grasps: dict[str, GraspTable] = field(default_factory=dict[str, GraspTable])
    _found: dict[str, Any] | None = None

    @property
    def table(self) -> CloudTable:
        return self.tables[self.clouds[self.place][0]]

    @property
    def scene(self) -> str:
        return self.table.index.key(self.clouds[self.place][1])[0]

    def cloud(self) -> dict[str, Any]:
        row = self.clouds[self.place][1]
        return self.table.read(row, row + 1)[0]

    def about(self) -> dict[str, Any]:
        """What `cloud` says beside its points, without reading those."""
        return self.table.about(self.clouds[self.place][1])

    def move_view(self, step: int) -> None:
        """To the next cloud, or the one before; the last is followed by the first."""
        self.place = (self.place + step) % len(self.clouds)
        self._forget()

    def move_scene(self, step: int) -> None:
        """To the first cloud of the next scene, or of the one before."""
        start = (self.clouds[self.place][0], self.scene)
        for _ in self.clouds:
            self.move_view(step)
            if (self.clouds[self.place][0], self.scene) != start:
                break
        here = (self.clouds[self.place][0], self.scene)
        while self.place > 0:
            self.place -= 1
            if (self.clouds[self.place][0], self.scene) != here:
                self.place += 1
                break
        self._forget()

    def go_to(self, place: int) -> None:
        self.place = place % len(self.clouds)
        self._forget()

    def move_grasp(self, step: int) -> None:
        self.grasp = (self.grasp + step) % max(1, self.grasp_count)

    def move_pose(self) -> None:
        self.pose = POSES[(POSES.index(self.pose) + 1) % len(POSES)]

    def _forget(self) -> None:
        self._found, self.grasp = None, 0

    @property
    def grasp_table(self) -> GraspTable | None:
        if self.hand is None:
            return None
        split = self.table.split
        if split not in self._grasps:
            self._grasps[split] = GraspTable(self.out, split, self.hand, self.protocol)
        return self._grasps[split]

    def grasps(self) -> dict[str, NDArray[Any]]:
        """Of the scene's objects, world frame; see GraspTable.of_scene."""
        table = self.grasp_table
        if table is None:
            return {}
        if self._found is None:
            about = self.about()
            self._found = table.of_scene(about["object_ids"], about["object_poses"], np.eye(4))
        return self._found

    @property
    def grasp_count(self) -> int:
        return len(self.grasps().get("grasp_index", ()))

    def shown(self) -> Shown:
        """The cloud, its scene's cameras and the hand at the chosen grasp and pose."""
        cloud = self.cloud()
        split, count = self.table.split, len(cloud["points"])
        title = f"{cloud['scene_id']} view {cloud['view']} ({split}): {count:,} points"
        hand: tuple[Mesh, ...] = ()
        if self.grasp_count:
            hand = tuple(self.surface().meshes(self.grasps()[f"{self.pose}_qpos"][self.grasp]))
            title += f"; {self._grasp_title(cloud)}"
        return Shown(
            title=title,
            cloud=paint_segments(cloud["points"], cloud["segment"]),
            hand=hand,
            cameras=tuple(self._cameras()),
        )

    def _grasp_title(self, cloud: dict[str, Any]) -> str:
        found, row, table = self.grasps(), self.grasp, self.grasp_table
        name = cloud["object_ids"][int(found["object_slot"][row])]
        verdict = ""
        if table is not None and self.protocol is not None:
            verdict = f", {self.protocol}: {table.outcome_codes[int(found['outcome'][row])]}"
        number = int(found["grasp_index"][row])
        return (
            f"{self.hand} on {name} #{number} at {self.pose} ({row + 1} of {self.grasp_count})"
            + verdict
        )

    def surface(self) -> HandSurface:
        """The album's hand; there must be one."""
        if self._surface is None:
            table = self.grasp_table
            assert table is not None
            self._surface = load_surface(table)
        return self._surface

    def _cameras(self) -> list[tuple[Float, Intrinsics]]:
        """Of all views of the scene, the current one first."""
        number, own = self.clouds[self.place]
        rows = [own] + [
            row for t, row in self.clouds
            if t == number and row != own and self.table.index.key(row)[0] == self.scene
        ]  # fmt: skip
        abouts = [self.table.about(row) for row in rows]
        return [(a["T_world_cam"], Intrinsics.from_array(a["intrinsics"])) for a in abouts]

    def replay(self) -> Replay:
        """The chosen grasp simulated again; raises CannotDrawError where it cannot be."""
        about, found = self.about(), self.grasps()
        if self.hand is None or not self.grasp_count:
            raise UnknownChoiceError("grasp", self.grasp, ())
        slot, index = int(found["object_slot"][self.grasp]), int(found["grasp_index"][self.grasp])
        return replay(self.out, self.hand, self.protocol or "fc", about["object_ids"][slot], index)


def open_album(
    out: Path,
    split: str | None = None,
    scene: str | None = None,
    view: int | None = None,
    hand: str | None = None,
    protocol: str | None = None,
) -> Album:
    """An album opened at the asked-for cloud, with the clouds of its split, or of all splits."""
    table, row = find_cloud(out, split, scene, view)
    splits = [split] if split else list(load_manifest(out)["splits"])
    tables = [CloudTable(out=out, split=name, frame="world") for name in splits]
    clouds = [(t, i) for t, table in enumerate(tables) for i in range(len(table))]
    key = table.index.key(row)
    place = next(
        n for n, (t, i) in enumerate(clouds)
        if tables[t].split == table.split and tables[t].index.key(i) == key
    )  # fmt: skip
    album = Album(out=out, tables=tables, clouds=clouds, place=place, hand=hand, protocol=protocol)
    if hand is not None:
        _ = album.grasp_table  # an unknown hand or protocol is said before a window opens
    return album


def replay_frame(play: Replay, surface: HandSurface, frame: int, title: str) -> Shown:
    """One snapshot of a replay: the object and the hand, without cloud and cameras."""
    return Shown(
        title=title,
        cloud=Paint(points=np.zeros((0, 3)), colours=np.zeros((0, 3), np.uint8)),
        hand=tuple(surface.meshes(play.hand_qpos[frame])),
        things=(play.placed(frame),),
    )


def frustum(T_world_cam: Float, camera: Intrinsics) -> tuple[Float, NDArray[np.int64]]:
    """Corners (5, 3) m, world, the centre first, and the 8 edges (8, 2) of a camera's pyramid."""
    from schemas.frames import transform_points

    pixels = np.array([[0, 0], [camera.width, 0], [camera.width, camera.height],
                       [0, camera.height]], np.float64)  # fmt: skip
    slopes = (pixels - [camera.cx, camera.cy]) / [camera.fx, camera.fy]
    corners = FRUSTUM * np.column_stack([slopes, np.ones(4)])
    points = transform_points(T_world_cam, np.vstack([np.zeros(3), corners]))
    edges = [[0, 1], [0, 2], [0, 3], [0, 4], [1, 2], [2, 3], [3, 4], [4, 1]]
    return points, np.array(edges, np.int64)
