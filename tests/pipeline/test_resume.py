"""Kill, tear, cut and repeat: the outputs are those of a run that nothing happened to."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.store import Store
from tests.pipeline.toy import planned, run_toy

ROOT = Path(__file__).parents[2]
BASE = {"walk": {"count": 8}, "block_size": 3}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run_toy(tmp_path_factory.mktemp("expected"), BASE)[1]


def start(out: Path, workers: int, block: int, pause: float) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.pipeline.toy", str(out)]
    return subprocess.Popen(
        [*command, str(workers), str(block), str(pause)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell ignores SIGINT for what it runs in the background, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def test_killed_at_any_moment_it_resumes_to_the_same_content(tmp_path: Path, expected: str) -> None:
    rng = random.Random(7)
    # Kill after so many commits and a little more, so that every stage is hit in its middle.
    killed_in: set[str] = set()
    for commits in (0, 2, 5, 9, 11):
        process = start(tmp_path, 2, 2, 0.1)
        while process.poll() is None and len(list(tmp_path.glob("blocks/*/*.json"))) < commits:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.3))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            pairs = len(list(tmp_path.glob("blocks/pair/*.json")))
            killed_in.add("pair" if pairs else "walk")
        process.communicate()
    assert killed_in == {"walk", "pair"}
    process = start(tmp_path, 1, 3, 0.0)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.split()[-1] == expected
    assert not list(tmp_path.glob("**/*.tmp-*"))


def test_workers_end_with_a_killed_conductor(tmp_path: Path) -> None:
    process = start(tmp_path, 2, 2, 0.5)
    workers: list[int] = []
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not list(tmp_path.glob("blocks/walk/*.json")):
        time.sleep(0.05)
    workers = children(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert workers
    deadline = time.monotonic() + 10
    alive = workers
    while alive and time.monotonic() < deadline:
        alive = [w for w in alive if _running(w)]
        time.sleep(0.05)
    assert not alive


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_interrupt_leaves_a_resumable_state(tmp_path: Path, expected: str) -> None:
    process = start(tmp_path, 2, 2, 0.1)
    while not list(tmp_path.glob("blocks/walk/*.json")):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: conductor and workers
    process.communicate(timeout=30)
    assert process.returncode != 0
    assert run_toy(tmp_path, BASE)[1] == expected


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "torn marker", "no marker"])
def test_damaged_blocks_are_redone(tmp_path: Path, expected: str, damage: str) -> None:
    run_toy(tmp_path, BASE)
    path = sorted(tmp_path.glob("blocks/walk/*.npz"))[1]
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "missing":
        path.unlink()
    elif damage == "torn marker":
        path.with_suffix(".json").write_text('{"stage": "wa')
    else:
        path.with_suffix(".json").unlink()
    said: list[str] = []
    result, digest = run_toy(tmp_path, BASE, said=said)
    assert digest == expected
    walk, pair = result.summaries
    assert 0 < walk.done_now <= 3
    assert pair.done_now == 0  # the same keys: what was made from the block is still right
    if damage != "no marker":
        assert str(path.stem) in said[0]


def test_half_written_files_are_swept(tmp_path: Path, expected: str) -> None:
    folder = tmp_path / "blocks" / "walk"
    run_toy(tmp_path, BASE)
    (folder / "abc.npz.tmp-123").write_bytes(b"half")
    (folder / "orphan.npz").write_bytes(b"whole, but nobody promised it")
    assert run_toy(tmp_path, BASE)[1] == expected
    assert not (folder / "abc.npz.tmp-123").exists()
    assert not (folder / "orphan.npz").exists()


@pytest.mark.parametrize(("workers", "block"), [(1, 1), (2, 2), (0, 100)])
def test_blocks_and_workers_change_nothing(
    tmp_path: Path, expected: str, workers: int, block: int
) -> None:
    assert run_toy(tmp_path, BASE | {"block_size": block}, workers=workers)[1] == expected


def test_running_again_does_nothing(tmp_path: Path) -> None:
    assert not run_toy(tmp_path, BASE)[0].did_nothing
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("blocks/*/*")}
    assert run_toy(tmp_path, BASE | {"block_size": 1})[0].did_nothing
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("blocks/*/*")} == before


def test_more_items_keep_the_old_ones(tmp_path: Path) -> None:
    run_toy(tmp_path, BASE)
    result, _ = run_toy(tmp_path, {"walk": {"count": 11}, "pair": {"views": 3}})
    walk, pair = result.summaries
    assert (walk.before, walk.done_now) == (8, 3)
    assert (pair.before, pair.done_now) == (14, 30 - 14)


def test_a_changed_config_redoes_its_stage_and_what_hangs_on_it(tmp_path: Path) -> None:
    run_toy(tmp_path, BASE)
    walk, pair = run_toy(tmp_path, BASE | {"pair": {"gain": 3.0}})[0].summaries
    assert (walk.done_now, pair.done_now) == (0, 14)
    walk, pair = run_toy(tmp_path, BASE | {"walk": {"count": 8, "scale": 2.0}})[0].summaries
    assert (walk.done_now, pair.done_now) == (8, 14)
    # Going back finds the first blocks again.
    assert run_toy(tmp_path, BASE)[0].did_nothing


def test_an_output_of_another_run_s_seed_shares_nothing(tmp_path: Path) -> None:
    run_toy(tmp_path, BASE)
    assert run_toy(tmp_path, BASE | {"seed": 1})[0].summaries[0].done_now == 8


def test_an_input_that_rots_during_a_run_is_not_blamed_on_the_item(tmp_path: Path) -> None:
    from pipeline.errors import StorageError
    from pipeline.executors.inline import InlineExecutor

    run_toy(tmp_path, BASE, targets="walk")

    class RotFirst(InlineExecutor):
        def run(self, tasks):  # type: ignore[no-untyped-def]
            for path in tmp_path.glob("blocks/walk/*.npz"):
                data = bytearray(path.read_bytes())
                data[-30] ^= 1
                path.write_bytes(data)
            yield from super().run(tasks)

    from pipeline import work

    work._cache.blocks.clear()
    with pytest.raises(StorageError, match="expected sha256"):
        run_toy(tmp_path, BASE, executor=RotFirst())
    assert not list(tmp_path.glob("blocks/pair/*.json"))
    assert not run_toy(tmp_path, BASE)[0].did_nothing


def test_markers_hold_every_planned_key(tmp_path: Path) -> None:
    run_toy(tmp_path, BASE)
    store = Store(tmp_path)
    for name, plan in planned(BASE).items():
        rows = [row for p in store.markers(name) for row in store.read_marker(p).rows]
        assert sorted(row.key for row in rows) == sorted(plan.keys.values())
