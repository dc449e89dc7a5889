"""Where the labels of two protocols, usually of two engines, agree, and where they flip."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UserError
from pipeline.graph import parse_targets
from pipeline.plan import make_plan
from pipeline.publish import Records
from pipeline.registry import Registry
from pipeline.runner import survey
from pipeline.saved import load_saved
from pipeline.store import Store
from schemas.records import LabelSet
from stages.label.config import LabelConfig

EDGES = (-1.0, -0.5, 0.0, 0.25, 0.5, 0.75, 1.0)
"""Margin bins, and one below. Below 0 the reference failed, the further down the more clearly;
1 is no motion."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Confusion:
    """Grasps by (reference verdict, other verdict)."""

    both: int
    reference_only: int
    other_only: int
    neither: int

    @property
    def total(self) -> int:
        return self.both + self.reference_only + self.other_only + self.neither

    @property
    def flips(self) -> int:
        return self.reference_only + self.other_only

    @property
    def agreement(self) -> float:
        """Share of grasps with equal verdicts; NaN without grasps."""
        return (self.both + self.neither) / self.total if self.total else float("nan")

    @property
    def kappa(self) -> float:
        """Cohen's kappa: agreement beyond what the two success rates give by chance.

        NaN where chance alone agrees on everything.
        """
        n = self.total
        if not n:
            return float("nan")
        a = (self.both + self.reference_only) / n
        b = (self.both + self.other_only) / n
        chance = a * b + (1 - a) * (1 - b)
        return (self.agreement - chance) / (1 - chance) if chance < 1 else float("nan")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """The same grasps under both protocols, row by row."""

    hand: tuple[str, ...]
    object_id: tuple[str, ...]
    reference: NDArray[np.bool_]  # (N,) verdicts
    other: NDArray[np.bool_]  # (N,)
    margin: NDArray[np.float64]  # (N,) of the reference; NaN where nothing moved to a threshold
    outcomes: tuple[tuple[str, str], ...]  # codes of both

    def confusion(self, rows: NDArray[np.bool_] | slice = slice(None)) -> Confusion:
        a, b = self.reference[rows], self.other[rows]
        return Confusion(
            both=int((a & b).sum()),
            reference_only=int((a & ~b).sum()),
            other_only=int((~a & b).sum()),
            neither=int((~a & ~b).sum()),
        )


def margins(label: LabelSet, config: LabelConfig) -> NDArray[np.float64]:
    """(G,) how far a verdict of MuJoCo's lies from its threshold.

    1 - max(translation / its threshold, rotation / its threshold): 1 where the object did not
    move, 0 at the verdict's edge, negative where it failed. NaN where the trial ended before
    anything could move: no contact, penetration, a fault; and for protocols without thresholds.
    """
    numbers: Any = getattr(config, label.protocol)
    limit = getattr(numbers, "trans_thre", None) or getattr(numbers, "lift_slip_thre", None)
    if limit is None:
        return np.full(len(label.grasp_index), np.nan)
    with np.errstate(invalid="ignore"):
        used = np.maximum(label.translation / limit, label.rotation / numbers.angle_thre)
    return 1.0 - used


def pair_labels(
    labels: Iterable[LabelSet], reference: str, other: str, config: LabelConfig
) -> Pairs:
    """Rows that both protocols labelled. Raises UserError when there are none."""
    found: dict[str, dict[tuple[str, str, int], tuple[bool, float, str]]] = {}
    for label in labels:
        if label.protocol not in (reference, other):
            continue
        rows = found.setdefault(label.protocol, {})
        margin = margins(label, config)
        for i, index in enumerate(label.grasp_index.tolist()):
            key = (label.hand, label.object_id, index)
            rows[key] = (bool(label.success[i]), float(margin[i]), str(label.outcome[i]))
    missing = [name for name in (reference, other) if name not in found]
    if missing:
        raise UserError(
            f"no labels under {' or '.join(missing)}; label with both: run label --set "
            f"'label.protocols=[{reference},{other}]'"
        )
    keys = sorted(found[reference].keys() & found[other].keys())
    if not keys:
        raise UserError(f"no grasp was labelled under both {reference} and {other}")
    a, b = [found[reference][k] for k in keys], [found[other][k] for k in keys]
    return Pairs(
        hand=tuple(k[0] for k in keys),
        object_id=tuple(k[1] for k in keys),
        reference=np.array([row[0] for row in a], bool),
        other=np.array([row[0] for row in b], bool),
        margin=np.array([row[1] for row in a], np.float64),
        outcomes=tuple((x[2], y[2]) for x, y in zip(a, b, strict=True)),
    )


