"""Hand files: what is refused, and that the digest follows content, not place."""

import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from stages.assets.hands.errors import HandError, HandNotFoundError, UnknownHandKeyError
from stages.assets.hands.load import HANDS_DIR, hand_digest, load_hand
from stages.assets.hands.models import model_files, model_is_here, resolve_model
from tests.hands import hand_params


@pytest.mark.parametrize("name", hand_params())
def test_every_hand_of_the_repository_loads(name: str) -> None:
    spec = load_hand(name)
    assert spec.name == name
    assert len(hand_digest(spec)) == 64


def test_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    text = (HANDS_DIR / "panda_gripper.yaml").read_text()
    path = tmp_path / "hand.yaml"
    path.write_text(text + "\nforce_limit: [1, 1]\n")
    with pytest.raises(UnknownHandKeyError, match="did you mean 'force_limits'"):
        load_hand(path)


def test_all_problems_are_named_at_once() -> None:
    spec = load_hand("panda_gripper")
    with pytest.raises(HandError) as error:
        replace(spec, kp=(1.0,), kind="claw", T_root_grasp=(0, 0, 0, 2, 0, 0, 0))
    for part in ("kp: expected 2", "kind", "unit quaternion"):
        assert part in str(error.value)


def test_missing_hand_lists_the_known_ones() -> None:
    with pytest.raises(HandNotFoundError, match="allegro_right"):
        load_hand("nobody")


def test_digest_follows_the_bytes_of_the_meshes(tmp_path: Path) -> None:
    spec = load_hand("panda_gripper")
    source = resolve_model(spec.model)
    digests = []
    for folder in ("a", "b"):
        for file in model_files(source):
            target = tmp_path / folder / file.relative_to(source.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
        digests.append(hand_digest(replace(spec, model=str(tmp_path / folder / source.name))))
    assert digests[0] == digests[1]
    mesh = next((tmp_path / "b").rglob("hand.stl"))
    mesh.write_bytes(mesh.read_bytes() + b"\0")
    changed = hand_digest(replace(spec, model=str(tmp_path / "b" / source.name)))
    assert changed != digests[0]


MENAGERIE_MODEL = "menagerie://leap_hand/right_hand.xml"


def test_menagerie_is_a_folder_or_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MENAGERIE_ROOT first; then the package, which is asked for a robot's folder by name."""
    model = tmp_path / "leap_hand" / "right_hand.xml"
    model.parent.mkdir()
    model.write_text("<mujoco/>")
    monkeypatch.setenv("MENAGERIE_ROOT", str(tmp_path))
    assert resolve_model(MENAGERIE_MODEL) == model.resolve()
    monkeypatch.delenv("MENAGERIE_ROOT")
    monkeypatch.setitem(sys.modules, "mujoco_menagerie", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(HandNotFoundError, match=r"MENAGERIE_ROOT.*pip install mujoco-menagerie"):
        resolve_model(MENAGERIE_MODEL)
    assert not model_is_here(MENAGERIE_MODEL)

    class Failed(Exception):
        """As the package's MenagerieError."""

    package = ModuleType("mujoco_menagerie")
    package.MenagerieError = Failed
    package.get = lambda name: SimpleNamespace(path=lambda: tmp_path / name)
    package.Cache = lambda: SimpleNamespace(is_cached=lambda robot: False)
    monkeypatch.setitem(sys.modules, "mujoco_menagerie", package)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: ModuleSpec(name, None))
    assert resolve_model(MENAGERIE_MODEL) == model.resolve()
    assert not model_is_here(MENAGERIE_MODEL)  # it would have to be downloaded

    def offline(name: str) -> None:
        raise Failed("no network")

    package.get = offline
    with pytest.raises(HandNotFoundError, match=r"no network; without a network, set MENAGERIE"):
        resolve_model(MENAGERIE_MODEL)


def test_meshes_of_packages_are_part_of_the_digest(tmp_path: Path) -> None:
    (tmp_path / "maker_description" / "urdf").mkdir(parents=True)
    mesh = tmp_path / "maker_description" / "palm.stl"
    mesh.write_bytes(b"one")
    urdf = tmp_path / "maker_description" / "urdf" / "hand.urdf"
    urdf.write_text(
        '<robot name="r"><link name="palm"><collision><geometry>'
        '<mesh filename="package://maker_description/palm.stl"/>'
        "</geometry></collision></link></robot>"
    )
    assert model_files(urdf) == sorted([mesh, urdf])
    hand = replace(load_hand("panda_gripper"), model=str(urdf))
    first = hand_digest(hand)
    mesh.write_bytes(b"two")
    assert hand_digest(hand) != first
