"""Other people's data, where this machine has it."""

import os
from pathlib import Path

REFERENCE = Path(
    os.environ.get(
        "SHARED_REFERENCE_DIR", Path(__file__).resolve().parents[2] / "shared" / "reference"
    )
)
