"""Which clouds come, in which order, from which process; stopped and gone on with."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.shard.backends.torch_loader import _Order
from stages.shard.errors import UnknownChoiceError
from stages.shard.order import batch_bounds, epoch_order
from stages.shard.read import PointCloudDataset, PointCloudLoader

SIZES = st.lists(st.integers(1, 40), max_size=8)


@st.composite
def cuts(draw):
    ends = np.cumsum([0, *draw(SIZES)]).tolist()
    blocks = list(pairwise(ends))
    return blocks, ends[-1], draw(st.integers(1, 7)), draw(st.integers(1, 9))


@given(cut=cuts(), buffer=st.integers(1, 50), seed=st.integers(0, 2**40), shuffle=st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_cloud_once_over_all_ranks_and_as_many_batches_for_each(cut, buffer, seed, shuffle):
    blocks, clouds, world, size = cut
    seen, steps = [], set()
    for rank in range(world):
        order = epoch_order(
            blocks, shuffle=shuffle, buffer=buffer, seed=seed, epoch=3, rank=rank, world_size=world
        )
        bounds = batch_bounds(clouds, size, rank=rank, world_size=world)
        batches = [order[a:b].tolist() for a, b in bounds]
        assert [x for batch in batches for x in batch] == order.tolist()
        assert all(0 < len(batch) <= size for batch in batches)
        seen += order.tolist()
        steps.add(len(batches))
        full = batch_bounds(clouds, size, rank=rank, world_size=world, drop_last=True)
        assert full == [(i * size, (i + 1) * size) for i in range(clouds // world // size)]
    assert sorted(seen) == list(range(clouds))
    if size > 1 and clouds >= world:
        assert len(steps) == 1
    assert max(steps) - min(steps) <= 1


def same(one, two):
    assert one.keys() == two.keys()
    for key, value in one.items():
        if isinstance(value, torch.Tensor):
            assert value.dtype == two[key].dtype, key
            assert torch.equal(value, two[key]), key
        elif isinstance(value, dict):
            same(value, two[key])
        else:
            assert value == two[key], key


def equal(ones, twos):
    assert len(ones) == len(twos)
    for one, two in zip(ones, twos, strict=True):
        same(one, two)


def keys(batches):
    return [key for b in batches for key in zip(b["scene_id"], b["view"].tolist(), strict=True)]


def jitter(item, rng):
    """An augmentation: noise on the points, and one number more."""
    noise = rng.normal(0, 1e-3, item["points"].shape).astype(np.float32)
    return item | {"points": item["points"] + torch.from_numpy(noise),
                   "scale": torch.tensor(rng.uniform())}  # fmt: skip


@pytest.mark.parametrize("frame", ["camera", "world"])
@pytest.mark.parametrize("sampling", ["random", "farthest"])
@pytest.mark.parametrize("points", [1, 45, 64, None])
def test_a_batch_is_the_collated_items(dataset, points, sampling, frame):
    source = PointCloudDataset(
        dataset, points=points, sampling=sampling, frame=frame, hand="jaw", protocol="fc"
    )
    loader = PointCloudLoader(source, 5, block=3, mix=2)
    loader.set_epoch(2)
    for (epoch, clouds), batch in zip(loader.plan(), loader, strict=True):
        same(batch, source.collate([source.item(i, epoch) for i in clouds]))


@pytest.mark.parametrize("augment", [jitter, None])
def test_workers_forked_and_spawned_give_what_this_process_gives(dataset, augment):
    """Both ways from a worker: in a tensor, and, with batches of one size, in a slot."""
    source = PointCloudDataset(dataset, points=32, augment=augment, seed=5)
    alone = list(PointCloudLoader(source, 4, block=4, mix=3))
    assert augment is None or alone[0]["scale"].shape == (4,)
    assert len(keys(alone)) == len(set(keys(alone))) == len(source)
    for start in ("fork", "spawn"):
        equal(alone, list(PointCloudLoader(
            source, 4, block=4, mix=3, num_workers=2, multiprocessing_context=start
        )))  # fmt: skip


def test_epochs_differ_and_workers_that_persist_see_them(dataset):
    source = PointCloudDataset(dataset, points=32, augment=jitter)
    alone = PointCloudLoader(source, 4, block=4)
    loader = PointCloudLoader(source, 4, block=4, num_workers=1, persistent_workers=True)
    first, second = list(loader), list(loader)
    assert keys(first) != keys(second)
    assert sorted(keys(first)) == sorted(keys(second))
    equal(first, list(alone))
    equal(second, list(alone))
    loader.set_epoch(0)
    equal(first, list(loader))


def test_slots_are_not_mixed_up_by_iterations_side_by_side_or_broken_off(dataset):
    source = PointCloudDataset(dataset, points=32)
    alone = list(PointCloudLoader(source, 2, block=4))
    loader = PointCloudLoader(source, 2, block=4, num_workers=2)
    one, two = iter(loader), iter(loader)
    both = [(next(one), next(two)) for _ in alone]
    equal(alone, [batch for batch, _ in both])
    equal(alone, [batch for _, batch in both])
    del one, two
    loader = PointCloudLoader(source, 2, block=4, num_workers=2, persistent_workers=True)
    broken_off = iter(loader)
    kept = [next(broken_off) for _ in range(3)]
    del broken_off
    loader.set_epoch(0)
    equal(alone, list(loader))
    equal(alone[:3], kept)


def test_what_is_asked_ahead_comes_once_and_before_it_is_needed(dataset):
    source = PointCloudDataset(dataset, points=32)
    loader = PointCloudLoader(source, 3, block=2, mix=4)
    asked, given = [], []
    for request in _Order(loader):
        asked += request.ahead.tolist()
        given += request.clouds
        assert asked[: len(given)] == given
    assert asked == given


def test_pinned_memory_without_a_gpu_is_said(dataset):
    with pytest.warns(UserWarning, match="no CUDA device is there, so nothing is pinned"):
        loader = PointCloudLoader(PointCloudDataset(dataset, points=32), 4, pin_memory=True)
    assert not next(iter(loader))["points"].is_pinned()


@pytest.mark.gpu
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_pinned(dataset, workers):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    source = PointCloudDataset(dataset, points=32, hand="jaw", protocol="fc")
    alone = list(PointCloudLoader(source, 4))
    pinned = list(PointCloudLoader(source, 4, num_workers=workers, pin_memory=True))
    equal(alone, pinned)
    for batch in pinned:
        tensors = [*batch.values(), *batch["grasps"].values()]
        assert all(x.is_pinned() for x in tensors if isinstance(x, torch.Tensor) and x.numel())


def test_no_two_clouds_draw_the_same_numbers(dataset):
    """Over ranks, epochs and places in a batch."""
    drawn = []
    for rank in range(2):
        loader = PointCloudLoader(
            PointCloudDataset(dataset, points=8, augment=jitter), 3, rank=rank, world_size=2
        )
        drawn += [x for _ in range(2) for batch in loader for x in batch["scale"].tolist()]
    assert len(set(drawn)) == len(drawn) == 2 * len(PointCloudDataset(dataset, points=8))


@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 0), (0, 1)])
@pytest.mark.parametrize("stop", [0, 1, 3])
def test_the_rest_of_an_epoch_is_bit_equal_after_a_stop(dataset, stop, before, after):
    def make(workers):
        source = PointCloudDataset(dataset, points=32, hand="jaw", protocol="fc", seed=1)
        return PointCloudLoader(source, 4, block=4, mix=2, num_workers=workers)

    whole = make(0)
    epochs = [list(whole), list(whole)]
    stopped = make(before)
    list(stopped)
    running = iter(stopped)
    given = [next(running) for _ in range(stop)]
    state = json.loads(json.dumps(stopped.state_dict()))
    del running
    resumed = make(after)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    equal(epochs[1], given + list(resumed))
    assert resumed.state_dict()["epoch"] == 2


def test_a_state_of_something_else_is_refused(dataset):
    source = PointCloudDataset(dataset, points=32)
    state = PointCloudLoader(source, 4).state_dict()
    with pytest.raises(ValueError, match="batch_size: 4 then, 5 now"):
        PointCloudLoader(source, 5).load_state_dict(state)
    other = PointCloudDataset(dataset, points=32, seed=9)
    with pytest.raises(ValueError, match="seed: 0 then, 9 now"):
        PointCloudLoader(other, 4).load_state_dict(state)


def test_ranks_of_a_real_dataset(dataset):
    source = PointCloudDataset(dataset)
    for world in (1, 2, 5):
        ranks = [list(PointCloudLoader(source, 4, block=4, rank=r, world_size=world))
                 for r in range(world)]  # fmt: skip
        assert len({len(batches) for batches in ranks}) == 1
        found = [key for batches in ranks for key in keys(batches)]
        assert len(found) == len(set(found)) == len(source)


def test_bad_arguments_are_named(dataset):
    source = PointCloudDataset(dataset)
    with pytest.raises(ValueError, match="rank: expected 0 <= rank < world_size, got 2 of 2"):
        PointCloudLoader(source, 4, rank=2, world_size=2)
    with pytest.raises(ValueError, match="batch_size: expected >= 1, got 0"):
        PointCloudLoader(source, 0)
    with pytest.raises(ValueError, match="in_order: expected True"):
        PointCloudLoader(source, 4, in_order=False)
    with pytest.raises(UnknownChoiceError, match=r"sampling 'grid'.*farthest, random"):
        PointCloudDataset(dataset, points=4, sampling="grid")
