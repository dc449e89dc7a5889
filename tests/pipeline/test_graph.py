"""Targets imply what they need, in an order where inputs come first."""

import pytest

from pipeline.errors import PlanError, TargetError
from pipeline.graph import order_stages, parse_targets
from pipeline.registry import Registry
from stages.contract import Item
from tests.pipeline.toy import WalkStage, planned

REAL = Registry()


@pytest.mark.parametrize(
    ("text", "stages", "publish"),
    [
        ("assets", {"assets"}, ()),
        ("render", {"assets", "scene", "render"}, ()),
        ("label", {"assets", "grasp", "label"}, ()),
        ("render+label", {"assets", "scene", "render", "grasp", "label"}, ()),
        ("shard", {"assets", "scene", "render", "grasp", "label"}, ("shard",)),
        ("all", {"assets", "scene", "render", "grasp", "label"}, ("shard",)),
    ],
)
def test_targets(text: str, stages: set[str], publish: tuple[str, ...]) -> None:
    found = parse_targets(text, REAL)
    assert set(found.stages) == stages
    assert found.publish == publish
    for i, name in enumerate(found.stages):
        assert set(REAL.stage(name).needs) <= set(found.stages[:i])


def test_an_unknown_target_names_the_choices() -> None:
    with pytest.raises(TargetError, match=r"did you mean render\?.*Targets are assets, scene"):
        parse_targets("rendr+label", REAL)
    with pytest.raises(TargetError, match="choose from assets"):
        parse_targets("", REAL)


class Loop(WalkStage):
    name = "loop"
    needs = ("loop",)


class Orphan(WalkStage):
    name = "orphan"
    needs = ("nobody",)


class Twice(WalkStage):
    def plan(self, config, upstream):  # type: ignore[no-untyped-def]
        return [Item(id="a"), Item(id="a")]


class Stranger(WalkStage):
    def plan(self, config, upstream):  # type: ignore[no-untyped-def]
        return [Item(id="a", inputs=(("walk", "b"),))]


def registry_of(cls: type, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry with `cls` under the name "walk"."""
    registry = Registry(
        stages={"walk": "tests.pipeline.toy:WalkStage"},
        configs={"walk": "tests.pipeline.toy:WalkConfig"},
        publishers={},
    )
    monkeypatch.setattr("tests.pipeline.toy.WalkStage", cls)
    return registry


@pytest.mark.parametrize(
    ("cls", "message"), [(Loop, "which is not registered"), (Orphan, "needs 'nobody'")]
)
def test_graphs_that_cannot_be_ordered(
    cls: type, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TargetError, match=message):
        order_stages(registry_of(cls, monkeypatch))


def test_stages_that_need_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Loop, "needs", ("walk",))
    with pytest.raises(TargetError, match="need each other"):
        order_stages(registry_of(Loop, monkeypatch))


@pytest.mark.parametrize(
    ("cls", "message"), [(Twice, "two items have the id 'a'"), (Stranger, "nobody plans")]
)
def test_plans_without_identity(cls: type, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.pipeline.toy.WalkStage", cls)
    with pytest.raises(PlanError, match=message):
        planned({}, "walk")
