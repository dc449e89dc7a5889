"""Hands by name or path, and the digest that ties a dataset to exact model files."""

import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from schemas.errors import ForeignFileError
from stages.assets.hands.errors import HandError, HandNotFoundError, UnknownHandKeyError
from stages.assets.hands.models import model_files, resolve_model
from stages.assets.hands.spec import HandSpec
from stages.assets.yaml_file import SUFFIXES, read_yaml_file

HANDS_DIR = Path(__file__).resolve().parents[3] / "configs" / "hands"


def hand_names() -> list[str]:
    """Names of the hands in `configs/hands`."""
    return sorted(path.stem for path in HANDS_DIR.glob("*.yaml"))


def load_hand(name_or_path: str | Path) -> HandSpec:
    """HandSpec from `configs/hands/<name>.yaml` or from any YAML file.

    A relative `model` path is taken from the folder of the YAML file.
    """
    path = Path(name_or_path)
    if path.suffix not in SUFFIXES:
        path = HANDS_DIR / f"{name_or_path}.yaml"
    if not path.is_file():
        raise HandNotFoundError(
            f"no hand {str(name_or_path)!r}: {path} does not exist; known hands: "
            f"{', '.join(hand_names())}, or give the path of a YAML file"
        )
    try:
        data: Any = read_yaml_file(path)
    except ForeignFileError as error:
        raise HandError(str(error)) from error
    if not isinstance(data, dict):
        raise HandError(f"{path}: expected a mapping of HandSpec fields, got {type(data).__name__}")
    known = [field.name for field in fields(HandSpec)]
    for key in data:
        if key not in known:
            raise UnknownHandKeyError(path, str(key), known)
    model = str(data.get("model", ""))
    try:
        if model and "://" not in model and not Path(model).is_absolute():
            data["model"] = str((path.parent / model).resolve())
        return HandSpec(**data)
    except HandError:
        raise
    # a required field is missing, or holds another type
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise HandError(f"{path}: {error}") from error


def hand_digest(spec: HandSpec) -> str:
    """sha256 over the spec and the bytes of all its model files; independent of where they are."""
    path = resolve_model(spec.model)
    values = spec.as_dict()
    if "://" not in spec.model:
        values["model"] = path.name  # the same hand in another folder is the same hand
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for file in model_files(path):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.name}:{content}\n".encode())
    return digest.hexdigest()
