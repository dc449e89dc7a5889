"""Which rooms there are: names -> "module:attribute", imported when first used."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

from stages.contract import Stage

ROOMS = ("assets", "scene", "render", "grasp", "label")
STAGES = {name: f"stages.{name}.stage:{name.capitalize()}Stage" for name in ROOMS}
CONFIGS = {name: f"stages.{name}.config:{name.capitalize()}Config" for name in (*ROOMS, "shard")}
PUBLISHERS = {"shard": "pipeline.publish:publish"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Registry:
    """`stages` and `configs` by room name; `publishers` are targets that run after all stages."""

    stages: Mapping[str, str] = field(default_factory=lambda: dict(STAGES))
    configs: Mapping[str, str] = field(default_factory=lambda: dict(CONFIGS))
    publishers: Mapping[str, str] = field(default_factory=lambda: dict(PUBLISHERS))

    def stage(self, name: str) -> Stage:
        return load(self.stages[name])()


def load(spec: str) -> Any:
    """The object that "module:attribute" names."""
    return resolve_name(spec)


def nearest(name: str, choices: "Mapping[str, Any] | list[str] | tuple[str, ...]") -> str:
    """ "; did you mean x?" when some choice is near, else the list of all choices."""
    close = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return "choose from " + ", ".join(choices)
