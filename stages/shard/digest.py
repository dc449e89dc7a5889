"""One hash of what a dataset says, however it is cut into shards, chunks and files."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from stages.shard.layout import canonical
from stages.shard.open import check_shard, load_commit, load_manifest, read_shard
from stages.storage import output_path

# Attributes that say how a shard is cut; names behind an index are hashed in its place.
_LOCAL = {"scene_ids", "scene_kinds", "object_ids", "outcome_codes"}


def dataset_digest(out: Path) -> str:
    """sha256 over splits, crop and every array: names, dtypes, shapes and values.

    Per split and field one running hash over all shards in order; offsets are hashed as counts
    and indices as the names they point to, which no cut changes. Time stamps, versions of
    libraries and the config of the shard room are not part of it.
    """
    out = output_path(out)
    commit, manifest = load_commit(out), load_manifest(out)
    hashes: dict[tuple[str, str], Any] = {}
    shapes: dict[tuple[str, str], list[Any]] = {}
    for name in sorted(commit["shards"]):
        content = read_shard(check_shard(out, name, commit))
        root = content.groups[""]
        for group, attributes in content.groups.items():
            key = (root["split"], f"{group}@{root['kind']}")
            said = {k: v for k, v in attributes.items() if k not in _LOCAL}
            _add(hashes, shapes, key, "attributes", canonical(said), (0,))
        scene_key = (root["split"], "scene_ids")
        for scene in zip(root.get("scene_ids", ()), root.get("scene_kinds", ()), strict=True):
            _add(hashes, shapes, scene_key, "json", canonical(scene), (1,))
        for field, array in content.arrays.items():
            key = (root["split"], field)
            if field.endswith("_offsets"):
                array = np.diff(array)
            strings = _strings(field, content.groups)
            if strings is None:
                data = np.ascontiguousarray(array).tobytes()
                _add(hashes, shapes, key, array.dtype.name, data, array.shape)
            else:
                named = [strings[i] if i >= 0 else None for i in array.tolist()]
                data = b"".join(canonical(text) for text in named)
                _add(hashes, shapes, key, "json", data, array.shape)
    parts = [[*key, shapes[key], hashes[key].hexdigest()] for key in sorted(hashes)]
    said = [manifest["splits"], manifest.get("crop"), manifest["frame"], parts]
    return hashlib.sha256(canonical(said)).hexdigest()


def _strings(field: str, groups: dict[str, dict[str, Any]]) -> list[str] | None:
    if field.startswith("labels/") and field.endswith("/outcome"):
        return groups[field.rpartition("/")[0]]["outcome_codes"]
    if field.endswith("/object_index"):
        return groups[""]["object_ids"]
    return groups[""]["scene_ids"] if field == "cloud_scene" else None


def _add(
    hashes: dict[tuple[str, str], Any],
    shapes: dict[tuple[str, str], list[Any]],
    key: tuple[str, str],
    dtype: str,
    data: bytes,
    shape: tuple[int, ...],
) -> None:
    if dtype == "attributes":
        # The same in every shard of a split; the number of shards must not show.
        hashes[key] = hashlib.sha256(data)
        shapes[key] = [dtype]
        return
    if key not in hashes:
        hashes[key] = hashlib.sha256()
        shapes[key] = [dtype, 0, *shape[1:]]
    hashes[key].update(data)
    shapes[key][1] += shape[0]
