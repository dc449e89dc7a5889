"""MuJoCo's warnings, kept off the terminal and out of MUJOCO_LOG.TXT for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import mujoco


@contextmanager
def no_warnings() -> Iterator[None]:
    """Warnings inside are dropped; what handled them before does so again afterwards."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(_drop)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _drop(message: str) -> None:
    del message
