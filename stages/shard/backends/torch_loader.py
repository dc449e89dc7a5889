"""Shuffled batches of a `PointCloudDataset` for one rank, to be stopped and gone on with."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from stages.shard.backends.torch_data import Item, PointCloudDataset, tensors_of
from stages.shard.fuse import FusedTable
from stages.shard.order import batch_bounds, epoch_order

LARGE = 2**14
"""Bytes of an array from which on it comes from a worker in shared memory."""


class PointCloudLoader:
    """Batches of every cloud once an epoch, over all ranks; each epoch in another order.

    loader = PointCloudLoader(PointCloudDataset(out, points=2048), 32, num_workers=2)
    for epoch in range(10):
        for batch in loader:
            ...

    A batch and its order depend on the seed, the epoch and the rank, never on `num_workers`:
    batch k is read whole by worker k modulo `num_workers`.
    """

    def __init__(
        self,
        dataset: PointCloudDataset,
        batch_size: int,
        *,
        shuffle: bool = True,
        block: int = 32,
        mix: int = 16,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
        num_workers: int = 0,
        **loader: Any,
    ) -> None:
        """
        `shuffle`: blocks of `block` neighbouring clouds are shuffled, then `block * mix` clouds
        at a time; a larger mix shuffles better, a larger block reads in longer runs.
        `rank`, `world_size`: by default those of torch.distributed where it is initialised.
        Ranks get equally many batches (see order.batch_bounds), with `drop_last` only full ones.
        `loader`: more for torch's DataLoader: pin_memory, prefetch_factor, persistent_workers,
        multiprocessing_context, ...
        """
        if rank is None and world_size is None:
            rank, world_size = _distributed()
        if rank is None or world_size is None or not 0 <= rank < world_size:
            raise ValueError(f"rank: expected 0 <= rank < world_size, got {rank} of {world_size}")
        for name, value in (("batch_size", batch_size), ("block", block), ("mix", mix)):
            if value < 1:
                raise ValueError(f"{name}: expected >= 1, got {value}")
        self.dataset = dataset
        self._cut = {"rank": rank, "world_size": world_size}
        self._shuffle, self._block, self._buffer = shuffle, block, block * mix
        self._bounds = batch_bounds(len(dataset), batch_size, drop_last=drop_last, **self._cut)
        self.epoch, self._done, self._first = 0, 0, 0
        table = dataset.table
        clouds = table.clouds if isinstance(table, FusedTable) else table
        self._same = {
            "index": clouds.commit["files"], "clouds": len(dataset), "split": clouds.split,
            "points": dataset.points, "seed": dataset.seed, "batch_size": batch_size,
            "shuffle": shuffle, "block": block, "mix": mix, "drop_last": drop_last,
            "world_size": world_size,
        }  # fmt: skip
        self._loader: DataLoader[Any] = DataLoader(
            _Batches(dataset),
            batch_size=None,
            sampler=_Order(self),
            collate_fn=_unchanged,
            num_workers=num_workers,
            **loader,
        )

    def __len__(self) -> int:
        """Batches of an epoch, of this rank."""
        return len(self._bounds)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch from its start; without, epochs follow each other."""
        self.epoch, self._done, self._first = epoch, 0, 0

    def __iter__(self) -> Iterator[Item]:
        """The rest of the epoch after `load_state_dict`, else all of it."""
        self._done = self._first
        for batch in self._loader:
            self._done += 1
            yield tensors_of(_unpacked(batch) if isinstance(batch, _Packed) else batch)
        self.set_epoch(self.epoch + 1)

    def plan(self) -> list[tuple[int, list[int]]]:
        """Epoch and clouds of every batch that the next iteration gives."""
        order = epoch_order(
            self.dataset.table.blocks(self._block),
            shuffle=self._shuffle,
            buffer=self._buffer,
            seed=self.dataset.seed,
            epoch=self.epoch,
            **self._cut,
        ).tolist()
        return [(self.epoch, order[start:stop]) for start, stop in self._bounds[self._first :]]

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands, plain values; the same on every rank that is as far.

        Batches that workers have read ahead but nobody was given do not count.
        """
        return {"epoch": self.epoch, "batch": self._done, **self._same}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on behind the batch after which `state_dict` was taken, bit for bit.

        The number of workers may be another. Raises ValueError when anything else differs that
        decides what a batch holds: the data, the seed, the batch size, the number of ranks.
        """
        wrong = [
            f"{key}: {state.get(key)!r} then, {value!r} now"
            for key, value in self._same.items()
            if state.get(key) != value
        ]
        if wrong:
            raise ValueError("state of another loader: " + "; ".join(wrong))
        self.set_epoch(state["epoch"])
        self._first = self._done = state["batch"]


class _Batches(Dataset[Any]):
    def __init__(self, dataset: PointCloudDataset) -> None:
        self.dataset = dataset

    def __getitem__(self, batch: tuple[int, list[int]]) -> Any:
        epoch, clouds = batch
        arrays = self.dataset.batch_arrays(clouds, epoch)
        return arrays if get_worker_info() is None else _packed(arrays)


class _Packed(NamedTuple):
    """A batch on its way from a worker.

    Every tensor costs the two processes a connection and a file descriptor, more than the arrays
    of a camera are worth: so the large arrays travel in one tensor, the others by value.
    """

    buffer: torch.Tensor  # uint8; a NamedTuple, so that pin_memory finds it
    places: list[tuple[str, str, tuple[int, ...], int]]  # name, dtype, shape, first byte
    small: Item


def _packed(arrays: Item) -> _Packed:
    large = {key: v for key, v in arrays.items() if isinstance(v, np.ndarray) and v.nbytes >= LARGE}
    places: list[tuple[str, str, tuple[int, ...], int]] = []
    end = 0
    for key, array in large.items():
        places.append((key, array.dtype.str, array.shape, end))
        end += -(-array.nbytes // 64) * 64
    # Shared from the start, as torch's default_collate does it, saves a copy on the way.
    buffer = torch.empty(0, dtype=torch.uint8)
    buffer = buffer.set_(torch.UntypedStorage._new_shared(end), 0, (end,), (1,))
    view = buffer.numpy()
    for key, _, _, first in places:
        array = np.ascontiguousarray(large[key])
        view[first : first + array.nbytes] = array.reshape(-1).view(np.uint8)
    return _Packed(buffer, places, {key: v for key, v in arrays.items() if key not in large})


def _unpacked(packed: _Packed) -> Item:
    out = dict(packed.small)
    for key, dtype, shape, first in packed.places:
        kind = torch.from_numpy(np.empty(0, dtype)).dtype
        length = int(np.prod(shape)) * np.dtype(dtype).itemsize
        out[key] = packed.buffer[first : first + length].view(kind).reshape(shape)
    return out


class _Order(Sampler[tuple[int, list[int]]]):
    def __init__(self, loader: PointCloudLoader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[tuple[int, list[int]]]:
        return iter(self._loader.plan())


def _unchanged(batch: Any) -> Any:
    return batch


def _distributed() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
