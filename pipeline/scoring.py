"""Label published grasps outside the graph: files in, one table out, resumable.

Labels of each object and scale are kept beside the table, under a content key, until the table is
written; a run that was killed goes on from there.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from pipeline.errors import UserError
from pipeline.keys import digest
from schemas.records import GraspSet, LabelSet, ObjectAsset, decode, encode
from stages.storage import write_atomic

BATCH = 64  # grasps after which labels are kept


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Group:
    """All grasps of one object at one scale and pose, and where each comes from."""

    grasps: GraspSet  # grasp_index counts from 0
    scale: float
    object_file: str
    files: tuple[str, ...]  # (G,) relative to what was asked for
    rows: tuple[int, ...]  # (G,) in its file
    published: tuple[bool | None, ...]  # (G,) success as published


def find_files(paths: Sequence[Path], suffix: str) -> list[tuple[Path, str]]:
    """(file, name in the table) of all files and of all files of `suffix` in all folders."""
    found: list[tuple[Path, str]] = []
    for path in paths:
        if path.is_dir():
            found += [(p, p.relative_to(path).as_posix()) for p in path.rglob(f"*{suffix}")]
        elif path.is_file():
            found.append((path, path.name))
        else:
            raise UserError(f"label: {path} does not exist; give files or folders of grasps")
    if not found:
        names = ", ".join(str(path) for path in paths)
        raise UserError(f"label: no {suffix} file under {names}; is --format right?")
    return sorted(found, key=lambda pair: pair[1])


def read_groups(files: Sequence[tuple[Path, str]], format_: str, hand: Any) -> list[Group]:
    """Grasps of all files by object, scale and pose, in order of first appearance."""
    from stages.grasp.formats import ImportedGrasps, read_grasps

    sets: dict[tuple[Any, ...], list[tuple[str, ImportedGrasps]]] = {}
    for path, name in files:
        for imported in read_grasps(path, format_, hand):
            grasps = imported.grasps
            key = (grasps.object_id, imported.scale, *grasps.object_pose.tolist())
            sets.setdefault(key, []).append((name, imported))
    return [_group(members) for members in sets.values()]


def _group(members: Sequence[tuple[str, Any]]) -> Group:
    first = members[0][1]
    joined = {
        name: np.concatenate([getattr(m.grasps, name) for _, m in members])
        for name in ("pregrasp_qpos", "grasp_qpos", "squeeze_qpos")
    }
    count = len(joined["grasp_qpos"])
    published: list[bool | None] = []
    for _, member in members:
        known = member.success
        published += [None] * len(member.grasps) if known is None else known.tolist()
    return Group(
        grasps=replace(first.grasps, grasp_index=np.arange(count), **joined),
        scale=first.scale,
        object_file=first.object_file,
        files=tuple(name for name, m in members for _ in range(len(m.grasps))),
        rows=tuple(row for _, m in members for row in range(len(m.grasps))),
        published=tuple(published),
    )


def label_groups(
    groups: Sequence[Group],
    find_asset: Callable[[Group], ObjectAsset],
    hand: str,
    config: Any,
    protocol: str,
    parts: Path,
    progress: Callable[[int], None],
) -> list[LabelSet]:
    """One LabelSet a group. `config` is a LabelConfig; `progress` hears of finished grasps."""
    from stages.envs.base import build_env
    from stages.label.config import protocol_hash
    from stages.label.stage import label_set

    hash_ = protocol_hash(config, protocol)
    parts.mkdir(parents=True, exist_ok=True)
    labels: list[LabelSet] = []
    with build_env(config.env(hand, protocol)) as env:
        for batch in _batches(groups):
            assets = [find_asset(group) for group in batch]
            paths = [
                parts / f"{_key(group, asset, hash_, config, env.engine)}.npz"
                for group, asset in zip(batch, assets, strict=True)
            ]
            todo = [i for i, path in enumerate(paths) if not path.is_file()]
            pairs = [(batch[i].grasps, assets[i]) for i in todo]
            for i, evaluation in zip(todo, env.evaluate_all(pairs, protocol), strict=True):
                record = label_set(batch[i].grasps, evaluation, hash_, seed=0)
                write_atomic(paths[i], lambda file, r=record: _save(file, r))
            for path in paths:
                with np.load(path) as arrays:
                    labels.append(decode(LabelSet, dict(arrays)))
            progress(sum(len(group.grasps) for group in batch))
    return labels


def _save(file: IO[bytes], record: LabelSet) -> None:
    np.savez(file, **encode(record))  # type: ignore[arg-type]


def _batches(groups: Sequence[Group]) -> Iterator[list[Group]]:
    batch: list[Group] = []
    for group in groups:
        batch.append(group)
        if sum(len(g.grasps) for g in batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _key(group: Group, asset: ObjectAsset, hash_: str, config: Any, engine: str) -> str:
    content = hashlib.sha256()
    for name, array in sorted(encode(group.grasps).items()):
        content.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return digest(
        [content.hexdigest(), asset.sha256, asset.scale, hash_, asdict(config.confidence),
         engine]
    )  # fmt: skip


def write_table(path: Path, groups: Sequence[Group], labels: Sequence[LabelSet]) -> None:
    """One row a grasp, Parquet: its file and row, the object, and every field of its label."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {"file": [], "row": [], "scale": [], "published_success": []}
    for group, label in zip(groups, labels, strict=True):
        count = len(group.grasps)
        columns["file"] += group.files
        columns["row"] += group.rows
        columns["scale"] += [group.scale] * count
        columns["published_success"] += group.published
        for field in fields(LabelSet):
            if field.name == "grasp_index":
                continue
            value = getattr(label, field.name)
            if field.name == "lift" and not len(value):
                continue  # of another protocol
            each = value.tolist() if isinstance(value, np.ndarray) else [value] * count
            columns.setdefault(field.name, []).extend(each)
    table = pa.table(columns)
    write_atomic(path, lambda file: pq.write_table(table, file))


def forget_parts(parts: Path) -> None:
    """The kept labels are in the table now."""
    shutil.rmtree(parts, ignore_errors=True)
