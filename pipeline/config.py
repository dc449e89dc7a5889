"""YAML -> frozen dataclasses. YAML holds overrides only; defaults live beside their code.

    extends: demo.yaml      # optional; mappings merge, everything else replaces
    seed: 0
    block_size: 16
    assets: {...}           # one section per room, each the room's own config class

Every problem of a file is reported at once, with its place and the nearest known key.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePath
from typing import Any, cast

from pipeline.coerce import build
from pipeline.errors import ConfigError, UserError
from pipeline.keys import plain
from pipeline.registry import Registry, load, nearest
from schemas.errors import ForeignFileError
from stages.assets.yaml_file import SUFFIXES, parse_yaml, read_yaml_file


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """One run. Only `seed` and the stage sections take part in content keys."""

    seed: int = 0
    out: str | None = None  # default data/out/<config stem>
    max_failure_fraction: float = 0.2  # of a stage's own attempts, upstream failures aside
    block_size: int = 16  # items per block at most; never changes a record
    workers: int | None = None  # processes; None is the CPU count, 0 runs in this process
    item_timeout_s: float = 900.0  # wall-clock limit of one item, s
    worker_max_blocks: int = 64  # a worker is renewed after so many blocks
    worker_max_rss_mb: int = 6144  # or above so much resident memory, MiB
    gpu_stages: tuple[str, ...] = ()  # on Dask, these run on workers that offer a GPU
    sections: Mapping[str, Any] = field(default_factory=dict[str, Any])  # room -> its config

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not 0 <= self.seed < 2**64:
            problems.append(f"seed: expected 0 <= seed < 2^64, got {self.seed}")
        if not 0 <= self.max_failure_fraction <= 1:
            problems.append(
                f"max_failure_fraction: expected 0 to 1, got {self.max_failure_fraction}"
            )
        if self.block_size < 1:
            problems.append(f"block_size: expected at least 1, got {self.block_size}")
        if self.workers is not None and self.workers < 0:
            problems.append(f"workers: expected 0 or more, got {self.workers}")
        if not 0 < self.item_timeout_s < float("inf"):
            problems.append(f"item_timeout_s: expected seconds > 0, got {self.item_timeout_s}")
        if self.worker_max_blocks < 1 or self.worker_max_rss_mb < 1:
            problems.append("worker_max_blocks and worker_max_rss_mb: expected at least 1")
        if problems:
            raise ValueError("; ".join(problems))


def load_config(path: Path, *, registry: Registry, overrides: Sequence[str] = ()) -> RunConfig:
    """Read `path` (and what it extends), apply `a.b=c` overrides, check, and build."""
    data = read_yaml(path)
    problems: list[str] = []
    for text in overrides:
        _override(data, text, problems)
    return build_config(data, registry=registry, source=str(path), root=path.parent, found=problems)


def build_config(
    data: Mapping[str, Any],
    *,
    registry: Registry,
    source: str = "(values)",
    root: Path | None = None,
    found: Sequence[str] = (),
) -> RunConfig:
    """Plain values -> RunConfig. `root` is where relative asset paths start."""
    problems = list(found)
    own = [f.name for f in fields(RunConfig) if f.name != "sections"]
    choices = [*own, *registry.configs]
    for key in data:
        if key not in choices:
            problems.append(f"{key}: unknown key; {nearest(str(key), choices)}")
    for name in data.get("gpu_stages") or ():
        if name not in registry.stages:
            problems.append(
                f"gpu_stages: unknown {name!r}; {nearest(str(name), [*registry.stages])}"
            )
    sections: dict[str, Any] = {}
    for name, spec in registry.configs.items():
        cls = load(spec)
        section = build(cls, data.get(name), name, problems)
        if section is None:
            continue
        sections[name] = section if root is None else _rooted(section, root)
    top = {key: data[key] for key in own if key in data}
    run = build(RunConfig, top, "", problems)
    if problems:
        raise ConfigError(source, problems)
    return dataclasses.replace(cast(RunConfig, run), sections=sections)


def _rooted(section: Any, root: Path) -> Any:
    """`section` with its CONFIG_PATH fields starting at `root`, wherever the command is run."""
    changed: dict[str, Any] = {}
    for f in fields(section):
        value = getattr(section, f.name)
        if dataclasses.is_dataclass(value):
            changed[f.name] = _rooted(value, root)
        elif f.metadata.get("config_path") and isinstance(value, tuple):
            entries = cast(tuple[str, ...], value)
            changed[f.name] = tuple(str(root / e) if Path(e).suffix else e for e in entries)
        elif f.metadata.get("config_path") and value:
            changed[f.name] = str(root / value)
    return dataclasses.replace(section, **changed) if changed else section


def portable(config: RunConfig) -> dict[str, Any]:
    """`resolved` without a path of this machine: of an absolute path only the name is left."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in cast(dict[str, Any], value).items()}
        if isinstance(value, list):
            return [strip(v) for v in cast(list[Any], value)]
        if isinstance(value, str) and PurePath(value).is_absolute():
            return PurePath(value).name
        return value

    return strip(resolved(config))


def resolved(config: RunConfig) -> dict[str, Any]:
    """The config as plain values, defaults included; reading it back gives an equal config."""
    data = cast(dict[str, Any], plain(config))
    sections = data.pop("sections")
    return data | sections


def read_yaml(path: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """One YAML mapping, merged over the file it `extends`."""
    if path.resolve() in seen:
        chain = " -> ".join(str(p) for p in (*seen, path.resolve()))
        raise ConfigError(str(path), [f"extends: the files extend each other: {chain}"])
    try:
        data = read_yaml_file(path)
    except FileNotFoundError as error:
        raise UserError(
            f"config {path}: no such file. Give one with --config; see configs/"
        ) from error
    except OSError as error:
        raise UserError(f"config {path}: cannot be read: {error}") from error
    except ForeignFileError as error:
        raise UserError(f"config {error}") from error
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(str(path), [f"expected keys and values, got {type(data).__name__}"])
    values = cast(dict[str, Any], data)
    base = values.pop("extends", None)
    if base is None:
        return values
    if Path(str(base)).suffix not in SUFFIXES or "\0" in str(base):
        raise ConfigError(
            str(path), [f"extends: expected a {' or '.join(SUFFIXES)} file, got {base}"]
        )
    return merge(read_yaml(path.parent / str(base), (*seen, path.resolve())), values)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`; mappings merge, everything else replaces."""
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            out[key] = merge(cast(Mapping[str, Any], old), cast(Mapping[str, Any], value))
        else:
            out[key] = value
    return out


def _override(data: dict[str, Any], text: str, problems: list[str]) -> None:
    place, equals, value = text.partition("=")
    names = place.strip().split(".")
    if not equals or not all(names):
        problems.append(f"--set {text}: expected a.b=value")
        return
    try:
        parsed = parse_yaml(value)
    except ValueError:
        problems.append(f"--set {text}: the value is not valid YAML")
        return
    node: dict[str, Any] = data
    for name in names[:-1]:
        child = node.get(name)
        if not isinstance(child, dict):
            child = {}
        node[name] = dict(cast(dict[str, Any], child))
        node = node[name]
    node[names[-1]] = parsed
