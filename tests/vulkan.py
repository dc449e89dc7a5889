"""Whether SAPIEN can draw here. In CI, where it must, a test that cannot draw fails."""

import os
from functools import lru_cache

import pytest

from pipeline.doctor import try_program
from pipeline.vulkan import DRAWS, SCRIPT


@lru_cache(maxsize=1)
def problem() -> str:
    """ "" when SAPIEN draws on a CPU device or better, else why not."""
    return try_program(DRAWS)[1]


def need_vulkan() -> None:
    """Skip, or under CI fail, with the reason."""
    if not problem():
        return
    reason = f"SAPIEN cannot draw: {problem()}; {SCRIPT}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
