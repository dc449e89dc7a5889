"""A config is right, or every mistake in it is named at once."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

import pytest

from pipeline.coerce import build
from pipeline.config import build_config, load_config, merge, resolved
from pipeline.errors import ConfigError, UserError
from pipeline.registry import Registry

REAL = Registry()


@dataclass(frozen=True, kw_only=True, slots=True)
class Ring:
    radius: float
    kind: Literal["ring"] = "ring"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fixed:
    eye: tuple[float, float, float]
    kind: Literal["fixed"] = "fixed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Everything:
    flag: bool = False
    count: int = 1
    ratio: float = 0.5
    name: str = "x"
    mode: Literal["fast", "exact"] = "fast"
    limit: float | None = None
    pair: tuple[float, float] = (0.0, 1.0)
    names: tuple[str, ...] = ()
    rig: Ring | Fixed = field(default_factory=lambda: Ring(radius=1.0))
    weights: dict[str, float] = field(default_factory=dict)
    folder: Path = Path(".")


def built(data: object) -> tuple[Everything | None, list[str]]:
    problems: list[str] = []
    return build(Everything, data, "e", problems), problems


def test_values_become_their_types() -> None:
    value, problems = built(
        {
            "flag": True,
            "count": 3.0,
            "ratio": "1e-3",  # a string to YAML 1.1
            "mode": "exact",
            "limit": 2,
            "pair": [1, 2],
            "names": ["a", "b"],
            "rig": {"eye": [0, 0, 1]},
            "weights": {"a": 1},
            "folder": "/somewhere",
        }
    )
    assert problems == []
    assert value == Everything(
        flag=True,
        count=3,
        ratio=0.001,
        mode="exact",
        limit=2.0,
        pair=(1.0, 2.0),
        names=("a", "b"),
        rig=Fixed(eye=(0.0, 0.0, 1.0)),
        weights={"a": 1.0},
        folder=Path("/somewhere"),
    )
    assert isinstance(value.limit, float)
    assert isinstance(value.pair[0], float)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"flag": 1}, "e.flag: expected true or false, got 1"),
        ({"count": 1.5}, "e.count: expected a whole number, got 1.5"),
        ({"count": True}, "e.count: expected a whole number, got True"),
        ({"ratio": "much"}, "e.ratio: expected a number, got 'much'"),
        ({"ratio": False}, "e.ratio: expected a number, got False"),
        ({"name": 3}, "e.name: expected text, got 3"),
        ({"mode": "exat"}, "e.mode: got 'exat'; did you mean exact?"),
        ({"pair": [1]}, "e.pair: expected 2 values, got 1"),
        ({"names": "a"}, "e.names: expected a list, got 'a'"),
        ({"names": ["a", 2]}, "e.names[1]: expected text, got 2"),
        ({"rig": {"radius": "far"}}, "e.rig.radius: expected a number, got 'far'"),
        ({"weights": [1]}, "e.weights: expected keys and values, got [1]"),
        ({"weights": {"a": "x"}}, "e.weights.a: expected a number, got 'x'"),
        ({"cuont": 1}, "e.cuont: unknown key; did you mean count?"),
        ([1], "e: expected keys and values, got [1]"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(data: object, message: str) -> None:
    value, problems = built(data)
    assert value is None
    assert problems == [message]


def test_all_problems_of_a_file_come_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "sede: 1\n"
        "block_size: 0\n"
        "scene: {cluter: 3, tabletop: many}\n"
        "render: {camera: {kind: orbit}}\n"
        "grasp: {chunk: 0}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(path, registry=REAL, overrides=["label.protocols=[fc, fcc]", "nonsense"])
    text = str(caught.value)
    assert "8 problems" in text
    for part in (
        "sede: unknown key; did you mean seed?",
        "block_size: expected at least 1, got 0",
        "scene.cluter: unknown key; did you mean clutter?",
        "scene.tabletop: expected a whole number, got 'many'",
        "render.camera.kind: got 'orbit'",
        "chunk: expected at least 1, got 0",
        "unknown ['fcc']",
        "--set nonsense: expected a.b=value",
    ):
        assert part in text


def test_an_empty_object_list_and_an_object_in_two_splits_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected at least one entry, got none"):
        build_config({"assets": {"objects": []}}, registry=REAL)
    with pytest.raises(ConfigError, match="an object belongs to one split"):
        build_config({"assets": {"val_ids": ["a"], "test_ids": ["a"]}}, registry=REAL)


@pytest.mark.parametrize("name", ["demo", "ycb"])
def test_shipped_configs_read_and_round_trip(name: str) -> None:
    root = Path(__file__).parents[2] / "configs"
    config = load_config(root / f"{name}.yaml", registry=REAL)
    assert config.sections["assets"].asset_root == str(root)
    assert build_config(resolved(config), registry=REAL) == config


def test_set_reaches_into_sections(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("scene: {clutter: 3}\n")
    config = load_config(
        path, registry=REAL, overrides=["scene.clutter=5", "render.camera.radius_min=4e-1"]
    )
    assert config.sections["scene"].clutter == 5
    assert config.sections["render"].camera.radius_min == 0.4


def test_extends_merges_sections_and_refuses_circles(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("seed: 3\nscene: {clutter: 3, floating: 4}\n")
    (tmp_path / "over.yaml").write_text("extends: base.yaml\nscene: {clutter: 9}\n")
    config = load_config(tmp_path / "over.yaml", registry=REAL)
    assert config.seed == 3
    assert (config.sections["scene"].clutter, config.sections["scene"].floating) == (9, 4)
    (tmp_path / "base.yaml").write_text("extends: over.yaml\n")
    with pytest.raises(ConfigError, match="extend each other"):
        load_config(tmp_path / "over.yaml", registry=REAL)


def test_merge_replaces_lists() -> None:
    assert merge({"a": {"b": [1], "c": 2}}, {"a": {"b": [3]}}) == {"a": {"b": [3], "c": 2}}


@pytest.mark.parametrize(
    ("text", "message"),
    [("a: [", "not valid YAML"), ("- 1", "expected keys and values"), (None, "no such file")],
)
def test_unreadable_files_are_user_mistakes(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "c.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=message):
        load_config(path, registry=REAL)


def test_yaml_cannot_build_python_objects(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("seed: !!python/object/apply:os.getpid []\n")
    with pytest.raises(UserError, match="not valid YAML"):
        load_config(path, registry=REAL)


def test_every_section_has_a_key_in_the_resolved_config() -> None:
    config = build_config({}, registry=REAL)
    data = resolved(config)
    for name, section in config.sections.items():
        assert set(data[name]) == {f.name for f in fields(section)}
