"""Files that are whole or absent: temporary sibling, fsync, rename. And the lock of an output."""

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO

from pipeline.errors import LockedError, StorageError, UserError

TEMPORARY = ".tmp-"
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


def write_atomic(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write `path` so that any reader, at any moment, sees the old bytes or all the new ones."""
    temporary = path.with_name(f"{path.name}{TEMPORARY}{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """`write_atomic` of bytes at hand."""

    def put(file: IO[bytes]) -> None:
        file.write(data)

    write_atomic(path, put)


def sync_folder(folder: Path) -> None:
    """A rename lasts through a power cut only once its folder is on disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def storage_error(out: Path, error: OSError) -> UserError | None:
    """The one clear message for a disk that cannot be written; None for other errors."""
    if error.errno in FULL:
        return StorageError(
            f"output {out}: the disk is full ({error.strerror}). Everything committed so far is "
            "kept; free some space or choose another --out, and run the same command again"
        )
    if error.errno in READ_ONLY:
        return StorageError(
            f"output {out}: cannot be written ({error.strerror}: {error.filename}). Expected a "
            "folder this user may write to; fix its permissions or choose another --out"
        )
    return None


@contextlib.contextmanager
def lock(out: Path) -> Generator[None]:
    """Hold OUT/.lock; the kernel lets go of it however the process ends."""
    import fcntl

    path = out / ".lock"
    try:
        file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 - held open below
    except OSError as error:
        raise storage_error(out, error) or error from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LockedError(_holder(path, out)) from error
        try:
            file.truncate(0)
            since = time.strftime("%Y-%m-%d %H:%M:%S")
            json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": since}, file)
            file.flush()
        except OSError as error:
            raise storage_error(out, error) or error from error
        yield


def _holder(path: Path, out: Path) -> str:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        who = f"process {held['pid']} on {held['host']}, since {held['since']}"
    except (OSError, ValueError, KeyError):
        who = "another process"
    return f"output {out}: in use by {who}. Wait for it, stop it, or choose another --out"
