"""Hours and bytes before they are spent: from recorded blocks, or from a few items tried."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.config import build_config
from pipeline.estimate import (
    Range,
    StageEstimate,
    calibrate,
    estimate,
    estimate_table,
    sample,
    spread,
)
from pipeline.runner import survey
from pipeline.store import Store
from tests.pipeline.toy import REGISTRY, planned, run_toy

PAUSE = 0.05  # s an item takes, which is what an estimate must find
SLOW: dict[str, Any] = {
    "walk": {"count": 400, "pause_s": PAUSE},
    "pair": {"views": 3, "pause_s": PAUSE},
}


def estimates(out: Path, data: dict[str, Any]) -> tuple[dict[str, StageEstimate], list[str]]:
    plans, store, said = planned(data), Store(out), list[str]()
    _, states = survey(store, plans, retry=False, deep=False)
    config = build_config(data, registry=REGISTRY)
    found = estimate(config, plans, states, store, say=said.append)
    return {e.name: e for e in found}, said


def test_a_calibration_finds_what_an_item_takes_and_leaves_no_trace(tmp_path: Path) -> None:
    found, said = estimates(tmp_path / "out", SLOW)
    assert said == ["calibration: a few items of walk, pair in a scratch folder"]
    assert not (tmp_path / "out").exists()
    assert (found["walk"].todo, found["pair"].todo) == (400, 3 * 399)
    for e in found.values():
        assert e.seconds is not None
        assert e.size is not None
        assert PAUSE * e.todo <= e.seconds.low <= e.seconds.high
        assert e.seconds.low < 3 * PAUSE * e.todo
        assert 400 < e.size.low / e.todo <= e.size.high / e.todo < 5000
    assert "to do" in estimate_table(list(found.values()), 2)


def test_recorded_blocks_are_used_and_only_what_is_left_counts(tmp_path: Path) -> None:
    small = {"walk": {"count": 8, "pause_s": PAUSE}, "pair": {"views": 3, "pause_s": PAUSE}}
    run_toy(tmp_path, small)
    found, said = estimates(tmp_path, SLOW)
    assert said == []
    assert "blocks of OUT" in found["walk"].source
    assert found["walk"].todo == 392
    assert found["walk"].seconds is not None
    assert found["walk"].seconds.low >= 392 * PAUSE
    done, _ = estimates(tmp_path, small)
    assert {e.source for e in done.values()} == {"done"}
    assert all(e.seconds == Range(low=0, high=0) for e in done.values())


def test_failing_items_do_not_stop_a_calibration() -> None:
    data = {"walk": {"count": 5, "fail": ["w000"]}}
    markers = calibrate(build_config(data, registry=REGISTRY), planned(data))
    assert len(markers["walk"]) == 5
    assert 0 < len(markers["pair"]) < 4


def test_a_stage_that_could_not_be_timed_is_unknown() -> None:
    row = StageEstimate(name="x", items=2, todo=2, seconds=None, size=None, source="0 items tried")
    assert "unknown" in estimate_table([row], 1)


def test_the_sample_is_spread_and_closed() -> None:
    plans = planned({"walk": {"count": 100}})
    few = sample(plans, 4)
    items = [item.id for item in few["pair"].items]
    assert items[0] == "w000-w001/v0"
    assert items[-1] == "w098-w099/v1"
    assert len(items) == 4
    known = {("walk", item.id) for item in few["walk"].items}
    assert known == {place for item in few["pair"].items for place in item.inputs}
    assert few["pair"].keys["w000-w001/v0"] == plans["pair"].keys["w000-w001/v0"]
    assert len(sample(planned({"walk": {"count": 2}}), 9)["pair"].items) == 2


def test_spread() -> None:
    assert spread([1.0, 3.0]) == Range(low=1.0, high=3.0)
    many = spread([1.0, 3.0] * 50)
    assert many.low == pytest.approx(2 - 2 * (100 / 99) ** 0.5 / 10)
    assert many.high == pytest.approx(2 + 2 * (100 / 99) ** 0.5 / 10)
    assert spread([2.0] * 50) == Range(low=1.8, high=2.2)
    with pytest.raises(ValueError, match="no values"):
        spread([])
