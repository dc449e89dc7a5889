"""What ManiSkill costs here, beside Embree and MuJoCo: pictures and rollouts, on this machine.

    python -m benchmarks.bench_maniskill [--views 16] [--grasps 8] [--json FILE]

Pictures: six YCB scans on a table at 640x480, one cropped cloud a view, exact and with the demo's
sensor. The first picture of a process is timed apart: SAPIEN prepares its lighting then, which
takes software Vulkan long. Rollouts: a box between the demo's two hands, under `tabletop` and
`rollout`. With CUDA the ManiSkill rows use 64 sub-scenes.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import click

from benchmarks.bench_render import SIX, SIZES, cameras, make_scene, ycb_assets
from schemas.camera import Camera
from stages.contract import Item
from stages.envs.base import build_env
from stages.label.config import LabelConfig
from stages.render.backends.protocol import BatchBackend
from stages.render.config import RenderConfig
from stages.render.sensor import eyes
from stages.render.sensor_config import SensorConfig
from stages.render.stage import load_backend, render_view


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def pictures(views: int) -> dict[str, float]:
    """Milliseconds a view by "backend sensor", and seconds of ManiSkill's first picture."""
    assets = ycb_assets(SIX)
    scene = make_scene(assets, 0.25, 0)
    seen = cameras(SIZES["640x480"], views)
    out: dict[str, float] = {}
    for name in ("embree", "maniskill"):
        for preset in ("", "d435"):
            sensor = SensorConfig(preset=preset)
            config = RenderConfig(backend=name, sensor=sensor)
            backend = load_backend(name)
            if isinstance(backend, BatchBackend):
                backend.configure(normals=sensor.enabled, sub_scenes=0)
            prepared = backend.prepare(scene, assets)

            def draw(some: list[Camera], backend=backend, prepared=prepared, config=config) -> None:
                batch = backend.batch if isinstance(backend, BatchBackend) else 1
                for start in range(0, len(some), batch):
                    part = some[start : start + batch]
                    if isinstance(backend, BatchBackend):
                        both = [(prepared, e) for c in part for e in eyes(c, config.sensor)]
                        backend.announce(both)
                    for camera in part:
                        render_view(backend, prepared, scene, 0, camera, config, 0, assets)

            first = timed(lambda draw=draw: draw(seen[:1]))
            if name == "maniskill" and not preset:
                out["maniskill, first picture of a process, s"] = first
            label = f"{name}, {preset or 'exact'}, ms a view"
            out[label] = timed(lambda draw=draw: draw(seen)) / views * 1e3
    return out


def rollouts(count: int) -> dict[str, float]:
    """Seconds a grasp by "hand protocol", the engine's start left out."""
    from stages.grasp.config import GraspConfig
    from stages.grasp.stage import GraspStage
    from tests.solids import box_asset

    out: dict[str, float] = {}
    box = box_asset((0.06, 0.04, 0.06))
    for hand in ("panda_gripper", "allegro_right"):
        config = GraspConfig(hands=(hand,), grasps_per_object=count, chunk=count)
        assets = [Item(id="box", tags={"split": "train"})]
        items = GraspStage().plan(config, {"assets": assets})
        seeds = {item.id: 0 for item in items}
        found = GraspStage().run(items, {("assets", "box"): box}, config, seeds)
        grasps = next(o.record for o in found if o.record is not None)
        for protocol in ("tabletop", "rollout"):
            with build_env(LabelConfig().env(hand, protocol)) as env:
                env.evaluate(grasps, box, protocol)
                spent = timed(lambda e=env, p=protocol, g=grasps: e.evaluate(g, box, p))
                out[f"{hand}, {protocol}, s a grasp"] = spent / len(grasps)
    return out


@click.command()
@click.option("--views", default=16, show_default=True)
@click.option("--grasps", default=8, show_default=True)
@click.option("--json", "target", type=click.Path(path_type=Path))
def main(views: int, grasps: int, target: Path | None) -> None:
    rows = pictures(views) | rollouts(grasps)
    for name, value in rows.items():
        click.echo(f"{name:<48}{value:10.3f}")
    if target is not None:
        target.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
