"""Where a hand's model files are: a registry of URI schemes, and the list of files of a model."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from stages.assets.hands.errors import HandNotFoundError


def _mani_skill_root() -> Path:
    # find_spec does not import the package, which would load torch and SAPIEN.
    found = importlib.util.find_spec("mani_skill")
    if found is None or found.origin is None:
        raise HandNotFoundError(
            "mani_skill:// needs the package mani_skill, which is not installed: "
            "pip install 'grasp-clouds[generate]'"
        )
    return Path(found.origin).parent / "assets"


def _menagerie_root() -> Path:
    root = os.environ.get("MENAGERIE_ROOT")
    if not root:
        raise HandNotFoundError(
            "menagerie:// needs MENAGERIE_ROOT, the folder of a mujoco_menagerie checkout; "
            "it is not set"
        )
    return Path(root)


def _dexgraspbench_hands() -> Path:
    root = os.environ.get("DEXGRASPBENCH_HANDS")
    if not root:
        raise HandNotFoundError(
            "dexgraspbench:// needs DEXGRASPBENCH_HANDS, the folder assets/hand of a DexGraspBench "
            "checkout; it is not set"
        )
    return Path(root)


SCHEMES: dict[str, Callable[[], Path]] = {
    "dexgraspbench": _dexgraspbench_hands,
    "mani_skill": _mani_skill_root,
    "menagerie": _menagerie_root,
}


def resolve_model(uri: str) -> Path:
    """Absolute path of the model file that `uri` names; HandNotFoundError when there is none."""
    scheme, separator, rest = uri.partition("://")
    if separator and scheme not in SCHEMES:
        raise HandNotFoundError(
            f"{uri}: unknown scheme {scheme!r}; known: {', '.join(sorted(SCHEMES))}, or a path"
        )
    path = SCHEMES[scheme]() / rest if separator else Path(uri)
    if not path.is_file():
        raise HandNotFoundError(f"{uri}: no file at {path}; check the model of the hand")
    return path.resolve()


def model_files(path: Path) -> list[Path]:
    """The model file and every existing file it names (meshes, includes), sorted, each once."""
    out = {path}
    root = ElementTree.parse(path).getroot()
    compiler = root.find("compiler")
    mesh_dir = compiler.get("meshdir", "") if compiler is not None else ""
    for element in root.iter():
        name = element.get("filename") or element.get("file")
        if not name:
            continue
        candidates = [path.parent / name, path.parent / mesh_dir / name]
        found = next((c.resolve() for c in candidates if c.is_file()), None)
        if found is None or found in out:
            continue
        if element.tag == "include":
            out.update(model_files(found))
        out.add(found)
    return sorted(out)
