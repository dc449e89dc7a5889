"""This machine's copies of shards of object stores: which are in use, and which make room.

A process holds a shared lock on every copy that it has opened, until it ends: one byte each of one
file, which the kernel lets go of however the process ends. The locks are those of open file
descriptions, so a forked process shares those of its parent. A copy that anybody holds stays; one
that is being taken away is waited for and fetched again. Linux alone has such locks: elsewhere
nothing is ever taken away.
"""

import contextlib
import fcntl
import math
import os
import shutil
import struct
from functools import lru_cache
from pathlib import Path

from stages.shard.errors import DatasetError
from stages.storage import cache_folder

LIMIT_NAME, LIMIT_GB = "GRASP_CLOUDS_CACHE_GB", 100.0
LOCKS = ".locks"
CAN_LOCK = hasattr(fcntl, "F_OFD_SETLK")


def copy_folder(marker_sha256: str) -> Path:
    """Where the copy of a shard lies, from the checksum of its marker."""
    return cache_folder() / "shards" / marker_sha256


def limit_bytes() -> int:
    """GRASP_CLOUDS_CACHE_GB, else LIMIT_GB, in bytes. Raises DatasetError for no such number."""
    given = os.environ.get(LIMIT_NAME) or LIMIT_GB
    try:
        limit = float(given)
    except ValueError:
        limit = math.nan
    if not 0 <= limit < math.inf:
        raise DatasetError(
            f"{LIMIT_NAME}: expected gigabytes >= 0, up to which copies of shards are kept in "
            f"{cache_folder()}, got {given!r}; set a number, or unset it for {LIMIT_GB:g}"
        )
    return int(limit * 1e9)


def hold(copy: Path) -> None:
    """Keep a copy, there or about to be, from being taken away while this process lives."""
    with contextlib.suppress(OSError):  # read-only, or a file system without locks
        copy.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        os.utime(copy)
    if CAN_LOCK:
        with contextlib.suppress(OSError):
            _lock(_shared(copy.parent), copy, fcntl.F_RDLCK, fcntl.F_OFD_SETLKW)


def make_room(needed: int, folder: Path) -> None:
    """Take away copies in `folder` that nobody holds, the longest unused first.

    Stops as soon as `needed` bytes more keep all copies within the limit.
    """
    copies = [path for path in folder.iterdir() if path.is_dir()]
    sizes = {path: _size(path) for path in copies}
    over = needed + sum(sizes.values()) - limit_bytes()
    for copy in sorted(copies, key=_last_used):
        if over <= 0:
            return
        if CAN_LOCK and _take_away(copy):
            over -= sizes[copy]


def _take_away(copy: Path) -> bool:
    try:
        # Another file description than the one that holds: else our own locks would give way.
        with open(copy.parent / LOCKS, "r+b") as file:
            _lock(file.fileno(), copy, fcntl.F_WRLCK, fcntl.F_OFD_SETLK)
            shutil.rmtree(copy)
    except OSError:  # somebody holds it, or it belongs to another user
        return False
    return True


@lru_cache(maxsize=8)
def _shared(folder: Path) -> int:
    """The descriptor, never closed, through which this process holds copies in `folder`."""
    return os.open(folder / LOCKS, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _lock(descriptor: int, copy: Path, kind: int, how: int) -> None:
    """Lock a copy's byte of the file of locks."""
    place = int(copy.name[:15], 16)
    fcntl.fcntl(descriptor, how, struct.pack("hhqqi0q", kind, os.SEEK_SET, place, 1, 0))


def _size(folder: Path) -> int:
    """Bytes of the files in a folder that others may be filling or emptying."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _last_used(copy: Path) -> float:
    try:
        return copy.stat().st_mtime
    except OSError:
        return 0.0
