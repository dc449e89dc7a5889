"""Other people's data, where this machine has it."""

import os
from pathlib import Path

REFERENCE = Path(
    os.environ.get(
        "SHARED_REFERENCE_DIR", Path(__file__).resolve().parents[2] / "shared" / "reference"
    )
)


def use_reference_hands() -> None:
    """`menagerie://` and `dexgraspbench://` read the reference folder, unless told otherwise."""
    for name, folder in (
        ("MENAGERIE_ROOT", REFERENCE / "menagerie"),
        ("DEXGRASPBENCH_HANDS", REFERENCE / "dexgraspbench" / "hands"),
    ):
        if folder.is_dir():
            os.environ.setdefault(name, str(folder))
