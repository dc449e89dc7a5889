"""One shard: arrays to a temporary sibling, fsync, rename, then the marker with checksums."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schemas.dataset import SCHEMA_VERSION, field_of
from stages.shard.arrays import ShardArrays
from stages.shard.check import check_content
from stages.shard.config import ShardConfig
from stages.shard.errors import DatasetError, ShardContentError
from stages.shard.layout import (
    SHARD_NAME,
    canonical,
    marker_of,
    publish_bytes,
    seal,
    sha256_bytes,
)
from stages.shard.layout import unseal as unseal_marker
from stages.storage import (
    CONNECTIONS,
    TEMPORARY,
    file_sha256,
    is_remote,
    list_files,
    read_bytes,
    remove_tree,
    sync,
    write_bytes,
)

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
    return {name: [size, file_sha256(folder / name)] for name, size in list_files(folder).items()}


def is_published(shard: Path, content: str | None = None) -> bool:
    """True when the marker is sound, names `content` and agrees with every file.

    An object store vouches for the bytes it took, so that there only their number is compared.
    """
    try:
        body = unseal_marker(marker_of(shard))
    except DatasetError:
        return False
    if content not in (None, body["content"]):
        return False
    if is_remote(shard):
        return list_files(shard) == {name: size for name, (size, _) in body["files"].items()}
    return body["files"] == checksums(shard)


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
        if is_remote(self.shard):
            try:
                self._upload()
                publish_bytes(marker, self.marker)
            finally:
                remove_tree(self.temporary)
            return
        if self.shard.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.rename(self.shard, old)
        os.rename(self.temporary, self.shard)
        sync(self.shard.parent)
        publish_bytes(marker, self.marker)
        shutil.rmtree(old, ignore_errors=True)

    def _upload(self) -> None:
        remove_tree(self.shard)

        def put(name: str) -> None:
            write_bytes(self.shard / name, read_bytes(self.temporary / name))

        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(put, list_files(self.temporary)))


@contextmanager
def scratch_of(folder: Path) -> Generator[Path]:
    """Where the shards of `folder` are written before they take their place.

    Beside them, or in a folder of this machine when they are on an object store. What fails or is
    interrupted leaves nothing there, and what a killed process leaves goes with the next writing.
    One process at a time may be in here for a `folder`.
    """
    if is_remote(folder):
        prefix = f"shards-{sha256_bytes(str(folder).encode())[:16]}-"
        for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=prefix) as name:
            yield Path(name)
        return
    try:
        yield folder
    except BaseException:
        for path in folder.glob(f"{TEMPORARY}*"):
            name = path.name.removeprefix(TEMPORARY).removesuffix(".commit.json")
            if SHARD_NAME.fullmatch(name):
                with suppress(OSError):
                    remove_tree(path)
        raise


def stage_shard(
    shard: Path, content: ShardArrays, config: ShardConfig, scratch: Path
) -> StagedShard | None:
    """Write the shard into `scratch`, or None when it is published already.

    What was published stays as it is until `swap`, also when the disk fills up here.
    """
    problems = check_content(content)
    if problems:
        raise ShardContentError(f"{shard.name}: " + "; ".join(problems))
    wanted = content_hash(content, config)
    if is_published(shard, wanted):
        return None
    temporary = scratch / f"{TEMPORARY}{shard.name}"
    shutil.rmtree(temporary, ignore_errors=True)
    _write_files(temporary, content, config)
    for path in sorted(temporary.rglob("*"), reverse=True):
        sync(path)
    sync(temporary)
    files = checksums(temporary)
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
