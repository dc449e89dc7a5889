"""Grain-steps per second of the granular simulator, with the plots of the method's paper.

    python -m benchmarks.bench_granular [--device cuda:0] [--json FILE] [--plot FILE]
    python -m benchmarks.bench_granular --grains 1000,50000 --only grains,realtime

- grains: a pile in a tall round column, against the number of grains;
- bodies: the column with a cyclic boundary and turning helical gears, against their number;
- buckets: the pile, against the size of the hash table per grain;
- split: detection and contacts in two kernels against one, for each number of grains;
- realtime: simulated over wall-clock seconds of `--realtime-grains` at dt 5e-4 s.

On the CPU Warp uses one core. The first step compiles and is not counted.
"""

import json
import platform
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.gears import helical_gear
from stages.scene.granular.bodies import Body
from stages.scene.granular.container import Cylinder
from stages.scene.granular.device import default_device
from stages.scene.granular.method import SimulatorConfig
from stages.scene.granular.sdf import distance_grid
from stages.scene.granular.simulator import Simulator
from stages.scene.granular.start import layers

PARTS = ("grains", "bodies", "buckets", "split", "realtime")
RADIUS = 0.005
COLUMN = 12.0  # height of the column over its radius
SETTLE_S = 0.15  # simulated, before the clock runs


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement."""

    part: str
    grains: int
    bodies: int
    buckets_per_grain: float
    split: bool
    steps: int
    seconds: float
    grain_steps_per_s: float
    realtime_factor: float


def column(count: int, config: SimulatorConfig, device: str) -> Simulator:
    """`count` grains in a column that is COLUMN times as high as wide when they are settled."""
    volume = count * 4 / 3 * np.pi * config.radius**3 / 0.6
    radius = max((volume / (np.pi * COLUMN)) ** (1 / 3), 4 * config.radius)
    side = radius / np.sqrt(2)
    start = layers(count, side, side, 0.0, config.radius, np.random.default_rng(0))
    return Simulator(start, config, container=Cylinder(radius=radius), device=device)


def tower(count: int, gears: int, config: SimulatorConfig, device: str) -> Simulator:
    """A cyclic column with `gears` across it, each turning at its own speed."""
    rng = np.random.default_rng(0)
    volume = count * 4 / 3 * np.pi * config.radius**3 / 0.35
    radius = max((volume / (np.pi * COLUMN)) ** (1 / 3), 8 * config.radius)
    side = radius / np.sqrt(2)
    start = layers(count, side, side, 0.0, config.radius, rng)
    config = replace(config, cycle=(0.0, float(start[:, 2].max()) + 2 * config.radius))
    vertices, faces = helical_gear(0.35 * radius, 0.3 * radius)
    grid = distance_grid(
        vertices, faces, spacing=0.03 * radius, margin=config.reach, device=device
    )  # fmt: skip
    bodies: list[Body] = []
    for i in range(gears):
        angle = rng.uniform(0, 2 * np.pi)
        axis = np.array([np.cos(angle), np.sin(angle), 0.0])
        # z turned onto the axis, which lies level
        q = np.sqrt(0.5) * np.array([1.0, -axis[1], axis[0], 0.0])
        place = [*(rng.uniform(-0.3, 0.3, 2) * radius), config.cycle[1] * (i + 0.5) / gears]
        bodies.append(
            Body(grid=grid, position=place, rotation_wxyz=q, spin=rng.uniform(-10, 10) * axis)
        )
    container = Cylinder(radius=radius, floor=False)
    return Simulator(start, config, container=container, bodies=bodies, device=device)


def measure(part: str, sim: Simulator, seconds: float) -> Row:
    """Settle, then step for about `seconds` of wall-clock time."""
    sim.advance(1)
    sim.advance(max(1, round(SETTLE_S / sim.config.timestep)))
    steps, spent, batch = 0, 0.0, 5
    # a cyclic column without gears falls ever faster
    while spent < seconds and steps * sim.config.timestep < 1.0:
        start = time.perf_counter()
        sim.advance(batch)  # reads flags, so the device has finished
        spent += time.perf_counter() - start
        steps += batch
        batch = min(2 * batch, 200)
    return Row(
        part=part,
        grains=len(sim),
        bodies=sim.bodies,
        buckets_per_grain=sim.config.buckets_per_grain,
        split=sim.config.split,
        steps=steps,
        seconds=spent,
        grain_steps_per_s=len(sim) * steps / spent,
        realtime_factor=steps * sim.config.timestep / spent,
    )


@click.command()
@click.option("--device", default=None, help="cpu or cuda:0. [default: a GPU if there is one]")
@click.option("--grains", default="500,2000,8000", help="Numbers of grains.")
@click.option("--bodies", default="0,1,4,16", help="Numbers of gears.")
@click.option("--buckets", default="0.25,0.5,1,2,4,8", help="Hash table size per grain.")
@click.option("--tower-grains", default=2000, help="Grains of bodies and buckets.")
@click.option("--realtime-grains", default=50_000)
@click.option("--only", default=",".join(PARTS), help=f"Parts of {', '.join(PARTS)}.")
@click.option("--rounds", default=1, help="Repeats of all of it, in turn; medians count.")
@click.option("--seconds", default=5.0, help="Wall-clock time of each measurement.")
@click.option("--timestep", default=5e-4)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the rows.")
@click.option("--plot", type=click.Path(path_type=Path), help="A PNG with all of it (matplotlib).")
def main(
    device: str | None,
    grains: str,
    bodies: str,
    buckets: str,
    tower_grains: int,
    realtime_grains: int,
    only: str,
    rounds: int,
    seconds: float,
    timestep: float,
    json_file: Path | None,
    plot: Path | None,
) -> None:
    """Measure on this machine; run it on an idle one."""
    where = device or default_device()
    base = SimulatorConfig(radius=RADIUS, timestep=timestep)
    parts = only.split(",")
    if unknown := sorted(set(parts) - set(PARTS)):
        raise click.UsageError(f"--only: unknown {unknown}; choose from {', '.join(PARTS)}")
    taken: list[Row] = []

    def take(part: str, sim: Simulator) -> None:
        taken.append(measure(part, sim, seconds))
        click.echo(shown(taken[-1]))

    click.echo(f"{where}, {platform.machine()}, dt {timestep} s, {base.iterations} sweeps")
    counts = [int(n) for n in grains.split(",")]
    for _ in range(rounds):
        if "grains" in parts:
            for n in counts:
                take("grains", column(n, base, where))
        if "bodies" in parts:
            for n in bodies.split(","):
                take("bodies", tower(tower_grains, int(n), base, where))
        if "buckets" in parts:
            for share in buckets.split(","):
                config = replace(base, buckets_per_grain=float(share))
                take("buckets", column(tower_grains, config, where))
        if "split" in parts:
            for n in counts:
                for split in (True, False):
                    take("split", column(n, replace(base, split=split), where))
        if "realtime" in parts:
            take("realtime", column(realtime_grains, base, where))
    rows = medians(taken)
    if rounds > 1:
        click.echo("medians\n" + "\n".join(map(shown, rows)))
    if json_file is not None:
        about = {
            "device": where,
            "machine": platform.machine(),
            "python": platform.python_version(),
        }
        json_file.write_text(json.dumps({**about, "rows": [asdict(r) for r in rows]}, indent=1))
    if plot is not None:
        draw(rows, plot)


def shown(r: Row) -> str:
    return (
        f"{r.part:9} {r.grains:7} grains {r.bodies:3} bodies {r.buckets_per_grain:5.2f} buckets "
        f"{'split' if r.split else 'fused'}: {r.grain_steps_per_s:12.0f} grain-steps/s, "
        f"{r.realtime_factor:.4f} of real time"
    )


def medians(rows: list[Row]) -> list[Row]:
    """One row of each kind, the one with the median speed."""
    kinds: dict[Any, list[Row]] = {}
    for r in rows:
        kinds.setdefault((r.part, r.grains, r.bodies, r.buckets_per_grain, r.split), []).append(r)
    return [sorted(s, key=lambda r: r.grain_steps_per_s)[len(s) // 2] for s in kinds.values()]


def draw(rows: list[Row], path: Path) -> None:
    """How grain-steps per second depend on what was varied, a panel for each part."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    panels: dict[str, tuple[str, str]] = {
        "grains": ("grains", "grains"),
        "bodies": ("bodies", "gears"),
        "buckets": ("buckets_per_grain", "hash buckets per grain"),
        "split": ("grains", "grains"),
    }
    figure, axes = plt.subplots(1, len(panels), figsize=(13, 3.2), sharey=True)
    for axis, (part, (field, label)) in zip(axes, panels.items(), strict=True):
        mine: list[Any] = [r for r in rows if r.part == part]
        for split in sorted({r.split for r in mine}, reverse=True):
            some = [r for r in mine if r.split == split]
            x, y = ([getattr(r, n) for r in some] for n in (field, "grain_steps_per_s"))
            axis.plot(x, y, marker="o", label="two kernels" if split else "one kernel")
        if part != "bodies":
            axis.set_xscale("log")
        ticks = sorted({getattr(r, field) for r in mine})
        axis.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
        axis.minorticks_off()
        axis.set_xlabel(label)
        if part == "split":
            axis.legend()
    axes[0].set(ylabel="grain-steps per second", ylim=(0, None))
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


if __name__ == "__main__":
    main()
