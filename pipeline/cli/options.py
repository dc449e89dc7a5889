"""Options that several commands share, and what they give together."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import click

from pipeline.cli import complete
from pipeline.config import RunConfig, load_config, read_yaml
from pipeline.errors import UserError
from pipeline.graph import Targets, parse_targets
from pipeline.plan import StagePlan, make_plan
from pipeline.registry import Registry
from stages.storage import output_path, reaching

SMOKE_OBJECTS = 3
SMOKE = (
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


class OutputPath(click.Path):
    """The folder of an output, or its place on an object store; with `exists` it must be there."""

    def __init__(self, *, exists: bool = False) -> None:
        super().__init__(path_type=Path)
        self.must_exist = exists

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        try:
            path = output_path(value)
        except (ImportError, ValueError) as error:
            raise UserError(str(error)) from error
        with reaching(path):
            if self.must_exist and not path.is_dir():
                raise UserError(f"output {path}: no such folder; give the --out of a run")
        return path


OUTPUT = OutputPath()


def planning(command: Callable[..., Any]) -> Callable[..., Any]:
    """TARGETS, --config, --out, --set and --smoke."""
    decorators = [
        click.argument("targets", default="all", shell_complete=complete.targets),
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
            type=OUTPUT,
            help="Output folder, or s3://bucket/folder. [default: data/out/<config name>]",
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
        changes = [*SMOKE, *_smoke(read_yaml(config_path)), *changes]
    config = load_config(config_path, registry=registry, overrides=changes)
    name = config_path.stem + ("-smoke" if smoke else "")
    folder = out or OUTPUT.convert(config.out or f"data/out/{name}", None, None)
    return config, wanted, make_plan(config, wanted, registry), folder, registry


def _smoke(values: dict[str, Any]) -> list[str]:
    """Overrides that depend on the config: its first objects, one scene of each kind it has."""

    def section(name: str) -> dict[str, Any]:
        found = values.get(name)
        return cast(dict[str, Any], found) if isinstance(found, dict) else {}

    kinds = [k for k in ("floating", "tabletop", "clutter") if section("scene").get(k) != 0]
    kinds += ["granular"] if section("scene").get("granular") else []  # none by default
    changes = [f"scene.{kind}=1" for kind in kinds]
    if first := list(section("assets").get("objects", []))[:SMOKE_OBJECTS]:
        changes.append("assets.objects=[" + ", ".join(f"'{entry}'" for entry in first) + "]")
    return changes


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
