"""Render one scene: meshes, how they come to rest, a depth camera, the crop. No files in between.

    python examples/01_render_one_scene.py [--smoke]

A stage is a pure function: `plan` lists its items, `run` makes their records from the records of
the stages before. The pipeline does just this, with keys, processes and files around it.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import trimesh

from stages.assets.config import AssetsConfig
from stages.assets.stage import AssetsStage
from stages.crop import CropSpec
from stages.render.config import CameraConfig, RenderConfig
from stages.render.sensor_config import SensorConfig
from stages.render.stage import RenderStage
from stages.scene.config import SceneConfig
from stages.scene.stage import SceneStage


def run(stage, config, planned: dict, records: dict) -> None:
    """Plan and run one stage; its items and records join those of the others."""
    planned[stage.name] = items = stage.plan(config, planned)
    seeds = {item.id: number for number, item in enumerate(items)}
    for outcome in stage.run(items, records, config, seeds):
        if outcome.record is None:
            raise SystemExit(f"{stage.name} {outcome.id}: {outcome.code}: {outcome.message}")
        records[stage.name, outcome.id] = outcome.record


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help="a small image")
    size = (160, 120) if parser.parse_args().smoke else None
    planned: dict = {}
    records: dict = {}
    with TemporaryDirectory() as folder:
        trimesh.creation.box((0.06, 0.04, 0.09)).export(Path(folder, "carton.obj"))
        trimesh.creation.cylinder(0.025, 0.12, sections=64).export(Path(folder, "bottle.obj"))
        trimesh.creation.icosphere(4, 0.04).export(Path(folder, "ball.obj"))
        meshes = AssetsConfig(
            objects=("*.obj",), asset_root=folder, train_fraction=1, val_fraction=0
        )
        run(AssetsStage(), meshes, planned, records)
    clutter = SceneConfig(floating=0, tabletop=0, clutter=1, clutter_min=3, clutter_max=3)
    run(SceneStage(), clutter, planned, records)
    for (stage, name), record in records.items():
        if stage == "scene":
            print(
                f"{name}: {', '.join(record.object_ids)} at rest after {record.settle_time:.2f} s"
            )

    for what, sensor in (
        ("exact", SensorConfig()),
        ("as a D435 sees it", SensorConfig(preset="d435")),
    ):
        camera = CameraConfig(kind="ring", ring_size=4, resize=size)
        config = RenderConfig(views=4, camera=camera, sensor=sensor, crop=CropSpec(frame="world"))
        run(RenderStage(), config, planned, records)
        clouds = [record for (stage, _), record in records.items() if stage == "render"]
        print(f"{what}: points of {len(clouds)} views {[len(c.points) for c in clouds]}")
        lowest = min(float(c.points[:, 2].min()) for c in clouds if len(c.points))
        print(f"  the lowest lies {1000 * np.abs(lowest):.1f} mm from the table top")


if __name__ == "__main__":
    main()
