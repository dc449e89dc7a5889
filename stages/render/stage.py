"""(scene, view) pairs -> cropped single-view clouds."""

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from schemas.camera import Camera
from schemas.records import Cloud, ObjectAsset, Scene
from stages.contract import Item, ItemTable, Outcome
from stages.crop import crop_pixels
from stages.render.backends import BACKENDS, check_grains, check_rays
from stages.render.backends.protocol import BatchBackend, RenderBackend
from stages.render.cameras import bounding_middles, file_poses, sample_camera, wrist_mount
from stages.render.config import CameraConfig, RenderConfig
from stages.render.cull import surviving_pixels
from stages.render.errors import RenderConfigError
from stages.render.sensor import eyes, observe
from stages.render.surface import check_colour, surface_fields

EMPTY = "empty_cloud"


def load_backend(name: str) -> RenderBackend:
    """A new backend by name; raises RenderConfigError listing the names."""
    if name not in BACKENDS:
        raise RenderConfigError(f"backend: unknown {name!r}; choose from {', '.join(BACKENDS)}")
    return resolve_name(BACKENDS[name])()


class RenderStage:
    """One item per (scene, view); the views of a scene share one prepared scene."""

    name: ClassVar[str] = "render"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("assets", "scene")
    record: ClassVar[type] = Cloud

    def plan(self, config: RenderConfig, upstream: Mapping[str, Sequence[Item]]) -> Sequence[Item]:
        """Raises CameraFileError when a file of poses cannot be read or has too few rows, and
        RenderConfigError when the backend cannot do what the config or the scenes ask for."""
        lens = bool(config.camera.distortion)
        check_rays(config.backend, colour=config.colour, distortion=lens)
        poses = file_poses(config.camera, config.views)
        check_colour(config, upstream)
        mount = wrist_mount(config.camera)
        scenes, views = upstream["scene"], config.views
        # kinds of scenes come one after another, the granular ones last
        if len(scenes) and scenes[len(scenes) - 1].params.get("kind") == "granular":
            check_grains(config.backend)
        index_of = {} if isinstance(scenes, ItemTable) else {s.id: i for i, s in enumerate(scenes)}

        def make(index: int) -> Item:
            scene, view = scenes[index // views], index % views
            return Item(
                id=f"{scene.id}/v{view:02d}",
                # The row itself, so that another pose is another key and another file is not.
                params={"view": view, **mount}
                if poses is None
                else {"view": view, "T_world_cam": poses[view].tolist()},
                inputs=(("scene", scene.id), *dict.fromkeys(scene.inputs)),
                group=scene.id,
            )

        def position(item_id: str) -> int | None:
            scene_id, _, view = item_id.rpartition("/v")
            found = (
                scenes.position(scene_id)
                if isinstance(scenes, ItemTable)
                else index_of.get(scene_id)
            )
            if found is None or not view.isdecimal() or int(view) >= views:
                return None
            return found * views + int(view)

        return ItemTable(len(scenes) * views, make, position, per_group=views)

    def run(
        self,
        items: Sequence[Item],
        inputs: Mapping[tuple[str, str], Any],
        config: RenderConfig,
        seeds: Mapping[str, int],
    ) -> list[Outcome]:
        backend = load_backend(config.backend)
        batch = 1
        if isinstance(backend, BatchBackend):
            normals = config.sensor.enabled or config.normals
            backend.configure(normals=normals, sub_scenes=config.sub_scenes)
            batch = backend.batch
        outcomes: list[Outcome] = []
        scene: Scene | None = None
        assets: list[ObjectAsset] = []
        prepared: Any = None
        for start in range(0, len(items), batch):
            views: list[_View] = []
            for item in items[start : start + batch]:
                wanted: Scene = inputs[item.inputs[0]]
                if scene is not wanted:
                    scene = wanted
                    assets = [inputs["assets", oid] for oid in scene.object_ids]
                    prepared = backend.prepare(scene, assets)
                middles = bounding_middles(backend.hulls(prepared))
                camera = item_camera(item, config.camera, scene, seeds[item.id], middles)
                views.append((item, scene, assets, prepared, camera))
            if isinstance(backend, BatchBackend):
                backend.announce(
                    [(view[3], eye) for view in views for eye in eyes(view[4], config.sensor)]
                )
            outcomes += [_outcome(backend, view, config, seeds[view[0].id]) for view in views]
        return outcomes


_View = tuple[Item, Scene, list[ObjectAsset], Any, Camera]  # with what the backend prepared


def _outcome(backend: RenderBackend, view: _View, config: RenderConfig, seed: int) -> Outcome:
    item, scene, assets, prepared, camera = view
    number = int(item.params["view"])
    cloud = render_view(backend, prepared, scene, number, camera, config, seed, assets)
    if len(cloud.points):
        return Outcome(id=item.id, record=cloud)
    message = "no point survived the crop: the camera sees none of its segments"
    return Outcome(id=item.id, code=EMPTY, message=message)


def item_camera(
    item: Item,
    config: CameraConfig,
    scene: Scene,
    seed: int,
    middles: NDArray[np.float64] | None = None,
) -> Camera:
    """The camera of an item: its row of the file of poses, or one drawn by `seed`."""
    if "T_world_cam" in item.params:
        T_world_cam = np.asarray(item.params["T_world_cam"], np.float64)
        return Camera(intrinsics=config.intrinsics, T_world_cam=T_world_cam)
    return sample_camera(config, scene, int(item.params["view"]), seed, middles)


def render_view(
    backend: RenderBackend,
    prepared: Any,
    scene: Scene,
    view: int,
    camera: Camera,
    config: RenderConfig,
    seed: int,
    assets: Sequence[ObjectAsset] = (),
) -> Cloud:
    """The rays that can survive, what the sensor makes of them, then the crop.

    `assets` are needed for colours only.
    """
    hulls, reach = backend.hulls(prepared), config.sensor.reach
    pixels = surviving_pixels(scene, hulls, camera, config.crop, reach)
    hits = observe(backend, prepared, camera, pixels, config.sensor, seed)
    cropped = crop_pixels(
        hits.pixel,
        hits.z,
        camera.intrinsics,
        config.crop,
        seed=seed,
        segment=hits.segment,
        segment_table=scene.segment_table,
        T_world_cam=camera.T_world_cam,
        table_pose=scene.table_pose,
    )
    return Cloud(
        scene_id=scene.scene_id,
        view=view,
        frame=config.crop.frame,
        points=cropped.points,
        segment=cropped.segment,
        valid_count=cropped.valid_count,
        intrinsics=camera.intrinsics.to_array(),
        T_world_cam=camera.T_world_cam,
        distortion=camera.intrinsics.distortion.to_array(),
        depth_step=backend.depth_step,
        **surface_fields(hits, cropped.pixel, camera, config, assets),
    )