def read_labels(out: Path) -> tuple[list[LabelSet], LabelConfig]:
    """Every label set of the last run in `out`, and its label config."""
    registry = Registry()
    config = load_saved(out, registry)
    plans = make_plan(config, parse_targets("label", registry), registry)
    store = Store(out)
    store.check_version()
    _, states = survey(store, plans, retry=False, deep=False)
    labels = Records(store, plans, states).all("label")
    return list(labels.values()), config.sections["label"]


def report(pairs: Pairs, reference: str, other: str, engines: Sequence[str]) -> dict[str, Any]:
    """JSON values: confusion in all and per hand and object, flips by margin and by outcome."""
    hands, objects = np.array(pairs.hand), np.array(pairs.object_id)
    groups: list[dict[str, Any]] = []
    for hand, name in sorted(set(zip(pairs.hand, pairs.object_id, strict=True))):
        rows = (hands == hand) & (objects == name)
        groups.append({"hand": hand, "object": name, **_numbers(pairs.confusion(rows))})
    by_margin: list[dict[str, Any]] = []
    for low, high in zip((None, *EDGES[:-1]), EDGES, strict=True):
        rows = (pairs.margin > (-np.inf if low is None else low)) & (pairs.margin <= high)
        by_margin.append({"above": low, "to": high, **_numbers(pairs.confusion(rows))})
    rows = np.isnan(pairs.margin)
    by_margin.append({"above": None, "to": None, **_numbers(pairs.confusion(rows))})
    codes: dict[str, int] = {}
    for a, b in pairs.outcomes:
        codes[f"{a} / {b}"] = codes.get(f"{a} / {b}", 0) + 1
    return {
        "reference": reference,
        "other": other,
        "engines": sorted(set(engines)),
        "all": _numbers(pairs.confusion()),
        "hands": [
            {"hand": hand, **_numbers(pairs.confusion(hands == hand))}
            for hand in sorted(set(pairs.hand))
        ],
        "groups": groups,
        "by_margin": by_margin,
        "outcomes": dict(sorted(codes.items(), key=lambda item: (-item[1], item[0]))),
    }


def _numbers(c: Confusion) -> dict[str, Any]:
    def known(value: float) -> float | None:
        return None if np.isnan(value) else value

    return {
        "grasps": c.total,
        "both": c.both,
        "reference_only": c.reference_only,
        "other_only": c.other_only,
        "neither": c.neither,
        "agreement": known(c.agreement),
        "kappa": known(c.kappa),
    }


def lines(values: Mapping[str, Any]) -> list[str]:
    """The report as text."""
    a, b = values["reference"], values["other"]
    head = f"{'':<34}{'grasps':>7}{'both':>7}{f'only {a}':>16}{f'only {b}':>16}{'neither':>9}"
    out = [f"engines: {'; '.join(values['engines'])}", "", head + f"{'agree':>8}{'kappa':>7}"]

    def row(name: str, c: Mapping[str, Any]) -> str:
        agree = "-" if c["agreement"] is None else f"{c['agreement']:.0%}"
        kappa = "-" if c["kappa"] is None else f"{c['kappa']:.2f}"
        return (
            f"{name:<34}{c['grasps']:>7}{c['both']:>7}{c['reference_only']:>16}"
            f"{c['other_only']:>16}{c['neither']:>9}{agree:>8}{kappa:>7}"
        )

    out.append(row("all", values["all"]))
    out += [row(c["hand"], c) for c in values["hands"]]
    out += [row(f"  {c['hand']} {c['object']}"[:34], c) for c in values["groups"]]
    out += ["", f"flips by the margin of {a} (1: nothing moved, 0: at its threshold)"]
    for c in values["by_margin"]:
        if not c["grasps"]:
            continue
        flips = c["reference_only"] + c["other_only"]
        name = "nothing to measure"
        if c["to"] is not None:
            low = "" if c["above"] is None else f"{c['above']:g} "
            name = f"{low}to {c['to']:g}"
        out.append(f"  {name:<24}{flips:>5} of {c['grasps']:<6}{flips / c['grasps']:.0%}")
    out += ["", f"outcomes, {a} / {b}"]
    out += [f"  {name:<44}{count:>6}" for name, count in list(values["outcomes"].items())[:12]]
    return out
