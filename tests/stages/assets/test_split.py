"""Splits by object id: disjoint, stable, independent of the list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.assets.config import AssetsConfig
from stages.assets.errors import AssetConfigError
from stages.assets.split import split_of, unit_hash
from stages.assets.stage import AssetsStage


def test_list_order_and_company_change_nothing() -> None:
    names = ["ycb://011_banana", "ycb://025_mug", "ycb://024_bowl", "ycb://013_apple"]
    alone = {}
    for name in names:
        [item] = AssetsStage().plan(AssetsConfig(objects=(name,)), {})
        alone[item.id] = item
    together = AssetsStage().plan(AssetsConfig(objects=tuple(reversed(names))), {})
    assert {item.id: item for item in together} == alone
    assert [item.id for item in together] == sorted(alone)


@given(st.text(min_size=1, max_size=20), st.floats(0, 1))
def test_growing_train_takes_objects_in_and_lets_none_out(name: str, fraction: float) -> None:
    smaller = AssetsConfig(train_fraction=fraction / 2, val_fraction=0.0)
    larger = AssetsConfig(train_fraction=fraction, val_fraction=0.0)
    assert 0 <= unit_hash(name) < 1
    if split_of(name, smaller) == "train":
        assert split_of(name, larger) == "train"


def test_fractions_are_met_on_many_ids() -> None:
    config = AssetsConfig(train_fraction=0.7, val_fraction=0.2)
    splits = [split_of(f"object-{i}", config) for i in range(5000)]
    # three standard deviations of a binomial
    assert abs(splits.count("train") / 5000 - 0.7) < 0.02
    assert abs(splits.count("val") / 5000 - 0.2) < 0.02


def test_no_rest_means_no_test_objects() -> None:
    config = AssetsConfig(train_fraction=0.9, val_fraction=0.1)
    assert all(split_of(f"object-{i}", config) != "test" for i in range(5000))


def test_named_ids_win_and_contradictions_are_all_reported() -> None:
    config = AssetsConfig(objects=("ycb://01*",), test_ids=("011_banana",))
    split = {item.id: item.tags["split"] for item in AssetsStage().plan(config, {})}
    assert split["011_banana"] == "test"
    with pytest.raises(AssetConfigError) as error:
        AssetsConfig(train_ids=("a", "b"), val_ids=("a",), test_ids=("b",), density=-1)
    for part in ("'a' is in train_ids and in val_ids", "'b' is in train_ids", "density"):
        assert part in str(error.value)
    with pytest.raises(AssetConfigError, match="011_bananna"):
        AssetsStage().plan(AssetsConfig(objects=("ycb://01*",), test_ids=("011_bananna",)), {})


def test_empty_object_list_is_refused() -> None:
    with pytest.raises(AssetConfigError, match="at least one entry"):
        AssetsConfig(objects=())
