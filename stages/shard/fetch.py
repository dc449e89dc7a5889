"""Shards of an object store, copied to this machine's cache when they are first read."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from stages.shard.errors import DatasetError
from stages.shard.layout import sha256_bytes
from stages.storage import CONNECTIONS, cache_folder, read_bytes, write_bytes


def fetch_shard(shard: Path, marker_sha256: str, files: Mapping[str, Any]) -> Path:
    """The local copy of a shard, named by its marker's checksum, so that it is never stale.

    `files` is what the marker names (`shard_files`). Each file is compared with its checksum and
    appears whole; several processes may fetch the same shard. Raises DatasetError for other bytes.
    """
    folder = cache_folder() / "shards" / marker_sha256 / shard.name

    def fetch(name: str) -> None:
        size, sha256 = files[name]
        target = folder / name
        if target.is_file() and target.stat().st_size == size:
            return
        try:
            data = read_bytes(shard / name)
        except FileNotFoundError as error:
            raise DatasetError(f"{shard / name}: missing; run `verify`") from error
        if len(data) != size or sha256_bytes(data) != sha256:
            raise DatasetError(f"{shard / name}: not the bytes that were written; run `verify`")
        write_bytes(target, data)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(fetch, files))
    return folder
