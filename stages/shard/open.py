"""Opening what lies on the disk: the manifest, and shards back into arrays."""

import json
from pathlib import Path
from typing import Any

from schemas.dataset import SCHEMA_VERSION
from stages.shard.arrays import ShardArrays
from stages.shard.errors import DatasetError
from stages.shard.layout import (
    COMMIT,
    INDEX,
    MANIFEST,
    SHARDS,
    marker_of,
    sha256_bytes,
    sha256_file,
    unseal,
)  # fmt: skip


def load_commit(out: Path) -> dict[str, Any]:
    """The body of dataset.commit.json of a dataset of this schema version."""
    if not (out / COMMIT).exists():
        raise DatasetError(
            f"{out}: expected a complete dataset, found no {COMMIT}; run the shard stage (again)"
        )
    commit = unseal(out / COMMIT)
    if commit.get("schema_version") != SCHEMA_VERSION:
        raise DatasetError(
            f"{out}: schema version {commit.get('schema_version')}, this program reads version "
            f"{SCHEMA_VERSION}; install the version that wrote it, or generate it again"
        )
    return commit


def load_manifest(out: Path) -> dict[str, Any]:
    """dataset.json, after its checksum was compared."""
    commit = load_commit(out)
    for name in (MANIFEST, INDEX):
        if not (out / name).is_file() or sha256_file(out / name) != commit["files"][name]:
            raise DatasetError(f"{out / name}: missing or damaged; run the shard stage again")
    return json.loads((out / MANIFEST).read_bytes())


def check_shard(out: Path, name: str, commit: dict[str, Any]) -> Path:
    """The shard's folder, if its marker is the committed one and its files have their sizes.

    A lost chunk reads as zeros in Zarr, so that a missing file must be found here.
    """
    shard = out / SHARDS / name
    marker = marker_of(shard)
    if not marker.is_file() or sha256_bytes(marker.read_bytes()) != commit["shards"].get(name):
        raise DatasetError(f"{marker}: missing, or not what {COMMIT} names; run `verify`")
    for file, (size, _) in unseal(marker)["files"].items():
        path = shard / file
        if not path.is_file() or path.stat().st_size != size:
            raise DatasetError(f"{path}: expected a file of {size} bytes; run `verify`")
    return shard


def read_groups(shard: Path) -> dict[str, dict[str, Any]]:
    """Attributes of every group by path; "" is the root."""
    groups: dict[str, dict[str, Any]] = {}
    for path in sorted(shard.rglob("zarr.json")):
        node = json.loads(path.read_bytes())
        if node["node_type"] == "group":
            where = path.parent.relative_to(shard).as_posix()
            groups["" if where == "." else where] = node["attributes"]
    return groups


def array_nodes(shard: Path) -> dict[str, dict[str, Any]]:
    """zarr.json of every array by its path in the shard."""
    nodes = {p.parent.relative_to(shard).as_posix(): json.loads(p.read_bytes())
             for p in sorted(shard.rglob("zarr.json"))}  # fmt: skip
    return {name: node for name, node in nodes.items() if node["node_type"] == "array"}


def read_shard(shard: Path) -> ShardArrays:
    """All arrays of a shard, in memory."""
    from stages.shard.backends.chunks import read_array

    arrays = {name: read_array(shard / name) for name in array_nodes(shard)}
    return ShardArrays(arrays=arrays, groups=read_groups(shard))
