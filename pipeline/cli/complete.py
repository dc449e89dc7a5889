"""What a shell offers for an argument that begins so; light, for it runs at each Tab."""

from pathlib import Path
from typing import Any

import click

HANDS = Path(__file__).parents[2] / "configs" / "hands"


def targets(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Stages and what publishes them, after a + as well."""
    from pipeline.registry import Registry

    registry = Registry()
    before, plus, last = begun.rpartition("+")
    names = [*registry.stages, *registry.publishers, *([] if plus else ["all"])]
    return [before + plus + name for name in names if name.startswith(last)]


def hands(_: click.Context, __: click.Parameter, begun: str) -> list[Any]:
    """Names of configs/hands; files too, where a hand may be one."""
    from click.shell_completion import CompletionItem

    found = sorted(path.stem for path in HANDS.glob("*.yaml") if path.stem.startswith(begun))
    return found or [CompletionItem(begun, type="file")]


def protocols(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    from stages.envs.config import PROTOCOLS

    return [name for name in PROTOCOLS if name.startswith(begun)]
