"""A blade that pushes grains and a bucket that digs in them, seen by two depth cameras.

    python examples/08_tools_in_grains.py bulldoze [folder] [number of grains]
    python examples/08_tools_in_grains.py dig [folder] [number of grains]

Tools move as they are told and feel nothing; what the grains do to them is read as a force, and a
task may stop when it is more than a robot can give. The ego camera rides on the tool, the sky
camera looks straight down on everything. One picture a half second goes to the folder: ego depth
on the left, sky depth on the right, near is bright.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import trimesh
from PIL import Image

from schemas.camera import Camera, Intrinsics
from schemas.frames import look_at, pose_to_matrix
from stages.scene.granular.bodies import Body
from stages.scene.granular.container import Box
from stages.scene.granular.method import SimulatorConfig
from stages.scene.granular.observe import Observer, SkyCamera
from stages.scene.granular.sdf import distance_grid
from stages.scene.granular.simulator import Simulator
from stages.scene.granular.start import layers

RADIUS, HALF_X, HALF_Y = 0.006, 0.17, 0.1
EGO = Intrinsics(fx=180.0, fy=180.0, cx=120.0, cy=90.0, width=240, height=180)
SKY = SkyCamera(half_x=HALF_X, half_y=HALF_Y, height=0.3, pixel=0.002)


@dataclass(frozen=True)
class Task:
    """Plates of the tool (size, place), its start, and what it does: seconds, velocity, spin."""

    plates: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]
    start: tuple[float, float, float]
    eye: tuple[float, float, float]  # of the ego camera, in the tool's frame
    target: tuple[float, float, float]
    moves: tuple[tuple[float, tuple[float, ...], tuple[float, ...]], ...]


TASKS = {
    "bulldoze": Task(  # a blade with wings; down, forward, a turn to the left, forward
        plates=(
            ((0.01, 0.12, 0.05), (0, 0, 0.025)),
            ((0.03, 0.01, 0.05), (0.015, 0.06, 0.025)),
            ((0.03, 0.01, 0.05), (0.015, -0.06, 0.025)),
        ),
        start=(-0.14, -0.02, 0.06),
        eye=(-0.08, 0.0, 0.13),
        target=(0.12, 0.0, 0.0),
        moves=((0.5, (0, 0, -0.09), (0, 0, 0)), (1.0, (0.1, 0, 0), (0, 0, 0)),
               (0.5, (0.08, 0.03, 0), (0, 0, 0.8)), (0.5, (0.08, 0.04, 0), (0, 0, 0))),
    ),
    "dig": Task(  # a bucket: down with its mouth ahead, along, curl up, lift
        plates=(
            ((0.09, 0.08, 0.008), (0.0, 0, 0.0)),
            ((0.008, 0.08, 0.06), (-0.041, 0, 0.03)),
            ((0.09, 0.008, 0.06), (0.0, 0.04, 0.03)),
            ((0.09, 0.008, 0.06), (0.0, -0.04, 0.03)),
        ),
        start=(-0.08, 0.0, 0.09),
        eye=(-0.1, 0.0, 0.2),
        target=(0.03, 0.0, 0.0),
        moves=((0.3, (0, 0, 0), (0, 2.0, 0)), (0.5, (0.06, 0, -0.096), (0, 0, 0)),
               (0.7, (0.13, 0, 0), (0, -0.3, 0)), (0.5, (0.06, 0, 0.04), (0, -1.6, 0)),
               (0.5, (0, 0, 0.2), (0, 0, 0))),
    ),
}  # fmt: skip


def main(name: str, folder: Path, count: int) -> None:
    task = TASKS[name]
    folder.mkdir(parents=True, exist_ok=True)
    config = SimulatorConfig(radius=RADIUS)
    mesh = trimesh.util.concatenate(
        [trimesh.creation.box(size).apply_translation(place) for size, place in task.plates]
    )
    grid = distance_grid(mesh.vertices, mesh.faces, spacing=0.002, margin=config.reach)
    tool = Body(grid=grid, position=task.start)
    grains = layers(count, HALF_X, HALF_Y, 0.0, RADIUS, np.random.default_rng(0))
    sim = Simulator(grains, config, container=Box(half_x=HALF_X, half_y=HALF_Y), bodies=[tool])
    sim.drive(0, pose=[0, 0, 1, 1, 0, 0, 0])  # out of the way while the grains fall
    sim.advance(700)
    sim.drive(0, pose=[*task.start, 1, 0, 0, 0])
    observer = Observer(sim, [tool])
    before, shots = sim.positions(), 0
    for seconds, velocity, spin in task.moves:
        sim.drive(0, velocity=velocity, spin=spin)
        for _ in range(round(seconds / 0.1)):
            force = np.zeros(3)
            for _ in range(10):
                sim.advance(10)
                force += sim.contacts().on_body(0)[:3] / 10
            raised = int((sim.positions()[:, 2] > 0.1).sum())
            pushed = float((sim.positions() - before)[:, 0].mean())
            print(
                f"{sim.time:.1f} s: {np.linalg.norm(force):6.2f} N on the tool, grains moved by "
                f"{pushed * 1e3:5.1f} mm on average, {raised} of {len(sim)} lifted"
            )
            if round(sim.time / 0.1) % 5 == 0:
                T = pose_to_matrix(sim.body_pose(0))
                ego = Camera(intrinsics=EGO, T_world_cam=T @ look_at(task.eye, task.target))
                picture = np.hstack([shown(observer.ego(ego), EGO.height),
                                     shown(observer.sky(SKY), EGO.height)])  # fmt: skip
                Image.fromarray(picture).save(folder / f"{name}_{shots:02d}.png")
                shots += 1


def shown(depth: np.ndarray, height: int) -> np.ndarray:
    """Grey levels of a depth image, `height` pixels high; black where nothing is seen."""
    low, high = np.nanpercentile(depth, [1, 90])
    share = np.clip((depth - low) / max(high - low, 1e-6), 0, 1)
    grey = np.nan_to_num(255 - 215 * share).astype(np.uint8)
    image = Image.fromarray(grey)
    return np.asarray(image.resize((image.width * height // image.height, height), 0))


if __name__ == "__main__":
    given = [*sys.argv[1:], *("bulldoze", "data/out/tools", "1600")[len(sys.argv) - 1 :]]
    main(given[0], Path(given[1]), int(given[2]))
