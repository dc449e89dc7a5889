"""Cropped clouds per second against other renderers, in one run on the same scenes.

    python -m benchmarks.bench_render [--views 8] [--sizes 640x480] [--json FILE]

Six YCB scans on a table, and a clutter of 20. Each method gives the cropped cloud of a view, for
the crop to all objects and to one object:

- ours: rays that can survive the crop, then the crop (`stages.render.stage.render_view`);
- limit: Embree on exactly the rays that survive, nothing else;
- full cast: Embree on all rays, then the crop;
- open3d: its raycaster on all rays, then a mask;
- sapien: its rasteriser on software Vulkan, position and segmentation pictures, then a mask;
- tiny: PyBullet's TinyRenderer, depth and segmentation pictures, then a mask.

Methods whose package or driver is missing are left out with a line that says so.
"""

import gc
import io
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from schemas.camera import Camera, Intrinsics
from schemas.frames import look_at, pose_to_matrix, transform_points
from schemas.records import FIRST_OBJECT, TABLE, ObjectAsset, Scene, encode
from stages.assets.load import load_mesh
from stages.assets.repair import repair
from stages.assets.sources import find_ycb
from stages.contract import Item
from stages.crop import CropSpec, crop_pixels, kept_segments, pixel_slopes
from stages.render.backends.embree import EmbreeBackend, table_mesh
from stages.render.config import CameraConfig, RenderConfig
from stages.render.cull import surviving_pixels
from stages.render.stage import RenderStage, item_camera, render_view

SIX = ("003_cracker_box", "004_sugar_box", "006_mustard_bottle", "011_banana", "025_mug",
       "024_bowl")  # fmt: skip
SIZES = {
    "128x128": Intrinsics(fx=150.0, fy=150.0, cx=64.0, cy=64.0, width=128, height=128),
    "640x480": Intrinsics(fx=615.0, fy=615.0, cx=320.0, cy=240.0, width=640, height=480),
    "1280x720": Intrinsics(fx=920.0, fy=920.0, cx=640.0, cy=360.0, width=1280, height=720),
}
Cut = Callable[[Camera, CropSpec], int]  # the number of points of the cropped cloud


def ycb_assets(names: tuple[str, ...]) -> list[ObjectAsset]:
    """Meshes alone, without convex pieces: the renderer needs no more."""
    empty = np.zeros((0, 3))
    out: list[ObjectAsset] = []
    for name in names:
        (source,) = find_ycb(name)
        mesh = repair(load_mesh(source.path.read_bytes(), source.path.suffix))
        out.append(
            ObjectAsset(
                object_id=name,
                source=source.uri,
                licence=source.licence,
                sha256=source.sha256(),
                scale=1.0,
                vertices=mesh.vertices.astype(np.float32),
                faces=mesh.faces.astype(np.int32),
                piece_vertices=empty.astype(np.float32),
                piece_faces=empty.astype(np.int32),
                piece_vertex_offsets=np.zeros(1, np.int64),
                piece_face_offsets=np.zeros(1, np.int64),
                volume=1.0,
                density=1.0,
                mass=1.0,
                center_of_mass=np.zeros(3),
                inertia=np.eye(3),
                stable_poses=np.zeros((0, 7)),
                stable_probabilities=np.zeros(0),
                notes="",
            )
        )
    return out


