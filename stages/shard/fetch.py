"""Shards of an object store, copied to this machine's cache when they are first read."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from stages.shard.cache import copy_folder, hold, make_room
from stages.shard.errors import DatasetError
from stages.shard.layout import sha256_bytes
from stages.storage import CONNECTIONS, read_bytes, write_bytes


def fetch_shard(shard: Path, marker_sha256: str, files: Mapping[str, Any]) -> Path:
    """The local copy of a shard, named by its marker's checksum, so that it is never stale.

    `files` is what the marker names (`shard_files`). Each file is compared with its checksum and
    appears whole; several processes may fetch the same shard. It stays as long as this process
    lives; to make room for it others may go (`cache.make_room`). Raises DatasetError for other
    bytes.
    """
    copy = copy_folder(marker_sha256)
    hold(copy)
    folder = copy / shard.name

    def missing(name: str) -> bool:
        path = folder / name
        return not path.is_file() or path.stat().st_size != files[name][0]

    def fetch(name: str) -> None:
        size, sha256 = files[name]
        try:
            data = read_bytes(shard / name)
        except FileNotFoundError as error:
            raise DatasetError(f"{shard / name}: missing; run `verify`") from error
        if len(data) != size or sha256_bytes(data) != sha256:
            raise DatasetError(f"{shard / name}: not the bytes that were written; run `verify`")
        write_bytes(folder / name, data)

    if wanted := [name for name in files if missing(name)]:
        make_room(sum(files[name][0] for name in wanted), copy.parent)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(fetch, wanted))
    return folder
