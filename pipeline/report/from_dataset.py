"""Facts of a published dataset: its index, the small arrays of its shards, its labels."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.report.facts import (
    MOST_SHARDS,
    CloudRow,
    Facts,
    LabelTable,
    camera_key,
    spread,
    view_distance,
)

_CLOUD = ("cloud_scene", "view", "T_world_cam", "intrinsics", "valid_count", "cloud_offsets")
_SCENE = ("scenes/object_offsets", "scenes/object_pose")


def add_dataset(facts: Facts) -> None:
    """Fill `facts` from the dataset; raises DatasetError when it is damaged."""
    from stages.shard.index import read_index
    from stages.shard.layout import INDEX
    from stages.shard.open import check_shard, load_commit, load_manifest

    out = facts.out
    facts.manifest = load_manifest(out)
    commit = load_commit(out)
    index = read_index(out / INDEX)
    facts.clouds_total = len(index)
    kinds = {(row["scene"], row["view"]): row["kind"] for row in index}
    names = sorted(commit["shards"])
    for name in spread([n for n in names if not n.endswith("-grasps.zarr")], MOST_SHARDS):
        _add_clouds(facts, check_shard(out, name, commit), name.rpartition("-")[0], kinds)
    for name in [n for n in names if n.endswith("-grasps.zarr")]:
        _add_grasps(facts, check_shard(out, name, commit), name.removesuffix("-grasps.zarr"))


def _add_clouds(facts: Facts, shard: Path, split: str, kinds: dict[tuple[str, int], str]) -> None:
    from stages.shard.backends.chunks import read_array
    from stages.shard.open import array_nodes, read_groups

    arrays = {name: read_array(shard / name) for name in (*_CLOUD, *_SCENE)}
    scene_ids = read_groups(shard)[""]["scene_ids"]
    offsets, poses = arrays["scenes/object_offsets"], arrays["scenes/object_pose"]
    counts = np.diff(arrays["cloud_offsets"])
    for i, s in enumerate(arrays["cloud_scene"].tolist()):
        T, view = arrays["T_world_cam"][i], int(arrays["view"][i])
        facts.clouds.append(
            CloudRow(
                scene=scene_ids[s],
                view=view,
                split=split,
                kind=kinds.get((scene_ids[s], view), ""),
                points=int(counts[i]),
                valid=int(arrays["valid_count"][i]),
                distance=view_distance(T, poses[offsets[s] : offsets[s + 1]]),
                camera=camera_key(T, arrays["intrinsics"][i]),
            )
        )
    for name in array_nodes(shard):
        parts = name.split("/")
        if parts[0] == "visibility" and parts[-1] == "share":
            share = read_array(shard / name)
            before = facts.visibility.get(parts[1], np.zeros(0, np.float32))
            facts.visibility[parts[1]] = np.concatenate([before, share[np.isfinite(share)]])


def _add_grasps(facts: Facts, shard: Path, split: str) -> None:
    from stages.shard.backends.chunks import read_array
    from stages.shard.open import array_nodes, read_groups

    groups, nodes = read_groups(shard), array_nodes(shard)
    ids = np.array(groups[""]["object_ids"], np.str_)
    vertices, first = (
        read_array(shard / "objects/vertices"),
        read_array(shard / "objects/vertex_offsets"),
    )
    for i, name in enumerate(ids.tolist()):
        own = vertices[first[i] : first[i + 1]]
        if len(own):
            facts.extents[name] = float(np.ptp(own, axis=0).max())
    for group, attributes in groups.items():
        if "protocol" not in attributes:
            continue
        _, hand, protocol = group.split("/")
        mine = [n.rpartition("/")[2] for n in nodes if n.rpartition("/")[0] == group]
        arrays: dict[str, NDArray[Any]] = {n: read_array(shard / group / n) for n in mine}
        kept = arrays.pop("labelled")
        arrays = {name: array[kept] for name, array in arrays.items()}
        codes = np.array([*attributes["outcome_codes"], ""], np.str_)
        facts.labels.append(
            LabelTable(
                split=split,
                hand=hand,
                protocol=protocol,
                object_ids=ids[read_array(shard / "grasps" / hand / "object_index")[kept]],
                outcome=codes[arrays.pop("outcome")],
                success=arrays.pop("success"),
                columns=arrays,
            )
        )
