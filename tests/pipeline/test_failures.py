"""Every item ends with one coded outcome, whatever happens to it."""

import time
from pathlib import Path

import pytest

from pipeline.errors import BudgetError
from pipeline.executors.processes import ProcessExecutor
from pipeline.runner import RunResult
from pipeline.work import work
from tests.pipeline.toy import run_toy

BASE = {"walk": {"count": 8}, "block_size": 4, "max_failure_fraction": 0.5}


def with_fault(**fault: object) -> dict[str, object]:
    return BASE | {"walk": {"count": 8} | fault}


def codes(result: RunResult, stage: str) -> dict[str, str | None]:
    return {item_id: state.code for item_id, state in result.states[stage].items()}


def test_a_coded_failure_stops_only_what_hangs_on_it(tmp_path: Path) -> None:
    result, _ = run_toy(tmp_path, with_fault(fail=["w000"]))
    assert codes(result, "walk")["w000"] == "bad_walk"
    assert result.summaries[0].codes == {"bad_walk": 1, "ok": 7}
    assert result.summaries[1].codes == {"upstream_failed": 2, "ok": 12}
    assert result.states["pair"]["w000-w001/v0"].message == "walk w000: bad_walk"
    assert result.summaries[1].failed == 0  # counted where it failed


def test_a_coded_failure_is_an_outcome_and_is_not_repeated(tmp_path: Path) -> None:
    run_toy(tmp_path, with_fault(fail=["w000"]))
    result, _ = run_toy(tmp_path, BASE, retry=True)
    assert result.did_nothing
    assert codes(result, "walk")["w000"] == "bad_walk"


def test_an_exception_costs_its_item_alone(tmp_path: Path) -> None:
    result, _ = run_toy(tmp_path, with_fault(throw=["w002"]))
    assert result.summaries[0].codes == {"crashed": 1, "ok": 7}
    message = result.states["walk"]["w002"].message
    assert message.startswith("ArithmeticError: no walk for w002 (toy.py:")


def test_a_dying_worker_costs_its_item_alone(tmp_path: Path) -> None:
    result, _ = run_toy(tmp_path, with_fault(die=["w005"]), workers=2)
    assert result.summaries[0].codes == {"crashed": 1, "ok": 7}
    assert "signal 9" in result.states["walk"]["w005"].message


def test_a_hanging_item_is_timed_out_and_its_neighbours_are_not(tmp_path: Path) -> None:
    start = time.monotonic()
    data = with_fault(hang=["w001"]) | {"item_timeout_s": 1.5, "block_size": 2}
    result, _ = run_toy(tmp_path, data, workers=2)
    assert result.summaries[0].codes == {"timed_out": 1, "ok": 7}
    assert result.states["walk"]["w001"].message == "no result within 1.5 s"
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("fault", ["throw", "die"])
def test_retry_repeats_crashes_and_heals_what_hangs_on_them(tmp_path: Path, fault: str) -> None:
    clean = run_toy(tmp_path / "clean", BASE)[1]
    out = tmp_path / "out"
    run_toy(out, with_fault(**{fault: ["w003"]}), workers=1)
    # Without being asked, a crash is not repeated: it is an outcome.
    assert run_toy(out, BASE)[0].did_nothing
    # A retry that crashes again stays a crash and loses nothing.
    again, _ = run_toy(out, with_fault(throw=["w003"]), retry=True)
    assert again.summaries[0].codes == {"crashed": 1, "ok": 7}
    result, digest = run_toy(out, BASE, retry=True)
    assert result.summaries[0].done_now == 1
    assert result.summaries[1].done_now == 4
    assert digest == clean
    assert run_toy(out, BASE, retry=True)[0].did_nothing


def test_the_failure_budget_stops_after_the_stage_and_keeps_its_data(tmp_path: Path) -> None:
    data = with_fault(fail=["w000", "w001"]) | {"max_failure_fraction": 0.2}
    with pytest.raises(BudgetError, match="bad_walk 2, ok 6") as caught:
        run_toy(tmp_path, data)
    assert caught.value.exit_code == 3
    assert caught.value.summaries[0].done_now == 8
    assert not (tmp_path / "blocks" / "pair").exists()
    # The same outcomes under a larger budget: nothing of the first stage is done again.
    result, _ = run_toy(tmp_path, data | {"max_failure_fraction": 0.25})
    assert result.summaries[0].done_now == 0


def test_workers_are_renewed_by_count_and_by_memory(tmp_path: Path) -> None:
    data = BASE | {"block_size": 1}
    plain = run_toy(tmp_path / "plain", data)[1]
    by_count = ProcessExecutor(work, workers=1, max_blocks=3)
    assert run_toy(tmp_path / "count", data, executor=by_count)[1] == plain
    bloated = data | {"walk": {"count": 8, "bloat_mb": 100}}
    by_memory = ProcessExecutor(work, workers=1, max_rss_mb=250)
    seen: list[int] = []
    start = by_memory._start

    def counting():  # type: ignore[no-untyped-def]
        worker = start()
        seen.append(worker.process.pid)
        return worker

    by_memory._start = counting  # type: ignore[method-assign]
    assert run_toy(tmp_path / "memory", bloated, executor=by_memory)[1] == plain
    assert 2 < len(seen) <= 9


def test_a_stage_that_breaks_its_contract_is_named(tmp_path: Path) -> None:
    from pipeline.errors import StageContractError
    from pipeline.work import Task, check_outcomes
    from stages.contract import Item, Outcome
    from tests.pipeline.toy import Walk

    task = Task(
        out=str(tmp_path),
        stage="walk",
        spec="",
        config=None,
        items=(Item(id="a"), Item(id="b")),
        keys={},
        own={},
        seeds={},
        attempts={},
        inputs={},
        timeout_s=1,
    )
    with pytest.raises(StageContractError, match="one per item in order"):
        check_outcomes(task, [Outcome(id="b"), Outcome(id="a")], Walk)
    with pytest.raises(StageContractError, match="expected a Walk, got NoneType"):
        check_outcomes(task, [Outcome(id="a"), Outcome(id="b")], Walk)
