"""A lock on an object store: OUT/.lock, made by a conditional PUT and renewed while it is held.

A holder that is killed cannot let go. Its lease is over when it has not renewed it for EXPIRY_S,
measured by who waits (no clock of another machine is trusted), or at once when it ran among the
processes that this one can see, and is gone. Two waiters may take over at the same moment: each
looks again after SETTLE_S and the loser gives up. A holder that slept through its own expiry stops
as soon as it sees the other's lease.
"""

import _thread
import contextlib
import json
import os
import threading
import time
import uuid
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

from pipeline.errors import LockedError
from pipeline.files import in_use, storage_error, who_we_are
from stages.storage import reaching, read_bytes, write_bytes

RENEW_S = 10.0
EXPIRY_S = 60.0
SETTLE_S = 1.0
POLL_S = 2.0


@contextlib.contextmanager
def lease(out: Path) -> Generator[None]:
    """Hold OUT/.lock; raises LockedError when another process does."""
    path = out / ".lock"
    mine = who_we_are() | {"token": uuid.uuid4().hex, "system": _system()}
    try:
        while not _create(path, mine):
            _outwait(path, out)
            path.unlink(missing_ok=True)
        time.sleep(SETTLE_S)
        if (held := _read(path)) is None or held.get("token") != mine["token"]:
            raise LockedError(in_use(out, held))
    except OSError as error:
        if isinstance(error, LockedError):
            raise
        raise storage_error(out, error) or error from error
    done, lost = threading.Event(), threading.Event()
    thread = threading.Thread(target=_renew, args=(path, mine, done, lost), daemon=True)
    thread.start()
    try:
        yield
    except (KeyboardInterrupt, SystemExit):  # by what a program does at SIGINT
        if not lost.is_set():
            raise
        raise LockedError(
            f"output {out}: another process took over while this one stood still for more than "
            f"{EXPIRY_S:g} s. What is committed is kept; run again when the other has ended"
        ) from None
    finally:
        done.set()
        thread.join()
        with contextlib.suppress(OSError):
            if (held := _read(path)) is not None and held.get("token") == mine["token"]:
                path.unlink(missing_ok=True)


def _create(path: Path, body: dict[str, Any]) -> bool:
    """False when there is a lock already."""
    place = cast(Any, path)
    try:
        with reaching(path):
            place.fs.pipe_file(place.path, json.dumps(body).encode(), mode="create")
    except FileExistsError:
        return False
    return True


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(read_bytes(path))
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) and {"pid", "host", "since"} <= set(found) else None


def _outwait(path: Path, out: Path) -> None:
    """Return when the lease is over; LockedError as soon as its holder shows that it lives."""
    first = _read(path)
    end = time.monotonic() + EXPIRY_S
    while time.monotonic() < end:
        if first is not None and first.get("system") == _system() and not _lives(first["pid"]):
            return
        time.sleep(POLL_S)
        now = _read(path)
        if now is None:
            return
        if first is not None and now != first:
            raise LockedError(in_use(out, now))
        first = first or now


def _lives(pid: object) -> bool:
    try:
        os.kill(int(cast(int, pid)), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, TypeError):
        return True
    return True


def _system() -> str:
    """What says that two processes see each other: one boot of one machine, one space of pids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return uuid.uuid4().hex  # nobody's


def _renew(path: Path, body: dict[str, Any], done: threading.Event, lost: threading.Event) -> None:
    """Renew until `done`; when another holds the lease, stop the run as Ctrl-C would."""
    number = 0
    while not done.wait(RENEW_S):
        number += 1
        with contextlib.suppress(OSError):  # the next time, or the work itself will say so
            held = _read(path)
            if held is None or held.get("token") == body["token"]:
                write_bytes(path, json.dumps(body | {"renewed": number}).encode())
                continue
            lost.set()
            _thread.interrupt_main()
            return
