"""NVIDIA Warp, started quietly: one code for CPU and CUDA.

Kernels are compiled when first used and kept in Warp's cache (`WARP_CACHE_PATH`). Several
processes may compile at once: each builds in a folder of its own and renames it.
"""

import os
import sys
from functools import cache

import warp as wp

from stages.scene.granular.errors import GrainsError

# No gradients are taken, which halves the time to compile. For a generic CPU, so that machines of
# one architecture give the same bits: without fused multiply-adds that only some have.
MODULE_OPTIONS = {"enable_backward": False, "cpu_compiler_flags": ""}


@cache
def start() -> None:
    """Initialise Warp once per process; without a CUDA driver it would say so on stderr."""
    wp.config.log_level = wp.LOG_ERROR
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        wp.init()
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def checked(device: str) -> str:
    """`device` with Warp started; raises GrainsError when there is none such."""
    start()
    if device.startswith("cuda") and not wp.is_cuda_available():
        raise GrainsError(f"device {device}: Warp finds no CUDA device here; use cpu")
    return device


def default_device() -> str:
    """ "cuda:0" when there is one, else "cpu"."""
    start()
    return "cuda:0" if wp.is_cuda_available() else "cpu"
