"""The simulation of many workers agrees with what can be reckoned by hand."""

import pytest

from benchmarks.simulate_workers import Costs, simulate

FREE = Costs(make_s=1e-6, schedule_s=1e-6, store_s=1e-6, take_s=1e-6)


def test_without_other_costs_workers_are_never_idle() -> None:
    for workers in (1, 7, 100):
        found = simulate(workers, FREE, times=[0.5])
        assert found.efficiency == pytest.approx(1.0, abs=0.01)
        assert found.blocks_s == pytest.approx(workers / 0.5, rel=0.02)


def test_the_slowest_station_sets_the_rate() -> None:
    slow = Costs(make_s=0.01, schedule_s=1e-6, store_s=1e-6, take_s=1e-6)
    assert simulate(1000, slow, times=[0.5]).blocks_s == pytest.approx(
        100, rel=0.06
    )  # a few markers wait
    slow = Costs(make_s=1e-6, schedule_s=1e-6, store_s=0.1, store_slots=4, take_s=1e-6)
    assert simulate(1000, slow, times=[0.5]).blocks_s == pytest.approx(40, rel=0.02)
