"""The numbers of the manifest: what a reader wants to know before loading anything."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from schemas.records import Scene
from stages.shard.arrays import ShardArrays


def cloud_statistics(scenes: Sequence[Scene], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Scenes by kind, objects, clouds, points per cloud (least, median, most), empty clouds."""
    kinds = sorted({scene.kind for scene in scenes})
    points = np.array([row["points"] for row in rows] or [0])
    return {
        "scenes": {kind: sum(scene.kind == kind for scene in scenes) for kind in kinds},
        "objects": len({name for scene in scenes for name in scene.object_ids}),
        "clouds": len(rows),
        "points_per_cloud": [int(points.min()), float(np.median(points)), int(points.max())],
        "empty_clouds": sum(row["points"] == 0 for row in rows),
    }


def grasp_statistics(content: ShardArrays) -> dict[str, Any]:
    """By hand: grasps; by protocol: labelled, successes, grasps by outcome code."""
    out: dict[str, Any] = {}
    for name, array in content.arrays.items():
        if name.endswith("/grasp_index"):
            out[name.split("/")[1]] = {"grasps": len(array), "labels": {}}
    for group, attributes in content.groups.items():
        if "protocol" not in attributes:
            continue
        hand, protocol = group.split("/")[1:]
        outcome = content.arrays[f"{group}/outcome"]
        codes = attributes["outcome_codes"]
        out[hand]["labels"][protocol] = {
            "labelled": int(content.arrays[f"{group}/labelled"].sum()),
            "successes": int(content.arrays[f"{group}/success"].sum()),
            "outcomes": {code: int((outcome == i).sum()) for i, code in enumerate(codes)},
        }
    return out
