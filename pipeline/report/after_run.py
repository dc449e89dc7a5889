"""The report at the end of a run, which never fails the run."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from stages.storage import is_remote

REPORT = "report.html"
TIMEOUT_S = 600.0


def report_after_run(out: Path, say: Callable[[str], None]) -> None:
    """In a process of its own, which may crash or take too long; either is one line."""
    place = str(out if is_remote(out) else out.resolve())
    command = [sys.executable, "-m", "pipeline", "report", place]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        say(
            f"warning: no report: nothing within {TIMEOUT_S:.0f} s; the output is not touched by it"
        )
        return
    except OSError as error:
        say(f"warning: no report: {error}")
        return
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        say(f"warning: no report: {last}")
        return
    for line in done.stdout.splitlines():
        say(line)
