"""How a batch comes from a DataLoader's worker: the large arrays through memory, the rest by value.

Every tensor that torch hands over costs the two processes a connection, a file descriptor and the
first touch of each of its pages: several times what reading the clouds takes. So batches whose size
is known in advance are written to slots which the processes share and use again and again, and
copied out once; others travel as one tensor each.
"""

import mmap
import os
from collections.abc import Mapping
from multiprocessing.reduction import DupFd
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Layout = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
"""Shape and dtype of arrays by name."""

LARGE = 2**14
"""Bytes of an array from which on it travels in shared memory."""
ALIGNED = 64


class Slots:
    """`count` places in shared memory, each for arrays of a layout; Linux only.

    Anonymous files, so that the size of /dev/shm, 64 MB in many containers, is no limit. Goes to
    workers that are forked, and pickles to those that are spawned.
    """

    def __init__(self, layout: Layout, count: int, fd: int | None = None) -> None:
        self.layout, self.count = dict(layout), count
        self._places, size = _places(self.layout)
        self._size = size
        self._fd = os.memfd_create("batches") if fd is None else fd
        if fd is None:
            os.ftruncate(self._fd, max(1, size * count))
        self._data = mmap.mmap(self._fd, max(1, size * count))

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)

    def __reduce__(self) -> tuple[Any, ...]:
        return _attached, (self.layout, self.count, DupFd(self._fd))

    def arrays(self, number: int, rows: int) -> Arrays:
        """The first rows of the arrays of a slot, as they lie there."""
        data = np.frombuffer(self._data, np.uint8, self._size, number * self._size)
        return {key: array[:rows] for key, array in _views(self.layout, self._places, data).items()}


def _attached(layout: Layout, count: int, fd: Any) -> Slots:
    return Slots(layout, count, fd.detach())


class InSlot(NamedTuple):
    """A batch of `rows` clouds whose large arrays lie in a slot."""

    number: int
    rows: int
    small: dict[str, Any]


class Packed(NamedTuple):
    """A batch whose large arrays travel in one tensor."""

    buffer: torch.Tensor  # uint8
    layout: Layout
    small: dict[str, Any]


def packed(arrays: dict[str, Any]) -> Packed:
    large = {key: v for key, v in arrays.items() if isinstance(v, np.ndarray) and v.nbytes >= LARGE}
    layout = {key: (v.shape, v.dtype) for key, v in large.items()}
    places, size = _places(layout)
    # Shared from the start, as torch's default_collate does it, saves a copy on the way.
    buffer = torch.empty(0, dtype=torch.uint8)
    buffer = buffer.set_(torch.UntypedStorage._new_shared(size), 0, (size,), (1,))
    for key, view in _views(layout, places, buffer.numpy()).items():
        view[...] = large[key]
    return Packed(buffer, layout, {key: v for key, v in arrays.items() if key not in large})


def unpacked(batch: Any, slots: Slots | None) -> dict[str, Any]:
    """A batch with the arrays that it came with; those of a slot still lie there."""
    if isinstance(batch, InSlot):
        assert slots is not None
        return batch.small | slots.arrays(batch.number, batch.rows)
    if isinstance(batch, Packed):
        places, _ = _places(batch.layout)
        views = _views(batch.layout, places, batch.buffer.numpy())
        return batch.small | {key: torch.from_numpy(view) for key, view in views.items()}
    return batch


def _places(layout: Layout) -> tuple[dict[str, int], int]:
    """First byte of each array, and the bytes of all."""
    places, end = {}, 0
    for key, (shape, dtype) in layout.items():
        places[key] = end
        end += -(-int(np.prod(shape)) * dtype.itemsize // ALIGNED) * ALIGNED
    return places, end


def _views(layout: Layout, places: Mapping[str, int], data: NDArray[np.uint8]) -> Arrays:
    return {
        key: np.ndarray(shape, dtype, data.data, places[key])
        for key, (shape, dtype) in layout.items()
    }
