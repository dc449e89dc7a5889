"""The program as a user starts it: its own process, its exit code and what it printed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def pipeline(*args: object, timeout_s: float = 120) -> "subprocess.CompletedProcess[str]":
    """`python -m pipeline ARGS` in the root of the repository."""
    command = [sys.executable, "-m", "pipeline", *map(str, args)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s)


def python(program: str) -> str:
    """What a program prints in a process of its own, which must end well."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


def packages_of(imports: str) -> set[str]:
    """Top-level packages, but for numpy and the standard library, that `imports` load."""
    program = (
        "import sys, numpy, numpy.random\nbefore = set(sys.modules)\n"
        f"{imports}\n"
        "new = {m.partition('.')[0] for m in set(sys.modules) - before}\n"
        "print(*sorted(new - sys.stdlib_module_names - {'numpy'}))"
    )
    return set(python(program).split())
