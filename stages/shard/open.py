"""Opening what lies on the disk: the manifest, and shards back into arrays."""

import math
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from schemas.dataset import FIELDS, SCHEMA_VERSION
from schemas.errors import SchemaError
from schemas.files import read_json
from stages.shard.arrays import ShardArrays
from stages.shard.errors import DatasetError
from stages.shard.layout import (
    COMMIT,
    INDEX,
    MANIFEST,
    SHARD_NAME,
    SHARDS,
    marker_of,
    sha256_bytes,
    unseal,
)  # fmt: skip
from stages.storage import afresh, file_sha256, is_remote

DTYPES = tuple(sorted({field.dtype for field in FIELDS.values()}))
ARRAY_LIMIT = 2**33  # bytes of one array of a shard, in memory


def load_commit(out: Path) -> dict[str, Any]:
    """The body of dataset.commit.json of a dataset of this schema version."""
    if not (out / COMMIT).exists():
        raise DatasetError(
            f"{out}: expected a complete dataset, found no {COMMIT}; run the shard stage (again)"
        )
    commit = unseal(out / COMMIT)
    version = commit.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise DatasetError(
            f"{out}: schema version {version}, this program reads version {SCHEMA_VERSION} and "
            "older; install a newer release of this program"
        )
    if commit.get("schema_version") != SCHEMA_VERSION:
        raise DatasetError(
            f"{out}: schema version {commit.get('schema_version')}, this program reads version "
            f"{SCHEMA_VERSION}; install the version that wrote it, or generate it again"
        )
    shards, files = commit.get("shards"), commit.get("files")
    named = isinstance(shards, dict) and all(SHARD_NAME.fullmatch(name) for name in shards)
    if not (named and isinstance(files, dict) and {MANIFEST, INDEX} <= set(files)):
        raise DatasetError(
            f"{out / COMMIT}: expected the checksums of {MANIFEST}, {INDEX} and of shards by their "
            "names; it was not written by this program"
        )
    return commit


def load_manifest(out: Path) -> dict[str, Any]:
    """dataset.json, after its checksum was compared."""
    commit = load_commit(out)
    for name in (MANIFEST, INDEX):
        if not (out / name).is_file() or file_sha256(out / name) != commit["files"][name]:
            raise DatasetError(f"{out / name}: missing or damaged; run the shard stage again")
    manifest = _read(out / MANIFEST)
    if not isinstance(manifest.get("splits"), dict) or not isinstance(manifest.get("frame"), str):
        raise DatasetError(f"{out / MANIFEST}: lacks splits or frame; not written by this program")
    return manifest


def shard_files(marker: Path) -> dict[str, Any]:
    """Relative path -> [bytes, sha256] of a shard's files, as its marker says.

    Raises DatasetError for a marker that names anything outside its shard.
    """
    files = unseal(marker).get("files")
    if not isinstance(files, dict):
        raise DatasetError(f"{marker}: names no files; not written by this program")
    for name, entry in files.items():
        parts = PurePosixPath(name).parts
        pair = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], int)
        if name.startswith("/") or ".." in parts or "\0" in name or not parts or not pair:
            raise DatasetError(f"{marker}: names {name!r}, which is no file of its shard; refused")
    return files


def _read(path: Path) -> dict[str, Any]:
    try:
        value = read_json(path)
    except SchemaError as error:
        raise DatasetError(str(error)) from error
    if not isinstance(value, dict):
        raise DatasetError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def check_shard(out: Path, name: str, commit: dict[str, Any]) -> Path:
    """The shard's folder, if its marker is the committed one and its files have their sizes.

    A lost chunk reads as zeros in Zarr, so that a missing file must be found here. Of a dataset
    on an object store it is a copy in this machine's cache.
    """
    shard = afresh(out) / SHARDS / name
    marker = marker_of(shard)
    if not marker.is_file() or sha256_bytes(marker.read_bytes()) != commit["shards"].get(name):
        raise DatasetError(f"{marker}: missing, or not what {COMMIT} names; run `verify`")
    files = shard_files(marker)
    if is_remote(shard):
        from stages.shard.fetch import fetch_shard

        return fetch_shard(shard, commit["shards"][name], files)
    for file, (size, _) in files.items():
        path = shard / file
        if path.is_symlink() or not path.is_file() or path.stat().st_size != size:
            raise DatasetError(f"{path}: expected a file of {size} bytes; run `verify`")
    return shard


def read_groups(shard: Path) -> dict[str, dict[str, Any]]:
    """Attributes of every group by path; "" is the root."""
    groups: dict[str, dict[str, Any]] = {}
    for path in sorted(shard.rglob("zarr.json")):
        node = _node(path)
        if node["node_type"] == "group":
            where = path.parent.relative_to(shard).as_posix()
            groups["" if where == "." else where] = node["attributes"]
    if "" not in groups:
        raise DatasetError(f"{shard}: no zarr.json of its root group")
    return groups


def _node(path: Path) -> dict[str, Any]:
    """A node's metadata; of an array, only with a shape that a shard may have."""
    node = _read(path)
    if not isinstance(node.get("attributes", {}), dict) or node.get("zarr_format") != 3:
        raise DatasetError(f"{path}: expected the metadata of a Zarr v3 node")
    node.setdefault("attributes", {})
    if node.get("node_type") == "group":
        return node
    shape, dtype = node.get("shape"), node.get("data_type")
    whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    if node.get("node_type") != "array" or not whole or dtype not in DTYPES:
        raise DatasetError(
            f"{path}: expected an array with a shape and one of {', '.join(DTYPES)}, got "
            f"{node.get('node_type')!r:.40} {shape!r:.60} {dtype!r:.40}"
        )
    chunk = _inner_chunk(node)
    for what, lengths in (("the array", shape), ("a chunk", chunk)):
        if (size := math.prod(lengths) * np.dtype(dtype).itemsize) > ARRAY_LIMIT:
            raise DatasetError(
                f"{path}: {what} of shape {lengths} would take {size} bytes, over {ARRAY_LIMIT}"
            )
    return node


def _inner_chunk(node: dict[str, Any]) -> list[int]:
    """The shape that is decoded at once: of the sharding codec, else of the grid."""
    try:
        configurations = [
            c["configuration"]["chunk_shape"]
            for c in node["codecs"]
            if c["name"] == "sharding_indexed"
        ]
        chunk = (configurations or [node["chunk_grid"]["configuration"]["chunk_shape"]])[0]
        return [int(n) for n in chunk]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DatasetError(f"chunk shape of a Zarr array cannot be read: {error!r}") from error


def array_nodes(shard: Path) -> dict[str, dict[str, Any]]:
    """zarr.json of every array by its path in the shard."""
    nodes = {p.parent.relative_to(shard).as_posix(): _node(p)
             for p in sorted(shard.rglob("zarr.json"))}  # fmt: skip
    return {name: node for name, node in nodes.items() if node["node_type"] == "array"}


def read_shard(shard: Path) -> ShardArrays:
    """All arrays of a shard, in memory."""
    from stages.shard.backends.chunks import read_array

    try:
        arrays = {name: read_array(shard / name) for name in array_nodes(shard)}
    except DatasetError:
        raise
    except (ValueError, OSError, RuntimeError, NotImplementedError) as error:
        raise DatasetError(f"{shard}: an array cannot be read: {error}") from error
    return ShardArrays(arrays=arrays, groups=read_groups(shard))
