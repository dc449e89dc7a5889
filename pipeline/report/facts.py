"""What a report says, as plain arrays: from the dataset where there is one, else from the blocks.

Large outputs are sampled: at most `MOST_SHARDS` shards or `MOST_BLOCKS` blocks of a stage, evenly
spread, and every place that is sampled says of how many.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.config import resolved
from pipeline.errors import CorruptBlockError, UserError
from pipeline.graph import parse_targets
from pipeline.ledger import States
from pipeline.plan import make_plan
from pipeline.registry import Registry
from pipeline.runner import survey
from pipeline.saved import load_saved
from pipeline.store import Marker, Store
from schemas.errors import SchemaError
from stages.contract import OK

MOST_SHARDS, MOST_BLOCKS = 32, 64
EXAMPLES = 3  # failures shown of one code
T = TypeVar("T")
Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class CloudRow:
    """One cloud. `distance` (m) is from the camera to the middle of the scene's objects."""

    scene: str
    view: int
    split: str
    kind: str
    points: int
    valid: int
    distance: float
    camera: tuple[float, ...]  # pose and intrinsics, rounded; equal for equal cameras


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LabelTable:
    """Labelled grasps of one hand under one protocol, of one split; rows side by side."""

    split: str
    hand: str
    protocol: str
    object_ids: Array  # (G,) str
    outcome: Array  # (G,) str
    success: Array  # (G,) bool
    columns: Mapping[str, Array]  # (G,) or (G, k) each


@dataclass(kw_only=True, slots=True)
class StageWork:
    """What the markers of a stage tell: worker seconds, bytes, outcomes, examples of failures."""

    name: str
    seconds: float = 0.0
    size: int = 0
    blocks: list[Path] = field(default_factory=list[Path])  # markers of blocks that are in use
    codes: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, list[tuple[str, str]]] = field(
        default_factory=dict[str, list[tuple[str, str]]]
    )

    @property
    def items(self) -> int:
        return self.codes.total()


@dataclass(kw_only=True, slots=True)
class Facts:
    """Everything but pictures. `notes` says what could not be read, and why."""

    out: Path
    manifest: dict[str, Any] | None = None
    run_config: dict[str, Any] | None = None
    clouds: list[CloudRow] = field(default_factory=list[CloudRow])
    clouds_total: int = 0
    labels: list[LabelTable] = field(default_factory=list[LabelTable])
    visibility: dict[str, Array] = field(default_factory=dict[str, Array])  # by hand
    extents: dict[str, float] = field(default_factory=dict[str, float])  # m, longest side
    work: list[StageWork] = field(default_factory=list[StageWork])
    notes: list[str] = field(default_factory=list[str])


def spread(values: Sequence[T], most: int) -> list[T]:
    """At most `most` of them, evenly spread, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    rows = np.unique(np.linspace(0, len(values) - 1, most).astype(int))
    return [values[int(row)] for row in rows]


def gather(out: Path, registry: Registry) -> Facts:
    """Facts of an output. What is damaged becomes a note, never an exception."""
    from pipeline.report.from_blocks import add_blocks
    from pipeline.report.from_dataset import add_dataset
    from stages.shard.errors import DatasetError
    from stages.shard.layout import COMMIT

    store = Store(out)
    facts = Facts(out=out)
    states = _states(facts, store, registry)
    facts.work = [_work(facts, store, name, states) for name in registry.stages]
    if (out / COMMIT).is_file():
        try:
            add_dataset(facts)
            return facts
        except (DatasetError, SchemaError, OSError, ValueError, KeyError) as error:
            facts = replace(facts, manifest=None, clouds=[], labels=[], visibility={}, extents={})
            facts.notes.append(f"the dataset cannot be read, so blocks are shown: {error}")
    else:
        facts.notes.append("no dataset yet (the target shard makes it); this is from the blocks")
    add_blocks(facts, store)
    return facts


def _states(facts: Facts, store: Store, registry: Registry) -> dict[str, States]:
    """What became of every item of the last run's config; empty when that cannot be told."""
    try:
        config = load_saved(facts.out, registry)
        facts.run_config = resolved(config)
        plans = make_plan(config, parse_targets("all", registry), registry)
        return survey(store, plans, retry=False, deep=False)[1]
    except (UserError, ValueError, OSError) as error:
        facts.notes.append(
            f"the config of the last run cannot be planned here, so outcomes are those of all "
            f"blocks, older configs included: {error}"
        )
        return {}


def _work(facts: Facts, store: Store, name: str, states: Mapping[str, States]) -> StageWork:
    work = StageWork(name=name)
    blocks: set[str] = set()
    for item_id, code, message, block in _outcomes(facts, store, name, states):
        blocks.add(block)
        work.codes[code] += 1
        if code != OK and len(shown := work.examples.setdefault(code, [])) < EXAMPLES:
            shown.append((item_id, message))
    for path in store.markers(name):
        if path.stem in blocks:
            marker = _marker(facts, store, path)
            work.seconds += marker.seconds if marker else 0.0
            work.size += marker.size if marker else 0
            work.blocks.append(path)
    return work


def _outcomes(
    facts: Facts, store: Store, name: str, states: Mapping[str, States]
) -> Iterator[tuple[str, str, str, str]]:
    """(item, code, message, block) of every item that has an outcome."""
    if name in states:
        for item_id, state in states[name].items():
            if state.code is not None:
                block = state.entry.block if state.entry else ""
                yield item_id, state.code, state.message, block
        return
    for path in store.markers(name):
        marker = _marker(facts, store, path)
        for row in marker.rows if marker else ():
            yield row.id, row.code, row.message, path.stem


def _marker(facts: Facts, store: Store, path: Path) -> Marker | None:
    try:
        return store.read_marker(path)
    except (CorruptBlockError, OSError) as error:
        facts.notes.append(str(error))
        return None


def camera_key(T_world_cam: Array, intrinsics: Array) -> tuple[float, ...]:
    """Equal for cameras that differ by less than about a micrometre, microradian or pixel/1000."""
    return (
        *np.round(T_world_cam, 6).reshape(-1).tolist(),
        *np.round(intrinsics, 3).tolist(),
    )


def view_distance(T_world_cam: Array, object_poses: Array) -> float:
    """m from the camera to the middle of the objects; NaN without any."""
    if not len(object_poses):
        return float("nan")
    return float(np.linalg.norm(T_world_cam[:3, 3] - object_poses[:, :3].mean(axis=0)))


def all_labels(facts: Facts) -> Iterator[tuple[str, str, list[LabelTable]]]:
    """(hand, protocol, its tables of all splits), sorted."""
    found: dict[tuple[str, str], list[LabelTable]] = {}
    for table in facts.labels:
        found.setdefault((table.hand, table.protocol), []).append(table)
    for (hand, protocol), tables in sorted(found.items()):
        yield hand, protocol, tables
