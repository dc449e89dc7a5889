"""A plan costs what it holds: groups are implied, keys and seeds are made when asked for."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import build_config
from pipeline.errors import PlanError
from pipeline.graph import parse_targets
from pipeline.keys import OwnKeys, digest, item_key, plain
from pipeline.plan import StagePlan, block_size, make_blocks, make_plan
from pipeline.registry import Registry
from pipeline.runner import survey
from pipeline.store import Store
from pipeline.summary import explain
from stages.contract import Item, ItemTable
from tests.pipeline.toy import WalkStage, planned, run_toy

ROOT = Path(__file__).parents[2]
OBJECTS = ["ycb://011_banana", "ycb://013_apple", "ycb://025_mug", "ycb://003_cracker_box"]


def real_plan(scenes: int, views: int) -> dict[str, StagePlan]:
    registry = Registry()
    data = {
        "assets": {"objects": OBJECTS, "train_fraction": 1.0, "val_fraction": 0.0},
        "scene": {"floating": 3, "tabletop": scenes // 2 - 3, "clutter": scenes - scenes // 2,
                  "clutter_min": 2, "clutter_max": 3},
        "render": {"views": views},
    }  # fmt: skip
    config = build_config(data, registry=registry)
    return make_plan(config, parse_targets("render", registry), registry)


def test_keys_are_those_of_every_dataset_so_far() -> None:
    """Written by the plan that listed every item; another value would redo all datasets."""
    walk, pair = planned({}).values()
    assert walk.keys["w000"] == "d22d9f35e8723d290b0dd7870cefd68878d468fb2b3ce6b7a144e13fc08bf4ea"
    assert (
        pair.keys["w000-w001/v0"]
        == "285b3555df0e4622e60c539e216755b392d73591f5165709be6fb44b136a7bcb"
    )


def test_keys_of_a_real_plan_are_those_of_every_dataset_so_far() -> None:
    expected = json.loads((Path(__file__).parent / "plan_keys.json").read_text())
    registry = Registry()
    config = build_config(expected["config"], registry=registry)
    plans = make_plan(config, parse_targets("all", registry), registry)
    for name, items in expected["items"].items():
        plan = plans[name]
        assert [item.id for item in plan.items] == list(items)
        found = {i: [plan.own[i], plan.keys[i], plan.seeds[i]] for i in items}
        assert found == items, name


@given(st.text(max_size=9), st.dictionaries(st.text(max_size=3), st.floats(0, 1) | st.text()))
def test_the_short_way_to_a_key_hashes_the_same_text(name: str, params: dict[str, object]) -> None:
    item = Item(id=name, params=params)
    whole = digest(["stage", 2, "s", "c", 7, item.id, plain(item.params)])
    assert OwnKeys("stage", 2, "s", "c", 7)(item) == whole
    assert item_key(whole, [whole, whole]) == digest([whole, [whole, whole]])
    assert item_key(whole, []) == digest([whole, []])


def test_every_item_is_found_by_its_id_and_by_no_other() -> None:
    plans = real_plan(scenes=20, views=3)
    for name in ("scene", "render"):
        plan = plans[name]
        assert isinstance(plan.items, ItemTable)
        ids = [item.id for item in plan.items]
        assert len(set(ids)) == len(ids) == len(plan.items) == len(plan.keys)
        assert [plan.item(i).id for i in ids] == ids
        assert plan.items[-1] is plan.items[len(ids) - 1]
        assert [i.id for i in plan.items[2:5]] == ids[2:5]
        for stranger in ("", "clutter", "clutter-1", "clutter-99999", "tabletop-00000/v03",
                         "tabletop-00000/v3", "floating-00003", "floating-00003/v00", "no-00000",
                         "tabletop-00000/v-1"):  # fmt: skip
            assert stranger not in plan.keys
            with pytest.raises(KeyError):
                plan.keys[stranger]
        with pytest.raises(IndexError):
            plan.items[len(ids)]


def test_a_table_that_contradicts_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(self, config, upstream):  # type: ignore[no-untyped-def]
        return ItemTable(3, lambda i: Item(id=f"w{i}"), lambda _: None)

    monkeypatch.setattr(WalkStage, "plan", plan)
    with pytest.raises(PlanError, match="is not where its id says"):
        planned({}, "walk")


def test_a_table_is_cut_like_the_list_of_its_items() -> None:
    items = real_plan(scenes=10, views=3)["render"].items
    for size in (1, 2, 3, 7, 100):
        assert list(make_blocks(iter(items), size)) == list(make_blocks(list(items), size))
    assert block_size(items, 16, 2) == block_size(list(items), 16, 2)
    assert block_size(items, 16, 8, todo=3) == 3


PLAN = """
import sys
from pathlib import Path
from tests.pipeline.test_plan_scale import real_plan, survey_text
plans = real_plan(scenes=int(sys.argv[1]), views=256)
print(survey_text(plans, sys.argv[2]))
first = plans["render"].items[0].id
status = Path("/proc/self/status").read_text()
print(len(plans["render"].keys[first]), status.split("VmHWM:")[1].split()[0])
"""


def survey_text(plans: dict[str, StagePlan], out: str) -> str:
    return explain(survey(Store(Path(out)), plans, retry=False, deep=False)[1])


def test_a_million_scenes_are_planned_in_seconds_and_little_memory(tmp_path: Path) -> None:
    """256 million clouds. A byte per item would already be a quarter of a gigabyte."""
    done = subprocess.run(
        [sys.executable, "-c", PLAN, "1000000", str(tmp_path / "out")],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert "256000000 items: 256000000 to do (new)" in done.stdout
    # The peak of this program's own memory; getrusage would count that of its parent at the fork.
    length, kib = map(int, done.stdout.split()[-2:])
    assert length == 64
    assert kib < 400 * 1024


def test_blocks_come_one_by_one() -> None:
    """A hundred blocks of a quarter of a billion items; a list of anything would not end."""
    items = real_plan(scenes=1_000_000, views=256)["render"].items
    tracemalloc.start()
    blocks = make_blocks(iter(items), 256)
    seen = [block[0].group for block, _ in zip(blocks, range(100), strict=False)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(set(seen)) == 100
    assert peak < 64 * 2**20


def test_tasks_are_taken_when_there_is_a_place(tmp_path: Path) -> None:
    from pipeline.executors.inline import InlineExecutor

    taken: list[str] = []

    class Watch(InlineExecutor):
        def run(self, tasks):  # type: ignore[no-untyped-def]
            def watched():  # type: ignore[no-untyped-def]
                for task in tasks:
                    taken.append(f"take {task.items[0].id}")
                    yield task

            for task, result in super().run(watched()):
                taken.append(f"done {task.items[0].id}")
                yield task, result

    data = {"walk": {"count": 3}, "block_size": 1}
    run_toy(tmp_path, data, executor=Watch(), targets="walk")
    assert taken == [f"{what} w00{i}" for i in range(3) for what in ("take", "done")]
