"""What the scripts that write a page of the documentation do with it."""

import sys
from pathlib import Path


def write_or_check(path: Path, new: str) -> None:
    """Write the page; with `--check` only compare, and exit with a message when it differs."""
    if "--check" in sys.argv:
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        sys.exit(f"docs/{path.name} is out of date: run this script" if new != old else 0)
    path.write_text(new, encoding="utf-8")
