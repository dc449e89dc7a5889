"""Keys change with content and with nothing else; seeds come from identity."""

from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import build_config
from pipeline.graph import parse_targets
from pipeline.keys import canonical_json, config_digest, digest, item_seed, plain, record_schema
from pipeline.plan import block_size, make_blocks, make_plan
from pipeline.registry import Registry
from schemas.records import Cloud, Scene
from stages.contract import PLAN_ONLY, Item
from tests.pipeline.toy import planned


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    a: float = 1.0
    workers: int = field(default=1, metadata=PLAN_ONLY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    many: tuple[Inner, ...] = (Inner(),)
    count: int = field(default=3, metadata=PLAN_ONLY)


def test_plan_only_fields_are_left_out_at_any_depth() -> None:
    base = config_digest(Outer())
    assert config_digest(Outer(count=9)) == base
    assert config_digest(Outer(inner=Inner(workers=9))) == base
    assert config_digest(Outer(many=(Inner(workers=9),))) == base
    assert config_digest(Outer(inner=Inner(a=2.0))) != base
    assert config_digest(Outer(many=(Inner(), Inner()))) != base


def test_canonical_json_has_one_text_per_value() -> None:
    assert canonical_json({"b": 1, "a": (1, 2.5)}) == '{"a":[1,2.5],"b":1}'
    assert canonical_json({"a": np.float64(0.1)}) == canonical_json({"a": 0.1})
    assert canonical_json(Path("a/b")) == '"a/b"'
    assert canonical_json(1) != canonical_json(1.0) != canonical_json("1")
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))
    with pytest.raises(TypeError, match="no canonical JSON form"):
        canonical_json({1, 2})


def test_digest_is_the_sha256_of_that_text() -> None:
    # From `printf '{"a":1}' | sha256sum`.
    assert digest({"a": 1}) == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"


def test_record_schema_tells_records_apart() -> None:
    assert record_schema(Cloud) != record_schema(Scene)


@given(st.integers(0, 2**64 - 1), st.text(max_size=20), st.text(max_size=20))
def test_seeds_are_64_bit_and_repeat(root: int, stage: str, item: str) -> None:
    seed = item_seed(root, stage, item)
    assert 0 <= seed < 2**64
    assert seed == item_seed(root, stage, item)


