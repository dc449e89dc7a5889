"""Where a hand's model files are: a registry of URI schemes, and the list of files of a model."""

import importlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

from stages.assets.hands.errors import HandError, HandNotFoundError


def _mani_skill(rest: str) -> Path:
    # find_spec does not import the package, which would load torch and SAPIEN.
    found = importlib.util.find_spec("mani_skill")
    if found is None or found.origin is None:
        raise HandNotFoundError(
            "mani_skill:// needs the package mani_skill, which is not installed: "
            "pip install 'grasp-clouds[generate]'"
        )
    return Path(found.origin).parent / "assets" / rest


def _menagerie(rest: str) -> Path:
    if root := os.environ.get("MENAGERIE_ROOT"):
        return Path(root) / rest
    if importlib.util.find_spec("mujoco_menagerie") is None:
        raise HandNotFoundError(
            f"menagerie://{rest} needs either MENAGERIE_ROOT, the folder of a checkout of "
            "mujoco_menagerie, or the package: pip install mujoco-menagerie (it downloads a "
            "robot's files when they are first asked for)"
        )
    package = importlib.import_module("mujoco_menagerie")
    robot, _, inside = rest.partition("/")
    try:
        return Path(package.get(robot).path()) / inside
    except (package.MenagerieError, OSError) as error:
        raise HandNotFoundError(
            f"menagerie://{rest}: the package mujoco-menagerie cannot give it: {error}; without "
            "a network, set MENAGERIE_ROOT to a checkout of mujoco_menagerie"
        ) from error


def _dexgraspbench(rest: str) -> Path:
    root = os.environ.get("DEXGRASPBENCH_HANDS")
    if not root:
        raise HandNotFoundError(
            "dexgraspbench:// needs DEXGRASPBENCH_HANDS, the folder assets/hand of a checkout of "
            "DexGraspBench; it is not set"
        )
    return Path(root) / rest


SCHEMES: dict[str, Callable[[str], Path]] = {
    "dexgraspbench": _dexgraspbench,
    "mani_skill": _mani_skill,
    "menagerie": _menagerie,
}
"""Scheme -> where the file after `://` is; raises HandNotFoundError with what to install."""


def resolve_model(uri: str) -> Path:
    """Absolute path of the model file that `uri` names; HandNotFoundError when there is none."""
    scheme, separator, rest = uri.partition("://")
    if separator and scheme not in SCHEMES:
        raise HandNotFoundError(
            f"{uri}: unknown scheme {scheme!r}; known: {', '.join(sorted(SCHEMES))}, or a path"
        )
    path = SCHEMES[scheme](rest) if separator else Path(uri)
    if not path.is_file():
        raise HandNotFoundError(f"{uri}: no file at {path}; check the model of the hand")
    return path.resolve()


def model_is_here(uri: str) -> bool:
    """Whether the model file of `uri` is on this machine; nothing is downloaded to find out."""
    scheme, _, rest = uri.partition("://")
    package = "mujoco_menagerie"
    if scheme == "menagerie" and not os.environ.get("MENAGERIE_ROOT"):
        if importlib.util.find_spec(package) is None:
            return False
        menagerie = importlib.import_module(package)
        return bool(menagerie.Cache().is_cached(menagerie.get(rest.partition("/")[0])))
    try:
        resolve_model(uri)
    except HandNotFoundError:
        return False
    return True


def find_mesh(model: Path, name: str) -> Path | None:
    """The file that a URDF calls `name`: a path from its folder, `file://` or `package://`."""
    if not name.startswith("package://"):
        found = model.parent / name.removeprefix("file://")
        return found if found.is_file() else None
    # The package's own folder is some folder above the URDF, or beside one of those.
    inside = name.removeprefix("package://")
    tails = (inside, inside.partition("/")[2])
    tries = (parent / tail for parent in model.parents for tail in tails)
    return next((path for path in tries if path.is_file()), None)


def model_files(path: Path) -> list[Path]:
    """The model file and every existing file it names (meshes, includes), sorted, each once."""
    out = {path}
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise HandError(f"{path}: expected a URDF or an MJCF, got no XML: {error}") from error
    compiler = root.find("compiler")
    mesh_dir = compiler.get("meshdir", "") if compiler is not None else ""
    for element in root.iter():
        name = element.get("filename") or element.get("file")
        if not name:
            continue
        found = find_mesh(path, name) or find_mesh(path, str(Path(mesh_dir) / name))
        if found is None or (found := found.resolve()) in out:
            continue
        if element.tag == "include":
            out.update(model_files(found))
        out.add(found)
    return sorted(out)
