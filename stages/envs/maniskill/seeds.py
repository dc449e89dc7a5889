"""Seeds of sub-scenes, by the identity of what they hold."""

import hashlib
from collections.abc import Sequence

import numpy as np


def scene_seeds(seed: int, scene_ids: Sequence[str]) -> list[int]:
    """One seed (31 bits, as numpy's RandomState takes) a scene, from `seed` and its id alone."""
    out: list[int] = []
    for name in scene_ids:
        words = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], np.uint32)
        state = np.random.SeedSequence([seed, *words.tolist()]).generate_state(1)[0]
        out.append(int(state) >> 1)
    return out