def test_seeds_differ_by_each_part_and_have_no_pattern() -> None:
    assert len({item_seed(0, "a", "b"), item_seed(1, "a", "b"), item_seed(0, "b", "a")}) == 3
    seeds = np.array([item_seed(0, "scene", f"s{i}") for i in range(2000)], np.uint64)
    assert len(set(seeds.tolist())) == 2000
    bits = ((seeds[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(0)
    # 2000 fair coins: a standard deviation of 0.011; five of them is one in a million.
    assert np.abs(bits - 0.5).max() < 0.056


def test_a_known_seed() -> None:
    """Seeds must never change between versions: they are what replays an item."""
    import hashlib

    words = [
        *np.frombuffer(hashlib.sha256(b"scene").digest(), "<u4").tolist(),
        *np.frombuffer(hashlib.sha256(b"tabletop-00001").digest(), "<u4").tolist(),
    ]
    low, high = np.random.SeedSequence([7, *words]).generate_state(2).tolist()
    assert item_seed(7, "scene", "tabletop-00001") == low + high * 2**32


def test_keys_follow_inputs() -> None:
    base = planned({})
    scaled = planned({"walk": {"scale": 2.0}})
    gained = planned({"pair": {"gain": 5.0}})
    assert base["walk"].keys == gained["walk"].keys
    assert not set(base["pair"].keys.values()) & set(gained["pair"].keys.values())
    assert base["pair"].own == scaled["pair"].own
    assert not set(base["pair"].keys.values()) & set(scaled["pair"].keys.values())


def test_real_plans_obey_the_contract() -> None:
    """Noise redoes clouds alone, friction labels alone; more scenes keep the old keys."""
    registry = Registry()
    small = {
        "assets": {"objects": ["ycb://011_banana", "ycb://013_apple", "ycb://025_mug"]},
        "scene": {"floating": 1, "tabletop": 2, "clutter": 0},
        "render": {"views": 2},
        "grasp": {"grasps_per_object": 8},
    }

    def keys(over: dict[str, object]) -> dict[str, dict[str, str]]:
        config = build_config(small | over, registry=registry)
        plans = make_plan(config, parse_targets("all", registry), registry)
        return {name: plan.keys for name, plan in plans.items()}

    base = keys({})
    changed = keys({"render": {"views": 2, "camera": {"roll_jitter": 1.0}}})
    assert {n for n in base if base[n] != changed[n]} == {"render"}
    changed = keys({"label": {"fc": {"hold_time": 1.0}}})
    assert {n for n in base if base[n] != changed[n]} == {"label"}
    same = [i for i in base["label"] if base["label"][i] == changed["label"][i]]
    assert same
    assert all("tabletop" in i for i in same)
    more = keys({"scene": {"floating": 2, "tabletop": 4, "clutter": 0}})
    assert base["scene"].items() < more["scene"].items()
    assert base["render"].items() < more["render"].items()
    wider = keys({"assets": {"objects": [*small["assets"]["objects"], "ycb://014_lemon"]}})
    assert base["assets"].items() < wider["assets"].items()
    assert base["label"].items() < wider["label"].items()
    seeded = keys({"seed": 1})
    assert not set(base["scene"].values()) & set(seeded["scene"].values())


def test_own_files_decide_asset_keys_not_their_place(tmp_path: Path) -> None:
    registry = Registry()
    found = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "box.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
        config = build_config({"assets": {"objects": ["box.obj"]}}, registry=registry, root=folder)
        plan = make_plan(config, parse_targets("assets", registry), registry)["assets"]
        found.append(plan.keys)
    assert found[0] == found[1]
    (tmp_path / "b" / "box.obj").write_text("v 0 0 0\nv 2 0 0\nv 0 1 0\nf 1 2 3\n")
    plan = make_plan(config, parse_targets("assets", registry), registry)["assets"]
    assert plan.keys != found[0]


@given(
    st.lists(st.integers(0, 4), max_size=40).map(sorted),
    st.integers(1, 9),
)
def test_blocks_hold_every_item_once_in_order(groups: list[int], size: int) -> None:
    items = [Item(id=str(i), group=f"g{g}" if g else "") for i, g in enumerate(groups)]
    blocks = list(make_blocks(items, size))
    assert [i for block in blocks for i in block] == items
    assert all(0 < len(block) <= size for block in blocks)
    for group in {i.group for i in items if i.group}:
        if sum(i.group == group for i in items) <= size:
            holders = [b for b in blocks if any(i.group == group for i in b)]
            # A group that fits in a block is loaded by one worker, unless it follows a larger
            # group's rest.
            assert len(holders) <= 2


def test_replacing_a_plan_only_field_keeps_equality_of_keys() -> None:
    config = Outer()
    assert config_digest(replace(config, count=100)) == config_digest(config)


def test_small_stages_are_cut_to_keep_workers_busy() -> None:
    def items(count: int, views: int = 1) -> list[Item]:
        return [Item(id=f"{g}/{v}", group=f"g{g}") for g in range(count) for v in range(views)]

    assert block_size(items(14), 16, 2) == 2
    assert block_size(items(10_000), 16, 2) == 16
    assert block_size(items(3, views=8), 16, 8) == 8  # the views of a scene stay together
    assert block_size(items(3, views=80), 16, 8) == 16
    assert block_size([], 16, 2) == 1


def test_an_option_that_came_later_is_in_the_key_only_when_asked_for() -> None:
    from schemas.distortion import Distortion
    from stages.assets.config import AssetsConfig
    from stages.render.config import CameraConfig, RenderConfig
    from stages.shard.config import ShardConfig

    for default in (RenderConfig(), CameraConfig(), AssetsConfig(), ShardConfig()):
        later = {f.name for f in fields(default) if f.metadata.get("optional")}
        assert later
        assert not later & set(plain(default, content_only=True))
        assert later <= set(plain(default))  # the resolved config still says everything
    for changed in (
        RenderConfig(normals=True),
        RenderConfig(camera=CameraConfig(resize=(320, 240))),
        RenderConfig(camera=CameraConfig(distortion=Distortion(model="brown_conrady", k1=0.1))),
    ):
        assert config_digest(changed) != config_digest(RenderConfig())


def test_a_field_of_a_record_that_has_a_default_keeps_the_schema() -> None:
    @dataclass
    class Old:
        a: int

    @dataclass
    class New:
        a: int
        b: int = 0

    @dataclass
    class Other:
        a: int
        b: int

    assert record_schema(Old) == record_schema(New) != record_schema(Other)
