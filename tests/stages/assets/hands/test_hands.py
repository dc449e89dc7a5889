"""Hand files: what is refused, and that the digest follows content, not place."""

from dataclasses import replace
from pathlib import Path

import pytest

from stages.assets.hands.errors import HandError, HandNotFoundError, UnknownHandKeyError
from stages.assets.hands.load import HANDS_DIR, hand_digest, hand_names, load_hand
from stages.assets.hands.models import model_files, resolve_model


@pytest.mark.parametrize("name", hand_names())
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
