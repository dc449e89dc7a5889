"""`pipeline extend`: more of the same."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pipeline.cli.options import OutputPath
from pipeline.cli.run import carry_out
from pipeline.config import RunConfig
from pipeline.errors import UserError
from pipeline.graph import parse_targets
from pipeline.plan import make_plan
from pipeline.registry import Registry
from pipeline.runner import survey, with_runtime
from pipeline.saved import load_saved
from pipeline.store import Store
from pipeline.summary import explain

KINDS: tuple[str, ...] = ("floating", "tabletop", "clutter", "granular")


@click.command()
@click.argument("out", type=OutputPath(exists=True))
@click.option("--scenes", type=int, metavar="N", help="Scenes of each kind that OUT has.")
@click.option("--floating", type=int, metavar="N", help="Scenes of this kind; wins over --scenes.")
@click.option("--tabletop", type=int, metavar="N", help="Scenes of this kind; wins over --scenes.")
@click.option("--clutter", type=int, metavar="N", help="Scenes of this kind; wins over --scenes.")
@click.option("--granular", type=int, metavar="N", help="Scenes of this kind; wins over --scenes.")
@click.option("--grasps", type=int, metavar="N", help="Candidates per object and hand.")
@click.option("--workers", type=int, help="Processes; 0 runs in this one. [default: as OUT's run]")
@click.option("--dry-run", is_flag=True, help="Say what would be done and why; write nothing.")
def extend(
    out: Path,
    scenes: int | None,
    floating: int | None,
    tabletop: int | None,
    clutter: int | None,
    granular: int | None,
    grasps: int | None,
    workers: int | None,
    dry_run: bool,
) -> None:
    """Grow OUT to N scenes or grasps under the config of its last run, and publish it.

    The numbers are totals, not additions. Clouds, grasps and labels that are there stay, bit for
    bit. Start it where the run was started when its config names meshes by relative paths.

    \b
    python -m pipeline extend data/out/demo --scenes 40 --dry-run
    python -m pipeline extend data/out/demo --scenes 40 --grasps 64
    """
    registry = Registry()
    config = load_saved(out, registry)
    numbers = (floating, tabletop, clutter, granular)
    given: dict[str, int | None] = dict(zip(KINDS, numbers, strict=True))
    config = _grown(config, scenes, given, grasps)
    try:
        config = with_runtime(config, workers=workers)
    except ValueError as error:
        raise UserError(str(error)) from error
    wanted = parse_targets("all", registry)
    plans = make_plan(config, wanted, registry)
    store = Store(out)
    store.check_version()
    if dry_run:
        _, states = survey(store, plans, retry=False, deep=False)
        click.echo(explain(states))
        return
    carry_out(config, wanted, plans, store, registry)


def _grown(
    config: RunConfig, scenes: int | None, given: dict[str, int | None], grasps: int | None
) -> RunConfig:
    """The config with larger counts, or a UserError that lists every count that is not larger."""
    section, problems = config.sections["scene"], list[str]()
    counts: dict[str, Any] = {}
    for kind in KINDS:
        now, exact = getattr(section, kind), given[kind]
        wanted = exact if exact is not None else scenes if now else None
        if wanted is not None and wanted < now:
            problems.append(f"{kind} scenes: OUT has {now}, got {wanted}")
        elif wanted is not None:
            counts[kind] = wanted
    have = config.sections["grasp"].grasps_per_object
    if grasps is not None and grasps < have:
        problems.append(f"grasps: OUT has {have} per object and hand, got {grasps}")
    if problems:
        raise UserError("extend only grows an output: " + "; ".join(problems))
    if not counts and grasps is None:
        raise UserError("extend: say what should grow: --scenes, --grasps, or one kind of scene")
    grasp = config.sections["grasp"]
    sections = dict(config.sections) | {"scene": replace(section, **counts)}
    if grasps is not None:
        sections["grasp"] = replace(grasp, grasps_per_object=grasps)
    return replace(config, sections=sections)
