"""The house rules that no other tool checks."""

import ast
import importlib
import re
import subprocess
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from pipeline.config import load_config
from pipeline.registry import Registry, load
from schemas import records

ROOT = Path(__file__).parents[2]
CODE = sorted(p for room in ("pipeline", "schemas", "stages") for p in (ROOT / room).rglob("*.py"))
ROOMS = sorted(p.parent for p in (ROOT / "stages").glob("*/stage.py"))
MAX_LINES = 300
TRACKED = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
]


def test_files_are_short_and_say_what_they_are_for() -> None:
    assert len(CODE) > 100
    for path in CODE:
        text = path.read_text()
        assert len(text.splitlines()) <= MAX_LINES, f"{path}: split it"
        if path.name != "__main__.py" and text.strip():
            assert ast.get_docstring(ast.parse(text)), f"{path}: no docstring"


def test_every_room_has_the_same_files() -> None:
    assert [room.name for room in ROOMS] == ["assets", "grasp", "label", "render", "scene"]
    for room in ROOMS:
        names = {path.name for path in room.iterdir()}
        assert {"__init__.py", "config.py", "stage.py", "errors.py"} <= names, room


def test_every_registered_stage_keeps_the_contract() -> None:
    registry = Registry()
    for name in registry.stages:
        stage = registry.stage(name)
        assert stage.name == name
        assert is_dataclass(stage.record)
        assert stage.record.__module__ == records.__name__
        assert is_dataclass(load(registry.configs[name]))
    for spec in registry.publishers.values():
        assert callable(load(spec))


def test_every_config_class_is_explained() -> None:
    for path in sorted((ROOT / "stages").glob("*/config.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ClassDef):
                continue
            said = ast.get_docstring(node) or ""
            assert said, f"{path}: {node.name}"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_config_loads(path: Path) -> None:
    config = load_config(path, registry=Registry())
    assert set(config.sections) == set(Registry().configs)


def test_no_file_names_a_machine_or_a_registry_host() -> None:
    """No absolute path of a developer and no package registry: the mirror is the user's choice."""
    home = re.compile(r"/(home|Users|work)/[a-z]|/root/\.")
    hosts = re.compile(r"(pypi\.org|pythonhosted\.org|deb\.debian\.org|registry\.npmjs)")
    for path in TRACKED:
        if path.suffix in (".png", ".npz", ".parquet", ".zip") or not path.is_file():
            continue
        if path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        assert not home.search(text), f"{path}: {home.search(text)}"
        assert not hosts.search(text), f"{path}: {hosts.search(text)}"


def test_nothing_large_is_tracked() -> None:
    for path in TRACKED:
        assert path.stat().st_size < 1_500_000, path


def test_errors_live_in_errors_py_and_are_exceptions() -> None:
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                assert path.name == "errors.py", f"{path}: {node.name} belongs in errors.py"
                cls = getattr(
                    importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts)),
                    node.name,
                )
                assert issubclass(cls, Exception)


def test_records_hold_units_and_shapes_in_their_comments() -> None:
    """Every array field of a record says its shape, since a million labels hang on it."""
    lines = (ROOT / "schemas" / "records.py").read_text().splitlines()
    arrays = [line for line in lines if re.match(r"    \w+: NDArray", line)]
    assert len(arrays) > 30
    for line in arrays:
        assert re.search(r"# \(", line), line.strip()
    for name in ("ObjectAsset", "Scene", "Cloud", "GraspSet", "LabelSet"):
        assert fields(getattr(records, name))
