"""The crop on real captures: against published clouds, scans and poses, and by every way in."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.io import loadmat
from scipy.spatial import cKDTree

from pipeline.captures import read_mesh
from pipeline.cli import main
from schemas.camera import Camera
from schemas.frames import invert, transform_points
from schemas.pickled import read_pickled
from schemas.records import FIRST_OBJECT, Scene
from stages.crop import CropSpec
from stages.envs.base import build_env
from stages.envs.config import EnvConfig
from stages.envs.real.config import RealEnvConfig
from stages.envs.real.env import RealEnv
from stages.render.backends.protocol import Hits
from stages.render.config import RenderConfig
from stages.render.register import _surface, register
from stages.render.stage import render_view
from stages.robot import Frame, open_source
from stages.robot.segments import EVERY_OBJECT, OnTheTable, segmented
from stages.robot.sources.clouds import read_cloud
from stages.robot.sources.recording import frame_arrays
from stages.robot.table import calibrate_table
from tests.captures import ALL, needs_captures

pytestmark = needs_captures
OBJECTS = CropSpec(extract_segments=("object:*",))
SCANS = {"mustard": "006_mustard_bottle", "sugar": "004_sugar_box", "cheezit": "003_cracker_box"}


def on_table(name: str) -> Frame:
    """A capture with the objects that stand on its table, whatever it came with."""
    frame = open_source(*ALL[name]).read()
    bare = replace(frame, segment=None, segment_table=None)
    return segmented(bare, OnTheTable())


@pytest.mark.parametrize("name", [n for n, (p, _) in ALL.items() if p.suffix == ".npy"])
def test_the_cropped_object_is_the_published_cloud(name: str) -> None:
    """Found on the table, without a look at the published points, and there within 0.3 mm, where
    K with its pixel centres half a pixel off would be 0.4 mm away."""
    published = np.asarray(read_pickled(ALL[name][0], "latin1")["smoothed_object_pc"])
    frame = segmented(replace(open_source(*ALL[name]).read(), segment=None, segment_table=None),
                      OnTheTable())  # fmt: skip
    cloud = frame.crop(CropSpec(extract_segments=("object:0",))).points
    there = cKDTree(cloud).query(published)[0]
    back = cKDTree(published).query(cloud)[0]
    assert np.median(there) < 0.0003
    assert np.median(back) < 0.0003


@pytest.mark.slow
@pytest.mark.parametrize("name", SCANS)
def test_the_cropped_object_is_the_scan(name: str) -> None:
    cloud = open_source(*ALL[name]).read().crop(OBJECTS).points
    _, mesh = read_mesh(f"ycb://{SCANS[name]}")
    found = register(cloud.astype(np.float64), *mesh)
    # distances to points of the scan's surface, measured here again
    surface, _ = _surface(np.asarray(mesh[0]), mesh[1], 60000, np.random.default_rng(1))
    local = transform_points(invert(found.T_cam_object), cloud)
    assert np.median(cKDTree(surface).query(local)[0]) < 0.002
    assert found.median < 0.001


def test_the_nine_posed_objects_lie_on_the_cloud() -> None:
    """GraspNet's poses have their origin inside each object; two of the objects are YCB's."""
    where, _ = ALL["graspnet"]
    frame = open_source(*ALL["graspnet"]).read()
    meta = loadmat(where / "meta.mat")
    poses = meta["poses"].transpose(2, 0, 1).astype(np.float64)
    ids = meta["cls_indexes"].ravel().tolist()
    assert len(poses) == 9
    K, fit = frame.intrinsics, calibrate_table(frame)
    cloud = frame.crop(CropSpec(extract_segments=())).points
    tree = cKDTree(cloud)
    origins = poses[:, :, 3]
    assert (tree.query(origins)[0] < 0.03).all()
    heights = transform_points(fit.T_world_cam, origins)[:, 2]
    assert ((heights > 0.005) & (heights < 0.11)).all()  # over the table, no higher than objects
    # half the height of what stands there, by the cloud itself
    tops = [np.quantile(transform_points(fit.T_world_cam, cloud[tree.query_ball_point(o, 0.04)])
                        [:, 2], 0.98) for o in origins]  # fmt: skip
    assert (heights < np.array(tops)).all()
    for number, name in ((1, "003_cracker_box"), (3, "005_tomato_soup_can")):
        _, (vertices, faces) = read_mesh(f"ycb://{name}")
        pose = poses[ids.index(number)]
        middle = (vertices.max(axis=0) + vertices.min(axis=0)) / 2
        surface, normal = _surface(vertices - middle, faces, 20000, np.random.default_rng(0))
        at, n = surface @ pose[:, :3].T + pose[:, 3], normal @ pose[:, :3].T
        facing = -(at * n).sum(axis=1) / np.linalg.norm(at, axis=1) > 0.5
        pixel = np.floor(K.project(at[facing])).astype(int)
        off = frame.depth[pixel[:, 1], pixel[:, 0]] - at[facing, 2]
        # their models are of their own copies, whose sides differ by millimetres from YCB's
        assert np.nanmedian(np.abs(off)) < 0.01, name


class FrameBackend:
    """A render backend whose rays end where a real camera measured."""

    depth_step = 0.0

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    def prepare(self, scene: Scene, assets: Any) -> None: ...

    def hulls(self, prepared: Any) -> list[np.ndarray]:
        table = self.frame.segment_table or {}
        return [
            transform_points(
                self.frame.T_world_cam,
                self.frame.crop(CropSpec(extract_segments=(name,))).points,
            )
            for name, i in table.items()
            if i >= FIRST_OBJECT
        ]

    def render(self, prepared: Any, camera: Camera, pixels: np.ndarray | None = None) -> Hits:
        pixel = np.arange(self.frame.depth.size) if pixels is None else pixels
        return Hits(
            pixel=pixel,
            z=self.frame.depth.reshape(-1)[pixel],
            segment=self.frame.segment.reshape(-1)[pixel].astype(np.uint16),
        )


def rendered(frame: Frame, spec: CropSpec, table_pose: np.ndarray, seed: int) -> np.ndarray:
    """The renderer's own path, culling of rays included, fed with the frame's depth."""
    count = len(frame.segment_table) - 2
    scene = Scene(
        scene_id="real", kind="clutter", split="test",
        object_ids=tuple(f"o{i}" for i in range(count)),
        object_poses=np.tile([0, 0, 0, 1.0, 0, 0, 0], (count, 1)), object_scales=np.ones(count),
        object_masses=np.ones(count), settle_time=0.0, table_pose=table_pose,
        table_size=np.ones(2),
    )  # fmt: skip
    assert scene.segment_table == frame.segment_table
    camera = Camera(intrinsics=frame.intrinsics, T_world_cam=frame.T_world_cam)
    backend: Any = FrameBackend(frame)
    config = RenderConfig(crop=spec)
    return render_view(backend, None, scene, 0, camera, config, seed).points


@pytest.mark.parametrize("name", ALL)
def test_every_way_in_gives_the_same_points(name: str, tmp_path: Path) -> None:
    """The command, RealEnv.get_pointcloud, and the renderer fed with that depth: equal bits."""
    where, convention = ALL[name]
    if name == "krylon":  # an object alone, without a table
        frame = open_source(where, convention).read()
        spec = CropSpec(extract_segments=(), sampling="random", num_points=2048)
        frame = replace(frame, T_world_cam=np.eye(4))
        fit_pose, segmenter, table = np.array([0, 0, 0, 1.0, 0, 0, 0]), None, None
    else:
        frame = on_table(name)
        fit = calibrate_table(frame)
        frame = replace(frame, T_world_cam=fit.T_world_cam)
        fit_pose, segmenter = fit.table_pose, OnTheTable()
        table = fit
        spec = CropSpec(
            extract_segments=(EVERY_OBJECT,), sampling="random", num_points=2048, frame="world",
            box_min=(-0.5, -0.5, -0.01), box_max=(0.5, 0.5, 0.5), min_depth=0.2,
        )  # fmt: skip
    # 1: the command, from a recording of the frame
    np.savez(tmp_path / "frame.npz", **frame_arrays(frame))
    (tmp_path / "crop.json").write_text(json.dumps(spec.to_dict()))
    args = ["crop", str(tmp_path / "frame.npz"), "--crop-spec", str(tmp_path / "crop.json"),
            "--seed", "7", "--out", str(tmp_path / "cloud.ply")]  # fmt: skip
    if table is not None:
        from stages.robot.deploy import table_dict

        (tmp_path / "table.json").write_text(json.dumps(table_dict(table)))
        args += ["--table", str(tmp_path / "table.json")]
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 0, done.output
    from_command = read_cloud(tmp_path / "cloud.ply").points.astype(np.float32)
    # 2: RealEnv, on the capture's own files
    with build_env(
        EnvConfig(
            real_env_config=RealEnvConfig(
                camera=str(where), convention=str(convention), crop=spec,
                table=str(tmp_path / "table.json") if table is not None else "",
                max_frame_age=float("inf"),
            )
        )
    ) as env:  # fmt: skip
        assert isinstance(env, RealEnv)
        if segmenter is not None:
            env.crop = replace(env.crop, segmenter=lambda f: (frame.segment, frame.segment_table))
        [cloud] = env.get_pointcloud(seed=7)
    np.testing.assert_array_equal(cloud.points, from_command)
    assert len(cloud.points) == min(2048, cloud.valid_count) > 500
    # 3: the renderer
    if segmenter is not None:
        np.testing.assert_array_equal(rendered(frame, spec, fit_pose, 7), cloud.points)


def test_the_command_on_the_files_as_they_were_published(tmp_path: Path) -> None:
    spec = CropSpec(extract_segments=("object:*",), remove_segments=("table",))
    (tmp_path / "crop.json").write_text(json.dumps(spec.to_dict()))
    for name, count in (("m2t2_00", 12), ("mustard", 1)):
        where, convention = ALL[name]
        done = CliRunner().invoke(
            main,
            ["crop", str(where), "--convention", str(convention), "--crop-spec",
             str(tmp_path / "crop.json"), "--out", str(tmp_path / f"{name}.ply")],
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        frame = open_source(where, convention).read()
        expected = frame.crop(spec)
        assert len(np.unique(expected.segment)) == count
        points = read_cloud(tmp_path / f"{name}.ply").points
        np.testing.assert_array_equal(points.astype(np.float32), expected.points)
        assert re.search(rf"{len(points)} points in the camera frame", done.output)
