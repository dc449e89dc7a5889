"""What in an output is hard to believe, each with what to do about it.

An alarm is no error: every one of these is possible. They are the faults that others have met
without being told (a success rate of 0.2 %, empty clouds, one camera taken eight times).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.report.facts import Facts, LabelTable, all_labels

SUCCESS_BAND = (0.02, 0.99)  # share of labelled grasps; outside, a network has nothing to learn
LEAST_LABELS = 30  # fewer tell little about a share
EMPTY_SHARE = 0.01  # of the clouds
FEW_POINTS = 50  # of the median cloud
EXTENT_BAND = (0.01, 0.5)  # m, longest side of a thing that a hand takes
LEAST_ROWS = 20  # before a column that never changes is worth a word
VARYING = ("translation", "rotation", "final_object_pose", "hand_object_penetration")
"""Label columns that cannot be the same in every row of many real grasps. (Of two flat pads,
contact_distance and q1 can: both are zero.)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarm:
    """`kind`: success, empty, few_points, constant, cameras, scale."""

    kind: str
    what: str
    do: str


def alarms(facts: Facts) -> list[Alarm]:
    """All alarms of an output, none for one that looks sound."""
    found = [*_success(facts), *_clouds(facts), *_constant(facts), *_cameras(facts)]
    return [*found, *_scale(facts)]


def _success(facts: Facts) -> Iterator[Alarm]:
    low, high = SUCCESS_BAND
    for hand, protocol, tables in all_labels(facts):
        success = np.concatenate([t.success for t in tables])
        if len(success) < LEAST_LABELS or low <= success.mean() <= high:
            continue
        codes = Counter(np.concatenate([t.outcome for t in tables]).tolist()).most_common(3)
        why = ", ".join(f"{code} {n}" for code, n in codes)
        what = (
            f"{success.mean():.1%} of {len(success)} grasps of {hand} succeed under {protocol}; "
            f"expected {low:.0%} to {high:.0%} (most are: {why})"
        )
        do = (
            "look at the failures below: a hand that closes the wrong way, a wrong joint order or "
            "a wrong scale fails everywhere; `python -m pipeline hand check` draws the hand"
            if success.mean() < low
            else "too easy to learn from: sample more widely (grasp.friction, approach_tilt), or "
            "take harder objects or a stricter protocol"
        )
        yield Alarm(kind="success", what=what, do=do)


def _clouds(facts: Facts) -> Iterator[Alarm]:
    points = np.array([row.points for row in facts.clouds])
    if not len(points):
        return
    empty = int((points == 0).sum())
    if empty > EMPTY_SHARE * len(points):
        first = next(row for row in facts.clouds if row.points == 0)
        yield Alarm(
            kind="empty",
            what=f"{empty} of {len(points)} clouds are empty, the first is {first.scene} view "
            f"{first.view}",
            do="does the camera look at the objects (render.camera), and does the crop leave them "
            "(render.crop: box, depth limits, segment names)?",
        )
    elif np.median(points) < FEW_POINTS:
        yield Alarm(
            kind="few_points",
            what=f"half of the clouds have fewer than {FEW_POINTS} points",
            do="move the camera nearer (render.camera.radius_max), take a larger image, or a wider "
            "crop",
        )


def _constant(facts: Facts) -> Iterator[Alarm]:
    for hand, protocol, tables in all_labels(facts):
        for name in VARYING:
            values = _joined(tables, name)
            if len(values) >= LEAST_ROWS and len(np.unique(values, axis=0)) == 1:
                yield Alarm(
                    kind="constant",
                    what=f"{name} of {hand} under {protocol} is the same in all {len(values)} rows",
                    do="the grasps are all one grasp, or the evaluation never moved: replay one "
                    "(`view --rollout`) and compare the hand's joint order",
                )
    valid = np.array([row.valid for row in facts.clouds])
    if len(valid) >= LEAST_ROWS and len(np.unique(valid)) == 1 and valid[0]:
        yield Alarm(
            kind="constant",
            what=f"all {len(valid)} clouds had {valid[0]} points before sampling",
            do="every view shows the same picture: look at the poses of the cameras",
        )


def _joined(tables: list[LabelTable], name: str) -> NDArray[Any]:
    """Rows of a column in all tables, those without data left out."""
    parts = [t.columns[name] for t in tables if name in t.columns]
    if not parts:
        return np.zeros(0)
    values = np.concatenate(parts)
    flat = values.reshape(len(values), -1)
    return flat[np.isfinite(flat).all(axis=1)]


def _cameras(facts: Facts) -> Iterator[Alarm]:
    seen: dict[tuple[str, tuple[float, ...]], int] = {}
    twice: list[tuple[str, int, int]] = []
    for row in facts.clouds:
        place = (row.scene, row.camera)
        if place in seen:
            twice.append((row.scene, seen[place], row.view))
        seen.setdefault(place, row.view)
    if twice:
        scene, first, again = twice[0]
        yield Alarm(
            kind="cameras",
            what=f"{len(twice)} views repeat another camera of their scene, e.g. {scene} views "
            f"{first} and {again}",
            do="render.camera.kind fixed has one pose for all views, and poses_file may hold one "
            "twice: fewer render.views, or another kind",
        )


def _scale(facts: Facts) -> Iterator[Alarm]:
    low, high = EXTENT_BAND
    for name, extent in sorted(facts.extents.items()):
        if not low <= extent <= high:
            yield Alarm(
                kind="scale",
                what=f"{name} is {extent:.3g} m long; things that a hand takes have "
                f"{low} to {high} m",
                do="set assets.scale (0.001 for a mesh in millimetres), or leave the object out",
            )
