"""A digital twin of a real workplace, drawn beside its photograph.

    python examples/05_build_twin.py CAPTURE OBJECT [--convention FILE] [--out DIR]

OBJECT is what stands on the table, ycb://006_mustard_bottle for example.

1. The table in the capture's depth makes the world; the object is found on it and registered.
2. The twin: ManiSkill with the same K and camera pose, the object where it was registered, and a
   second one behind it. The photograph and its depth are the background.
3. Pictures: photograph; outline of the simulated object on it; the object replaced by the simulated
   one; the simulated can, partly hidden by the real bottle.

Needs the `generate` extra, and Vulkan, in software at least.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import sapien
from mani_skill.envs.sapien_env import BaseEnv
from mani_skill.sensors.camera import CameraConfig
from mani_skill.utils.structs.pose import Pose
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pipeline.captures import read_mesh  # noqa: E402
from schemas.frames import matrix_to_pose  # noqa: E402
from stages.assets.sources import expand  # noqa: E402
from stages.crop import CropSpec  # noqa: E402
from stages.envs.maniskill.greenscreen import Greenscreen  # noqa: E402
from stages.render.register import register  # noqa: E402
from stages.robot import Frame, open_source  # noqa: E402
from stages.robot.segments import OnTheTable, segmented  # noqa: E402
from stages.robot.table import calibrate_table  # noqa: E402
from stages.robot.twin import Overlay, outlined, overlap  # noqa: E402

SECOND = "ycb://005_tomato_soup_can"
YELLOW, RED = (0.85, 0.65, 0.05), (0.75, 0.08, 0.08)
# Columns: SAPIEN's forward, left, up in the axes of an OpenCV camera.
CV_SAPIEN = np.array([[0.0, -1, 0, 0], [0, 0, -1, 0], [1, 0, 0, 0], [0, 0, 0, 1]])


class Workplace(BaseEnv):
    """Meshes that stand where they are told, and the real camera."""

    def __init__(self, *args: Any, things: dict[str, Any], frame: Frame, **kwargs: Any) -> None:
        self._things, self._frame = things, frame
        super().__init__(*args, robot_uids="none", **kwargs)

    @property
    def _default_sensor_configs(self) -> list[CameraConfig]:
        K, T = self._frame.intrinsics, self._frame.T_world_cam
        pose = matrix_to_pose(T @ CV_SAPIEN)
        return [
            CameraConfig(
                "camera", pose=sapien.Pose(pose[:3], pose[3:]), width=K.width, height=K.height,
                intrinsic=K.K, near=0.01, far=10.0,
            )
        ]  # fmt: skip

    def _load_scene(self, options: dict[str, Any]) -> None:
        for name, (path, colour, T_world_object) in self._things.items():
            builder = self.scene.create_actor_builder()
            material = sapien.render.RenderMaterial()
            material.base_color, material.roughness = [*colour, 1.0], 0.6
            builder.add_visual_from_file(str(path), material=material)
            pose = matrix_to_pose(T_world_object)
            builder.initial_pose = Pose.create_from_pq(pose[:3], pose[3:])
            builder.build_kinematic(name=name)

    def _load_lighting(self, options: dict[str, Any]) -> None:
        self.scene.set_ambient_light([0.4, 0.4, 0.4])
        self.scene.add_directional_light([0.2, 0.4, -1.0], [0.8, 0.8, 0.8])

    def _get_obs_agent(self) -> dict[str, Any]:
        return {}

    def get_state_dict(self) -> dict[str, Any]:
        return self.scene.get_sim_state()

    def evaluate(self) -> dict[str, Any]:
        return {}


class Twin(Greenscreen, Workplace):
    """The workplace before a photograph."""


def mesh_file(entry: str) -> Path:
    return expand([entry], Path("."), "")[0].path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("capture", type=Path)
    parser.add_argument("object", help="ycb://NAME or a mesh file, metres")
    parser.add_argument("--convention", type=Path)
    parser.add_argument("--out", type=Path, default=Path("twin"))
    args = parser.parse_args()

    frame = open_source(args.capture, args.convention).read()
    table = calibrate_table(frame)
    frame = replace(frame, T_world_cam=table.T_world_cam, segment=None, segment_table=None)
    frame = segmented(frame, OnTheTable(table_pose=tuple(table.table_pose)))
    cloud = frame.crop(CropSpec(extract_segments=("object:0",))).points
    _, mesh = read_mesh(args.object)
    found = register(cloud.astype(np.float64), *mesh)
    T_world_object = table.T_world_cam @ found.T_cam_object
    print(f"registered: median distance {1000 * found.median:.2f} mm to {len(cloud)} points")

    # a can stands on the table behind the object, as the camera looks
    away = T_world_object[:3, 3] - table.T_world_cam[:3, 3]
    away[2] = 0
    can = np.eye(4)
    vertices, _ = read_mesh(SECOND)[1]
    middle = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    aside = np.array([away[1], -away[0], 0]) / np.linalg.norm(away)
    can[:3, 3] = T_world_object[:3, 3] + 0.09 * away / np.linalg.norm(away) + 0.07 * aside
    can[:2, 3] -= middle[:2]
    can[2, 3] = -vertices[:, 2].min()
    things = {
        "object": (mesh_file(args.object), YELLOW, T_world_object),
        "can": (mesh_file(SECOND), RED, can),
    }

    real = frame.segment == frame.segment_table["object:0"]
    photo = Overlay.of_frame(frame)
    without = replace(photo, depth=np.where(real, np.nan, frame.depth))  # its depth is replaced
    pictures: dict[str, Any] = {}
    for name, overlay, keep in (
        ("replaced", without, ["object"]),
        ("behind", photo, ["can"]),
    ):
        env = Twin(
            things=things, frame=frame, overlays={"camera": overlay}, keep=keep, num_envs=1,
            obs_mode="rgb+depth+segmentation", sim_backend="cpu", render_backend="cpu",
        )  # fmt: skip
        obs, _ = env.reset(seed=0)
        pictures[name] = {k: v[0].numpy() for k, v in obs["sensor_data"]["camera"].items()}
        env.close()
    bare = Workplace(
        things={"object": things["object"]}, frame=frame, num_envs=1,
        obs_mode="rgb+depth+segmentation", sim_backend="cpu", render_backend="cpu",
    )  # fmt: skip
    obs, _ = bare.reset(seed=0)
    data = {k: v[0].numpy() for k, v in obs["sensor_data"]["camera"].items()}
    bare.close()
    silhouette = data["depth"][..., 0] > 0

    off = data["depth"][..., 0] / 1000 - frame.depth
    both = silhouette & real & np.isfinite(frame.depth)
    print(
        f"silhouettes overlap by {overlap(silhouette, real):.1%}; simulated and real depth differ "
        f"by {1000 * np.median(np.abs(off[both])):.1f} mm (median of {both.sum()} pixels)"
    )
    shown = [
        frame.colour,
        outlined(frame.colour, silhouette),
        pictures["replaced"]["rgb"],
        pictures["behind"]["rgb"],
    ]
    place = window(silhouette)
    a, b, c, d = (picture[place] for picture in shown)
    sheet = Image.fromarray(np.concatenate([np.hstack([a, b]), np.hstack([c, d])]))
    args.out.mkdir(parents=True, exist_ok=True)
    sheet.quantize(96, dither=Image.Dither.NONE).save(args.out / "twin.png", optimize=True)
    print(f"{args.out / 'twin.png'}: photograph, outline, object replaced, can behind the object")


def window(mask: np.ndarray) -> tuple[slice, slice]:
    """A part of the image, 4 to 3, with some room around the mask."""
    rows, columns = np.nonzero(mask)
    height = min(mask.shape[0], int(1.4 * np.ptp(rows)))
    width = min(mask.shape[1], height * 4 // 3)
    row = int(np.clip(rows.mean() - height / 2, 0, mask.shape[0] - height))
    column = int(np.clip(columns.mean() - width / 2, 0, mask.shape[1] - width))
    return slice(row, row + height), slice(column, column + width)


if __name__ == "__main__":
    main()
