"""One shard: arrays to a temporary sibling, fsync, rename, then the marker with checksums."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schemas.dataset import SCHEMA_VERSION, field_of
from stages.shard.arrays import ShardArrays
from stages.shard.check import check_content
from stages.shard.config import ShardConfig
from stages.shard.errors import DatasetError, ShardContentError
from stages.shard.layout import canonical, fsync_path, marker_of, publish_bytes, seal, sha256_file
from stages.shard.layout import unseal as unseal_marker

CUT = (
    "scenes_per_shard", "chunk_points", "chunks_per_file", "compression", "compression_level",
)  # fmt: skip
"""The fields of the config that say how a shard is cut, not what is in it."""


def content_hash(content: ShardArrays, config: ShardConfig) -> str:
    """Of everything that decides the shard's bytes: arrays, attributes, chunking, compression."""
    digest = hashlib.sha256()
    settings = [getattr(config, name) for name in CUT]
    digest.update(canonical([SCHEMA_VERSION, settings, content.groups]))
    for name in sorted(content.arrays):
        array = np.ascontiguousarray(content.arrays[name])
        digest.update(canonical([name, array.dtype.name, list(array.shape)]))
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


def checksums(folder: Path) -> dict[str, list[Any]]:
    """Relative path -> [bytes, sha256] of every file under `folder`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): [path.stat().st_size, sha256_file(path)]
        for path in files
    }


def is_published(shard: Path, content: str | None = None) -> bool:
    """True when the marker is sound, names `content` and agrees with every file."""
    try:
        body = unseal_marker(marker_of(shard))
    except DatasetError:
        return False
    return content in (None, body["content"]) and body["files"] == checksums(shard)


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedShard:
    """A complete shard under its temporary name, ready to take the place of a published one."""

    shard: Path
    temporary: Path
    marker: bytes

    def swap(self) -> None:
        """At every moment a reader finds the old shard with its marker, no marker, or the new."""
        marker, old = marker_of(self.shard), self.shard.with_name(f".tmp-old-{self.shard.name}")
        marker.unlink(missing_ok=True)
        if self.shard.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.rename(self.shard, old)
        os.rename(self.temporary, self.shard)
        fsync_path(self.shard.parent)
        publish_bytes(marker, self.marker)
        shutil.rmtree(old, ignore_errors=True)


def stage_shard(shard: Path, content: ShardArrays, config: ShardConfig) -> StagedShard | None:
    """Write the shard under a temporary name, or None when it is published already.

    What was published stays as it is until `swap`, also when the disk fills up here.
    """
    problems = check_content(content)
    if problems:
        raise ShardContentError(f"{shard.name}: " + "; ".join(problems))
    wanted = content_hash(content, config)
    if is_published(shard, wanted):
        return None
    temporary = shard.with_name(f".tmp-{shard.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        _write_files(temporary, content, config)
        for path in sorted(temporary.rglob("*"), reverse=True):
            fsync_path(path)
        fsync_path(temporary)
        files = checksums(temporary)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    body = {"content": wanted, "files": files, "schema_version": SCHEMA_VERSION}
    return StagedShard(shard=shard, temporary=temporary, marker=seal(body))


def _write_files(folder: Path, content: ShardArrays, config: ShardConfig) -> None:
    from stages.shard.backends.zarr3 import write_array, write_group

    for group, attributes in content.groups.items():
        extra = {"schema_version": SCHEMA_VERSION} if not group else {}
        write_group(folder / group, attributes | extra)
    for name, array in content.arrays.items():
        dimensions = tuple(d if isinstance(d, str) else None for d in field_of(name).shape)
        attributes = array_attributes(name, content.groups)
        write_array(
            folder / name, array, dimensions=dimensions, attributes=attributes, config=config
        )


def array_attributes(name: str, groups: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Attributes of an array: its dictionary entry, frame and joint names written out."""
    attributes = field_of(name).attributes(groups[""].get("frame", ""))
    if name.endswith("_qpos"):
        attributes["joint_names"] = groups[name.rpartition("/")[0]]["joint_names"]
    return attributes
