"""Whether SAPIEN can draw here. In CI, where it must, a test that cannot draw fails."""

import os
from functools import lru_cache

import pytest

from pipeline.doctor import try_program

DRAWS = "import sapien; sapien.render.RenderSystem(sapien.Device('cpu'))"


@lru_cache(maxsize=1)
def problem() -> str:
    """ "" when SAPIEN draws on a CPU device or better, else why not."""
    return try_program(DRAWS)[1]


def need_vulkan() -> None:
    """Skip, or under CI fail, with the reason."""
    if not problem():
        return
    reason = f"SAPIEN cannot draw: {problem()}; see scripts/install_software_vulkan.sh"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
