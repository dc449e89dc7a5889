"""The lock of an output, and the one message for a place that cannot be written."""

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Generator
from pathlib import Path

from pipeline.errors import LockedError, StorageError, UserError
from stages.storage import UNREACHABLE, is_remote

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


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
    if error.errno == UNREACHABLE:
        return StorageError(
            f"output {out}: {error.strerror}. Everything committed so far is kept; check the "
            "address, the credentials and AWS_ENDPOINT_URL, and run the same command again"
        )
    return None


@contextlib.contextmanager
def lock(out: Path) -> Generator[None]:
    """Hold OUT/.lock; the kernel lets go of it however the process ends.

    On an object store, which has no such thing, see pipeline/lease.py.
    """
    if is_remote(out):
        from pipeline.lease import lease

        with lease(out):
            yield
        return
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
            json.dump(who_we_are(), file)
            file.flush()
        except OSError as error:
            raise storage_error(out, error) or error from error
        yield


def who_we_are() -> dict[str, object]:
    """What a lock says of its holder."""
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def _holder(path: Path, out: Path) -> str:
    try:
        return in_use(out, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError):
        return in_use(out, None)


def in_use(out: Path, held: dict[str, object] | None) -> str:
    """The message of a LockedError; `held` is what the lock says, if it can be read."""
    who = f"process {held['pid']} on {held['host']}, since {held['since']}" if held else "a process"
    return f"output {out}: in use by {who}. Wait for it, stop it, or choose another --out"
