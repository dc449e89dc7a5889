"""What the minimal shader's int16 millimetres say, in metres."""

import numpy as np
from numpy.typing import NDArray

DEPTH_STEP = 1e-3  # m; the shader cuts off what is below a whole millimetre


def depth_metres(depth_mm: NDArray[np.int16]) -> NDArray[np.float32]:
    """z-depth in m, NaN where `depth_mm` is 0. The middle of each step, so that a cloud is not
    half a millimetre too near: within DEPTH_STEP / 2 of the true depth."""
    metres = (depth_mm.astype(np.float32) + np.float32(0.5)) * np.float32(DEPTH_STEP)
    return np.where(depth_mm > 0, metres, np.float32(np.nan))
