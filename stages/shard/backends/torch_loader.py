"""Shuffled batches of a `PointCloudDataset` for one rank, to be stopped and gone on with."""

import os
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler, get_worker_info

from stages.shard.backends.torch_data import Item, PointCloudDataset, tensors_of
from stages.shard.backends.torch_transport import InSlot, Slots, packed, unpacked
from stages.shard.fuse import FusedTable
from stages.shard.order import batch_bounds, epoch_order


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
        pin_memory: bool = False,
        **loader: Any,
    ) -> None:
        """
        `shuffle`: blocks of `block` neighbouring clouds are shuffled, then `block * mix` clouds
        at a time; a larger mix shuffles better, a larger block reads in longer runs.
        `rank`, `world_size`: by default those of torch.distributed where it is initialised.
        Ranks get equally many batches (see order.batch_bounds), with `drop_last` only full ones.
        `pin_memory`: tensors in page-locked memory, which a GPU copies from while it works.
        `loader`: more for torch's DataLoader: prefetch_factor, persistent_workers,
        multiprocessing_context, ...
        """
        if rank is None and world_size is None:
            rank, world_size = _distributed()
        if rank is None or world_size is None or not 0 <= rank < world_size:
            raise ValueError(f"rank: expected 0 <= rank < world_size, got {rank} of {world_size}")
        for name, value in (("batch_size", batch_size), ("block", block), ("mix", mix)):
            if value < 1:
                raise ValueError(f"{name}: expected >= 1, got {value}")
        if not loader.get("in_order", True):
            raise ValueError("in_order: expected True, since a state counts the batches given")
        self._pin = pin_memory and torch.cuda.is_available()
        if pin_memory and not self._pin:
            warnings.warn("pin_memory: no CUDA device is there, so nothing is pinned", stacklevel=2)
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
        self._batch_size, self._keeps = batch_size, bool(loader.get("persistent_workers"))
        self._in_flight = num_workers * (loader.get("prefetch_factor") or 2)
        self._batches = _Batches(dataset)
        self._loader: DataLoader[Any] = DataLoader(
            self._batches,
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
        if self._in_flight and (self._batches.slots is None or not self._keeps):
            # Their own for each set of workers, since two iterations may run side by side.
            self._batches.slots = self._new_slots()
        slots = self._batches.slots
        for batch in self._loader:
            self._done += 1
            out = tensors_of(unpacked(batch, slots))  # copies what lies in a slot
            yield _pinned(out) if self._pin else out
        self.set_epoch(self.epoch + 1)

    def _new_slots(self) -> Slots | None:
        """One for each batch that workers may have been asked for, and the one being copied."""
        if not self.dataset.plain or not hasattr(os, "memfd_create"):
            return None
        return Slots(self.dataset.layout(self._batch_size), self._in_flight + 1)

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


class _Request(NamedTuple):
    epoch: int
    clouds: list[int]
    slot: int
    ahead: NDArray[np.int64]  # clouds that come soon


class _Batches(Dataset[Any]):
    def __init__(self, dataset: PointCloudDataset) -> None:
        self.dataset = dataset
        self.slots: Slots | None = None

    def __getitem__(self, asked: _Request) -> Any:
        if len(asked.ahead):
            self.dataset.table.ahead(asked.ahead)
        if get_worker_info() is None:
            return self.dataset.batch_arrays(asked.clouds, asked.epoch)
        if self.slots is None:
            return packed(self.dataset.batch_arrays(asked.clouds, asked.epoch))
        rows = len(asked.clouds)
        out = self.slots.arrays(asked.slot % self.slots.count, rows)
        arrays = self.dataset.batch_arrays(asked.clouds, asked.epoch, out)
        small = {key: value for key, value in arrays.items() if key not in out}
        return InSlot(asked.slot % self.slots.count, rows, small)


class _Order(Sampler[_Request]):
    """Batches in their order; the first of each shuffle buffer asks ahead for the next buffer."""

    def __init__(self, loader: PointCloudLoader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[_Request]:
        plan, buffer = self._loader.plan(), self._loader._buffer
        order = np.concatenate([np.zeros(0, np.int64), *(clouds for _, clouds in plan)])
        given = asked = 0
        for number, (epoch, clouds) in enumerate(plan):
            upto = max(asked, (given // buffer + 2) * buffer)
            yield _Request(epoch, clouds, number, order[asked:upto])
            given, asked = given + len(clouds), upto


def _pinned(item: Item) -> Item:
    out = {k: v.pin_memory() if isinstance(v, torch.Tensor) else v for k, v in item.items()}
    return out | ({"grasps": _pinned(item["grasps"])} if "grasps" in item else {})


def _unchanged(batch: Any) -> Any:
    return batch


def _distributed() -> tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
