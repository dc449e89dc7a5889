"""Everything that is wrong with a dataset on the disk, found in one pass."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.dataset import SCHEMA_VERSION
from schemas.errors import SchemaError
from stages.shard.check import check_content
from stages.shard.errors import DatasetError
from stages.shard.index import read_index
from stages.shard.layout import (
    COMMIT,
    INDEX,
    MANIFEST,
    SHARDS,
    marker_of,
    sha256_bytes,
)  # fmt: skip
from stages.shard.open import (
    array_nodes,
    check_shard,
    load_commit,
    load_manifest,
    read_shard,
    shard_files,
)
from stages.shard.publish import array_attributes
from stages.storage import file_sha256, is_remote, list_files, output_path


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """`place` is a path relative to the dataset; `kind` one of marker, checksum, missing, extra,
    schema, content, index, split, version."""

    place: str
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: [{self.kind}] {self.message}"


def verify_dataset(out: Path) -> list[Problem]:
    """Markers, checksums, missing and extra files, schema, geometry, index, splits.

    An empty list means that every byte is the one written and that it says what it should.
    """
    out = output_path(out)
    try:
        commit = load_commit(out)
    except DatasetError as error:
        kind = "version" if "schema version" in str(error) else "marker"
        return [Problem(place=COMMIT, kind=kind, message=str(error))]
    problems, sound = _files(out, commit)
    manifest = _manifest(out)
    rows = 0
    for shard in sound:
        try:
            content_problems, clouds = _shard_content(out, shard, commit, manifest)
        except (DatasetError, ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"cannot be read: {type(error).__name__}: {error}"
            content_problems, clouds = [_problem(out, shard, "schema", message)], 0
        problems += content_problems
        rows += clouds
    if not problems:
        problems += _index(out, rows, manifest)
    return problems


def verify_files(out: Path, *, deep: bool = True) -> list[Problem]:
    """The part of `verify_dataset` that looks at bytes alone: markers, checksums, extra files.

    Without `deep` the files of shards are looked at by their sizes only.
    """
    out = output_path(out)
    try:
        return _files(out, load_commit(out), deep=deep)[0]
    except DatasetError as error:
        return [Problem(place=COMMIT, kind="marker", message=str(error))]


def _files(
    out: Path, commit: dict[str, Any], *, deep: bool = True
) -> tuple[list[Problem], list[Path]]:
    """Problems, and the shards that have none."""
    problems = list(_top_files(out, commit))
    folder = out / SHARDS
    known = set(commit["shards"])
    known |= {marker_of(folder / name).name for name in commit["shards"]}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.name not in known:
            problems.append(_problem(out, path, "extra", "not named by the commit; remove it"))
    sound: list[Path] = []
    shards = sorted(commit["shards"].items())

    def look(shard: tuple[str, str]) -> list[Problem]:
        return list(_shard_files(out, folder / shard[0], shard[1], deep))

    with ThreadPoolExecutor(4) as pool:  # hashing lets go of the interpreter lock
        for (name, _), found in zip(shards, pool.map(look, shards), strict=True):
            problems += found
            if not found:
                sound.append(folder / name)
    return problems, sound


def _problem(out: Path, path: Path, kind: str, message: str) -> Problem:
    return Problem(place=path.relative_to(out).as_posix(), kind=kind, message=message)


def _top_files(out: Path, commit: dict[str, Any]) -> Iterator[Problem]:
    for name in (MANIFEST, INDEX):
        path = out / name
        if not path.is_file():
            yield _problem(out, path, "missing", "no such file; run the shard stage again")
        elif file_sha256(path) != commit["files"][name]:
            yield _problem(out, path, "checksum", "not the bytes that were written")


def _manifest(out: Path) -> dict[str, Any]:
    try:
        return load_manifest(out)
    except (DatasetError, OSError):
        return {}  # reported by _top_files


def _shard_files(out: Path, shard: Path, marker_sha256: str, deep: bool) -> Iterator[Problem]:
    marker = marker_of(shard)
    if not marker.is_file():
        yield _problem(out, marker, "missing", "no marker, so the shard may not be read")
        return
    if sha256_bytes(marker.read_bytes()) != marker_sha256:
        yield _problem(out, marker, "marker", f"not the marker that {COMMIT} names")
        return
    try:
        files = shard_files(marker)
    except DatasetError as error:
        yield _problem(out, marker, "marker", str(error))
        return
    there = list_files(shard)
    for name in sorted({*files, *there}):
        path = shard / name
        if not is_remote(path) and path.is_symlink():
            yield _problem(out, path, "extra", "a link; a dataset holds plain files only")
        elif name not in there:
            yield _problem(out, path, "missing", f"a file of {files[name][0]} bytes is gone")
        elif name not in files:
            yield _problem(out, path, "extra", "not named by the shard's marker")
        elif there[name] != files[name][0]:
            message = f"{there[name]} bytes, expected {files[name][0]}"
            yield _problem(out, path, "checksum", message)
        elif deep and file_sha256(path) != files[name][1]:
            yield _problem(out, path, "checksum", "not the bytes that were written")


def _shard_content(
    out: Path, shard: Path, commit: dict[str, Any], manifest: dict[str, Any]
) -> tuple[list[Problem], int]:
    here = check_shard(out, shard.name, commit)
    content = read_shard(here)
    root = content.groups[""]
    messages = check_content(content)
    if root.get("schema_version") != SCHEMA_VERSION:
        messages.append(f"schema version {root.get('schema_version')}, not {SCHEMA_VERSION}")
    if "frame" in root and root["frame"] != manifest.get("frame", root["frame"]):
        messages.append(f"frame {root['frame']}, but the manifest says {manifest['frame']}")
    for name, node in array_nodes(here).items():
        try:
            expected = array_attributes(name, content.groups)
        except SchemaError:
            continue  # reported by check_content
        got = node.get("attributes", {})
        wrong = sorted(k for k in {*expected, *got} if expected.get(k) != got.get(k))
        if wrong:
            messages.append(f"{name}: attributes {wrong} are not those of the field dictionary")
    problems = [_problem(out, shard, "schema", message) for message in messages]
    foreign = set(root.get("object_ids", ())) - set(
        manifest.get("splits", {}).get(root.get("split"), ())
    )
    if foreign and manifest:
        message = f"objects {sorted(foreign)[:5]} are not of split {root.get('split')!r}"
        problems.append(_problem(out, shard, "split", message))
    return problems, len(content.arrays.get("view", ()))


def _index(out: Path, clouds: int, manifest: dict[str, Any]) -> list[Problem]:
    problems: list[Problem] = []
    seen: dict[str, str] = {}
    for split, names in manifest["splits"].items():
        for name in names:
            if seen.setdefault(name, split) != split:
                message = f"object {name!r} is in {seen[name]} and in {split}"
                problems.append(Problem(place=MANIFEST, kind="split", message=message))
    rows = read_index(out / INDEX)
    if len(rows) != clouds:
        message = f"{len(rows)} rows, but the shards hold {clouds} clouds"
        problems.append(Problem(place=INDEX, kind="index", message=message))
    for row in rows:
        wrong = [o for o in row["object_ids"] if seen.get(o) != row["split"]]
        if wrong:
            message = f"{row['scene']} is in {row['split']}, its objects {wrong} are not"
            problems.append(Problem(place=INDEX, kind="split", message=message))
    return problems
