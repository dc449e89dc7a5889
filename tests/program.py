"""The program as a user starts it: its own process, its exit code and what it printed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def pipeline(*args: object, timeout_s: float = 120) -> "subprocess.CompletedProcess[str]":
    """`python -m pipeline ARGS` in the root of the repository."""
    command = [sys.executable, "-m", "pipeline", *map(str, args)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s)
