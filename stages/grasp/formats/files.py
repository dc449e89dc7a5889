"""Files that are whole or absent."""

import os
from pathlib import Path


def write_atomic(path: Path, data: bytes) -> None:
    """Write `path` through a temporary sibling, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
