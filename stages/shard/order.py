"""Which cloud comes when: the order of an epoch, its share for a rank, its cut into batches.

Pure functions of the seed and the epoch, so that a loader can go on in the middle of an epoch
without having kept anything but the number of the batch.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


def epoch_order(
    blocks: Sequence[tuple[int, int]] | Index,
    *,
    shuffle: bool,
    buffer: int,
    seed: int,
    epoch: int,
    rank: int = 0,
    world_size: int = 1,
) -> Index:
    """Clouds of a rank in the order in which they come in an epoch.

    The blocks (start, stop), runs of clouds that lie side by side, are shuffled; every rank takes
    one run of what comes out, their lengths differ by one at most; and `buffer` clouds at a time
    are shuffled among themselves. Over all ranks every cloud comes exactly once.
    """
    order = np.arange(len(blocks))
    if shuffle:
        order = np.random.default_rng([seed, epoch]).permutation(order)
    runs = [np.arange(*blocks[b], dtype=np.int64) for b in order]
    clouds = np.concatenate([np.zeros(0, np.int64), *runs])
    mine = clouds[len(clouds) * rank // world_size : len(clouds) * (rank + 1) // world_size]
    if shuffle:
        rng = np.random.default_rng([seed, epoch, rank, world_size])
        for start in range(0, len(mine), buffer):
            rng.shuffle(mine[start : start + buffer])
    return mine


def batch_bounds(
    clouds: int, batch_size: int, *, rank: int = 0, world_size: int = 1, drop_last: bool = False
) -> list[tuple[int, int]]:
    """Where to cut a rank's order into batches, (start, stop) each, for a split of `clouds`.

    Every rank gets equally many, so that none waits for another's gradients: where a rank has
    one cloud less and with it one batch less, its last batch gives one cloud away. Only with
    batches of one cloud, or fewer clouds than ranks, may ranks differ by one batch.
    `drop_last` gives full batches only, equally many.
    """
    count = clouds * (rank + 1) // world_size - clouds * rank // world_size
    if drop_last:
        steps = clouds // world_size // batch_size
        return [(i * batch_size, (i + 1) * batch_size) for i in range(steps)]
    bounds = [(i, min(i + batch_size, count)) for i in range(0, count, batch_size)]
    most = -(-clouds // world_size)
    if len(bounds) < -(-most // batch_size) and bounds and batch_size > 1:
        start = bounds.pop()[0]
        bounds += [(start, count - 1), (count - 1, count)]
    return bounds
