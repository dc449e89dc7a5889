"""Options that several commands share, and what they give together."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from pipeline.config import RunConfig, load_config, read_yaml
from pipeline.errors import UserError
from pipeline.graph import Targets, parse_targets
from pipeline.plan import StagePlan, make_plan
from pipeline.registry import Registry

SMOKE_OBJECTS = 3
SMOKE = (
    "scene.floating=1",
    "scene.tabletop=1",
    "scene.clutter=1",
    "render.views=2",
    "grasp.grasps_per_object=1",
    "assets.train_fraction=1.0",
    "assets.val_fraction=0.0",
    "assets.train_ids=[]",
    "assets.val_ids=[]",
    "assets.test_ids=[]",
    "max_failure_fraction=0.5",
)
"""--smoke: the first three objects, all in train, one scene of each kind, two views, one chunk of
grasps. With so few items one object that a hand cannot grip would spend the usual budget."""


def planning(command: Callable[..., Any]) -> Callable[..., Any]:
    """TARGETS, --config, --out, --set and --smoke."""
    decorators = [
        click.argument("targets", default="all"),
        click.option(
            "--config",
            "config_path",
            type=click.Path(path_type=Path),
            default=Path("configs/demo.yaml"),
            show_default=True,
            help="YAML of the run.",
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            help="Output folder. [default: data/out/<config name>]",
        ),
        click.option(
            "--set", "overrides", multiple=True, metavar="A.B=C", help="Override a value."
        ),
        click.option("--smoke", is_flag=True, help="The smallest run that uses every part."),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def read_plan(
    targets: str, config_path: Path, out: Path | None, overrides: Sequence[str], smoke: bool
) -> tuple[RunConfig, Targets, dict[str, StagePlan], Path, Registry]:
    """Config, targets, plan and output folder, or a UserError."""
    registry = Registry()
    wanted = parse_targets(targets, registry)
    changes = list(overrides)
    if smoke:
        data = read_yaml(config_path)
        section, scene = data.get("assets"), data.get("scene")
        objects = section.get("objects", []) if isinstance(section, dict) else []
        first = ", ".join(f"'{o}'" for o in list(objects)[:SMOKE_OBJECTS])
        changes = [*SMOKE, *_grains(scene), f"assets.objects=[{first}]", *changes]
    config = load_config(config_path, registry=registry, overrides=changes)
    name = config_path.stem + ("-smoke" if smoke else "")
    folder = out or Path(config.out or f"data/out/{name}")
    if re.match(r"[a-z0-9]{2,}:/", str(folder)):
        raise UserError(
            f"output {folder}: object stores are not written to yet; give a folder that all "
            "workers see, and copy the finished dataset, dataset.commit.json last"
        )
    return config, wanted, make_plan(config, wanted, registry), folder, registry


def _grains(scene: Any) -> list[str]:
    """What --smoke adds for a config with granular scenes: one; kinds at 0 stay there.

    Its crop may name the grains, which other scenes have not.
    """
    if not isinstance(scene, dict) or not scene.get("granular"):
        return []
    none = [kind for kind in ("floating", "tabletop", "clutter") if scene.get(kind) == 0]
    return ["scene.granular=1", *(f"scene.{kind}=0" for kind in none)]


def pairs(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE texts of an option, the values read as YAML but times, which stay text."""
    import yaml

    out: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UserError(f"{option} {text}: expected KEY=VALUE")
        # YAML 1.1 reads 02:00:00 as a number of seconds
        out[key] = value if ":" in value and " " not in value else yaml.safe_load(value)
    return out


def cpu_count() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