def make_scene(assets: list[ObjectAsset], spread: float, seed: int) -> Scene:
    """Objects on a table, or above one another where they are many, turned about z."""
    rng = np.random.default_rng(seed)
    columns = int(np.ceil(np.sqrt(len(assets))))
    poses: list[NDArray[np.float64]] = []
    for i, asset in enumerate(assets):
        yaw = rng.uniform(0, 2 * np.pi)
        q = np.array([np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)])
        R = pose_to_matrix([0, 0, 0, *q])[:3, :3]
        low, high = asset.vertices.min(0), asset.vertices.max(0)
        middle = R @ ((low + high) / 2)
        cell = (np.array([i % columns, i // columns]) - (columns - 1) / 2) * spread
        poses.append(np.array([*(cell - middle[:2]), -low[2], *q]))
    count = len(assets)
    return Scene(
        scene_id="bench", kind="clutter", split="train",
        object_ids=tuple(a.object_id for a in assets), object_poses=np.array(poses),
        object_scales=np.ones(count), object_masses=np.ones(count),
        table_pose=np.array([0, 0, 0, 1, 0, 0, 0], float), table_size=np.array([1.0, 1.0]),
        settle_time=0.0,
    )  # fmt: skip


def cameras(K: Intrinsics, count: int) -> list[Camera]:
    """A ring at 0.7 m and 45 degrees."""
    out: list[Camera] = []
    for i in range(count):
        angle = 2 * np.pi * i / count
        eye = [0.5 * np.cos(angle), 0.5 * np.sin(angle), 0.55]
        out.append(Camera(intrinsics=K, T_world_cam=look_at(eye, [0, 0, 0.05])))
    return out


def embree_methods(scene: Scene, assets: list[ObjectAsset]) -> dict[str, Cut]:
    backend = EmbreeBackend()
    prepared = backend.prepare(scene, assets)
    survivors: dict[tuple[bytes, int, str], NDArray[np.int64]] = {}

    def ours(camera: Camera, spec: CropSpec) -> int:
        config = RenderConfig(crop=spec)
        return len(render_view(backend, prepared, scene, 0, camera, config, 0).points)

    def full(camera: Camera, spec: CropSpec) -> int:
        hits = backend.render(prepared, camera)
        cropped = crop_pixels(
            hits.pixel, hits.z, camera.intrinsics, spec, seed=0, segment=hits.segment,
            segment_table=scene.segment_table, T_world_cam=camera.T_world_cam,
            table_pose=scene.table_pose,
        )  # fmt: skip
        return len(cropped.points)

    def limit(camera: Camera, spec: CropSpec) -> int:
        key = (camera.T_world_cam.tobytes(), camera.intrinsics.width, spec.digest())
        if key not in survivors:  # found once, in the round that is not timed
            hits = backend.render(prepared, camera)
            kept = np.isin(hits.segment, kept_segments(spec, scene.segment_table))
            survivors[key] = hits.pixel[kept]
        return len(backend.render(prepared, camera, survivors[key]).pixel)

    return {"ours": ours, "limit": limit, "full cast": full}


def open3d_methods(scene: Scene, assets: list[ObjectAsset]) -> dict[str, Cut]:
    import open3d as o3d

    caster = o3d.t.geometry.RaycastingScene(nthreads=1)
    segment_of: list[int] = []
    for segment, vertices, faces in _world_meshes(scene, assets):
        caster.add_triangles(o3d.core.Tensor(vertices), o3d.core.Tensor(faces.astype(np.uint32)))
        segment_of.append(segment)
    lookup = np.array([*segment_of, 0], np.uint16)

    def cut(camera: Camera, spec: CropSpec) -> int:
        K = camera.intrinsics
        rays = caster.create_rays_pinhole(
            o3d.core.Tensor(np.array([[K.fx, 0, K.cx], [0, K.fy, K.cy], [0, 0, 1.0]])),
            o3d.core.Tensor(np.linalg.inv(camera.T_world_cam)), K.width, K.height,
        )  # fmt: skip
        found = caster.cast_rays(rays)
        ids = found["geometry_ids"].numpy()
        segment = lookup[np.minimum(ids, len(segment_of))]
        kept = np.isin(segment, kept_segments(spec, scene.segment_table))
        directions, t = rays.numpy()[kept][:, 3:], found["t_hit"].numpy()[kept]
        R = camera.T_world_cam[:3, :3].astype(np.float32)
        return len((directions * t[:, None]) @ R)

    return {"open3d": cut}


def tiny_methods(scene: Scene, assets: list[ObjectAsset]) -> dict[str, Cut]:
    import pybullet as p

    if not p.isConnected():
        p.connect(p.DIRECT)
    p.resetSimulation()
    segment_of = {-1: 0}
    for segment, vertices, faces in _world_meshes(scene, assets):
        shape = p.createVisualShape(
            p.GEOM_MESH, vertices=vertices.tolist(), indices=faces.ravel().tolist()
        )
        segment_of[p.createMultiBody(baseVisualShapeIndex=shape)] = segment
    lookup = np.array([segment_of[i] for i in range(-1, max(segment_of) + 1)], np.uint16)
    near, far = 0.05, 3.0

    def cut(camera: Camera, spec: CropSpec) -> int:
        K, T = camera.intrinsics, camera.T_world_cam
        view = np.diag([1.0, -1, -1, 1]) @ np.linalg.inv(T)
        projection = np.zeros((4, 4))
        projection[0, 0], projection[1, 1] = 2 * K.fx / K.width, 2 * K.fy / K.height
        projection[0, 2], projection[1, 2] = 1 - 2 * K.cx / K.width, 2 * K.cy / K.height - 1
        projection[2, 2:] = -(far + near) / (far - near), -2 * far * near / (far - near)
        projection[3, 2] = -1
        _, _, _, depth, ids = p.getCameraImage(
            K.width, K.height, view.T.ravel().tolist(), projection.T.ravel().tolist(),
            renderer=p.ER_TINY_RENDERER, flags=p.ER_SEGMENTATION_MASK_OBJECT_AND_LINKINDEX,
        )  # fmt: skip
        ids = np.reshape(ids, -1)
        body = np.where(ids < 0, -1, ids & ((1 << 24) - 1))
        z = far * near / (far - (far - near) * np.reshape(depth, -1))
        return _back_project(z, lookup[body + 1], camera, spec, scene)

    return {"tiny": cut}


def sapien_methods(scene: Scene, assets: list[ObjectAsset]) -> dict[str, Cut]:
    import sapien
    import trimesh

    # on the CPU, whatever GPU there is: this compares what a machine without one can do
    systems = [sapien.physx.PhysxCpuSystem(), sapien.render.RenderSystem("cpu")]
    world = sapien.Scene(systems)
    world.set_ambient_light([1, 1, 1])
    folder = Path("/tmp") / f"bench_render_{id(scene)}"
    folder.mkdir()
    segment_of: dict[int, int] = {0: 0}
    for segment, vertices, faces in _world_meshes(scene, assets):
        path = folder / f"{segment}.obj"
        trimesh.Trimesh(vertices, faces, process=False).export(path)
        builder = world.create_actor_builder()
        builder.add_visual_from_file(str(path))
        entity = builder.build_static(name=str(segment))
        segment_of[entity.per_scene_id] = segment
    lookup = np.zeros(max(segment_of) + 1, np.uint16)
    lookup[list(segment_of)] = list(segment_of.values())
    eyes: dict[Intrinsics, Any] = {}

    def cut(camera: Camera, spec: CropSpec) -> int:
        K = camera.intrinsics
        if K not in eyes:
            eye = sapien.render.RenderCameraComponent(K.width, K.height)
            eye.set_perspective_parameters(0.05, 3.0, K.fx, K.fy, K.cx, K.cy, 0.0)
            entity = sapien.Entity()
            entity.add_component(eye)
            world.add_entity(entity)
            eyes[K] = eye
        # SAPIEN's cameras look along +x with z up
        T = camera.T_world_cam.copy()
        T[:3, :3] = T[:3, :3] @ np.array([[0, -1, 0], [0, 0, -1], [1, 0, 0]], float)
        eyes[K].entity.set_pose(sapien.Pose(T))
        world.update_render()
        eyes[K].take_picture()
        z = -eyes[K].get_picture("Position")[..., 2].reshape(-1)
        ids = eyes[K].get_picture("Segmentation")[..., 1].reshape(-1)
        return _back_project(z, lookup[ids], camera, spec, scene)

    return {"sapien": cut}


def _world_meshes(
    scene: Scene, assets: list[ObjectAsset]
) -> list[tuple[int, NDArray[np.float32], NDArray[np.int32]]]:
    """(segment, vertices, faces) of the table and of every object, world frame."""
    out = [(TABLE, *table_mesh(scene))]
    for i, (asset, pose) in enumerate(zip(assets, scene.object_poses, strict=True)):
        vertices = transform_points(pose_to_matrix(pose), asset.vertices).astype(np.float32)
        out.append((FIRST_OBJECT + i, vertices, np.ascontiguousarray(asset.faces)))
    return out


def _back_project(
    z: NDArray[Any], segment: NDArray[np.uint16], camera: Camera, spec: CropSpec, scene: Scene
) -> int:
    """What has to be done with pictures: mask, then points."""
    kept = np.flatnonzero(np.isin(segment, kept_segments(spec, scene.segment_table)))
    x, y = pixel_slopes(camera.intrinsics)
    row, column = np.divmod(kept, camera.intrinsics.width)
    depth = z[kept].astype(np.float32)
    return len(np.stack([x[column] * depth, y[row] * depth, depth], axis=1))


METHODS = (embree_methods, open3d_methods, sapien_methods, tiny_methods)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Medians over views and rounds."""

    wall_ms: float
    cpu_ms: float  # of all threads: the currency where every core has a worker
    points: float  # a view


def measure(cut: Cut, views: list[Camera], spec: CropSpec, rounds: int) -> Timing:
    """The first round warms up."""
    points = sum(cut(camera, spec) for camera in views) / len(views)
    wall: list[float] = []
    cpu: list[float] = []
    for _ in range(rounds):
        for camera in views:
            start, used = time.perf_counter(), time.process_time()
            cut(camera, spec)
            wall.append(time.perf_counter() - start)
            cpu.append(time.process_time() - used)
    return Timing(
        wall_ms=statistics.median(wall) * 1e3, cpu_ms=statistics.median(cpu) * 1e3, points=points
    )


def measure_stage(scene: Scene, assets: list[ObjectAsset], K: Intrinsics, pairs: int) -> None:
    """Pairs a second of the whole stage, its record written, and the memory of the process."""
    import psutil

    stage = RenderStage()
    camera = CameraConfig(
        preset="", fx=K.fx, fy=K.fy, cx=K.cx, cy=K.cy, width=K.width, height=K.height
    )
    config = RenderConfig(views=pairs, camera=camera)
    scene_item = Item(id="bench", inputs=tuple(("assets", a.object_id) for a in assets))
    inputs: dict[tuple[str, str], Any] = {("scene", "bench"): scene}
    inputs |= {("assets", asset.object_id): asset for asset in assets}
    items = stage.plan(config, {"scene": [scene_item]})
    seeds = {item.id: i for i, item in enumerate(items)}
    backend = EmbreeBackend()
    prepared = backend.prepare(scene, assets)
    process, memory = psutil.Process(), []
    rendering = writing = 0.0
    for first in range(0, len(items), 16):
        block = items[first : first + 16]
        start = time.process_time()
        outcomes = stage.run(block, inputs, config, seeds)
        for outcome in outcomes:
            np.savez(io.BytesIO(), **encode(outcome.record))  # type: ignore[arg-type]
        writing += time.process_time() - start
        start = time.process_time()
        for item in block:
            eye = item_camera(item, camera, scene, seeds[item.id])
            backend.render(prepared, eye, surviving_pixels(scene, prepared.hulls, eye, config.crop))
        rendering += time.process_time() - start
        memory.append(process.memory_info().rss / 2**20)
    click.echo(
        f"  {len(items) / writing:.1f} pairs/s of a core, written as a block; "
        f"{rendering / writing:.2f} of the renderer's own speed; "
        f"memory {memory[0]:.0f} MiB after 16 pairs, {memory[len(memory) // 2]:.0f} half way, "
        f"{memory[-1]:.0f} at the end"
    )


@click.command()
@click.option(
    "--views", default=8, show_default=True, help="Cameras on the ring; 0 for the stage alone."
)
@click.option("--rounds", default=3, show_default=True)
@click.option("--sizes", default=",".join(SIZES), show_default=True)
@click.option("--pairs", default=0, show_default=True, help="Measure the stage on so many too.")
@click.option("--json", "target", type=click.Path(path_type=Path), help="Write the numbers too.")
def main(views: int, rounds: int, sizes: str, pairs: int, target: Path | None) -> None:
    """Measure on this machine; run it on an idle one."""
    rows: list[dict[str, Any]] = []
    twenty = [source.object_id for source in find_ycb("0*")][:20]
    for label, names, spread in (("six", SIX, 0.16), ("clutter of 20", tuple(twenty), 0.11)):
        assets = ycb_assets(names)
        scene = make_scene(assets, spread, seed=1)
        for size in sizes.split(",") if pairs else ():  # before the others fill the memory
            click.echo(f"{label}, {size}, the stage")
            measure_stage(scene, assets, SIZES[size], pairs)
        methods: dict[str, Cut] = {}
        for make in METHODS if views else ():
            try:
                methods |= make(scene, assets)
            except Exception as error:  # a missing package or driver, said and left out
                click.echo(f"left out: {make.__name__}: {type(error).__name__}: {error}")
        for size in sizes.split(",") if views else ():
            ring = cameras(SIZES[size], views)
            for crop, pattern in (("all objects", "object:*"), ("one object", "object:0")):
                spec = CropSpec(extract_segments=(pattern,))
                gc.collect()
                result = {n: measure(cut, ring, spec, rounds) for n, cut in methods.items()}
                own = result["ours"]
                click.echo(f"{label}, {size}, {crop}: {own.points:.0f} points a view")
                for name, t in result.items():
                    click.echo(
                        f"  {name:<10} {t.wall_ms:8.2f} ms {t.cpu_ms:8.2f} core-ms  "
                        f"{1e3 / t.wall_ms:7.1f} views/s  {t.points / t.wall_ms / 1e3:6.2f} "
                        f"Mpoints/s  {t.wall_ms / own.wall_ms:6.2f} x ours, "
                        f"{t.cpu_ms / own.cpu_ms:6.2f} x in core time  "
                        f"{t.points - own.points:+.0f} points"
                    )
                    rows.append({"scene": label, "size": size, "crop": crop, "method": name}
                                | asdict(t))  # fmt: skip
    if target is not None:
        target.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
