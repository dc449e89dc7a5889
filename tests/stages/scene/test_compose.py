"""Which objects meet: by their names alone."""

import numpy as np
import pytest

from stages.contract import Item
from stages.scene.compose import choose_objects
from stages.scene.config import SceneConfig
from stages.scene.errors import SceneConfigError
from stages.scene.stage import SceneStage

SPLITS = {f"o{i:02d}": ("train" if i < 14 else "val" if i < 17 else "test") for i in range(19)}
CONFIG = SceneConfig(floating=200, tabletop=0, clutter=200)


def plan(splits: dict[str, str], config: SceneConfig = CONFIG) -> dict[str, Item]:
    assets = [Item(id=oid, tags={"split": split}) for oid, split in splits.items()]
    return {item.id: item for item in SceneStage().plan(config, {"assets": assets})}


def test_the_objects_of_a_scene_come_from_one_split_and_are_distinct() -> None:
    for item in plan(SPLITS).values():
        objects = item.params["objects"]
        assert len(set(objects)) == len(objects)
        assert {SPLITS[oid] for oid in objects} == {item.params["split"]} == {item.tags["split"]}
        if item.params["kind"] == "clutter":
            assert 3 <= len(objects) <= 6 or (item.params["split"] == "val" and len(objects) == 3)
        else:
            assert len(objects) == 1


def test_every_object_is_as_likely_as_the_others() -> None:
    items = plan(SPLITS)
    chosen = [items[f"floating-{i:05d}"].params["objects"][0] for i in range(200)]
    counts = np.array([chosen.count(oid) for oid in SPLITS])
    # Binomial(200, 1/19): mean 10.5, sd 3.2.
    assert np.abs(counts - 10.5).max() < 4 * 3.2


def test_neither_the_order_nor_the_number_of_scenes_matters() -> None:
    base = plan(SPLITS)
    assert plan(dict(reversed(SPLITS.items()))) == base
    more = plan(SPLITS, SceneConfig(floating=300, tabletop=5, clutter=201))
    assert {key: more[key] for key in base} == base


def test_a_new_object_changes_only_the_scenes_it_enters() -> None:
    base, more = plan(SPLITS), plan(SPLITS | {"new": "train"})
    changed = [key for key in base if base[key] != more[key]]
    assert 20 < len(changed) < 150
    for key in changed:
        # It is in, or (clutter of another split before) it now decides the split.
        assert "new" in more[key].params["objects"]


def test_a_split_too_small_for_clutter_gets_none() -> None:
    splits = {"a": "train", "b": "train", "c": "val"}
    assert choose_objects("clutter-0", "clutter", splits, SceneConfig()) is None
    with pytest.raises(SceneConfigError, match="lower clutter_min, or set clutter: 0"):
        plan(splits, SceneConfig(floating=0, tabletop=0, clutter=1))
    with pytest.raises(SceneConfigError, match="there is no object"):
        plan({})
