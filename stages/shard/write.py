"""Records -> a dataset on disk: sorted, split by object, one writer per shard, atomic."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas.dataset import FIELDS, SCHEMA_VERSION, field_name, field_of
from schemas.records import Cloud, GraspSet, LabelSet, ObjectAsset, Scene
from stages.shard.arrays import ShardArrays, cloud_arrays, grasp_arrays
from stages.shard.config import ShardConfig
from stages.shard.errors import ShardContentError
from stages.shard.index import index_bytes
from stages.shard.layout import (
    CHOICE_NAME,
    COMMIT,
    INDEX,
    MANIFEST,
    SHARD_NAME,
    SHARDS,
    SPLITS,
    canonical,
    grasps_name,
    marker_of,
    publish_bytes,
    seal,
    sha256_bytes,
    shard_name,
)  # fmt: skip
from stages.shard.publish import StagedShard, stage_shard
from stages.shard.statistics import cloud_statistics, grasp_statistics
from stages.shard.visibility import Contacts, contact_regions
from stages.storage import make_folder, remove_tree, sync


def write_dataset(
    out: Path,
    *,
    config: ShardConfig,
    manifest: Mapping[str, Any],
    scenes: Iterable[Scene],
    clouds_of: Callable[[str], Sequence[Cloud]],
    grasps: Sequence[GraspSet],
    labels: Sequence[LabelSet],
    assets: Mapping[str, ObjectAsset],
    splits: Mapping[str, str],
    contacts: Contacts | None = None,
) -> dict[str, Any]:
    """Write or update the dataset at `out`; what has not changed is not written again.

    `manifest`: JSON values to keep (resolved config, keys, "crop" with its digest, protocols with
    their hashes, versions, seeds). `splits`: object id -> train, val or test, for every object
    used. `clouds_of`: clouds of one scene, asked for once per scene, in any order of views.
    `contacts`: where the grasps touch, asked for when the config stores visibility.
    Returns counts: scenes, clouds, points, grasps, shards_written, shards_kept.
    """
    ordered = sorted(scenes, key=lambda scene: scene.scene_id)
    _check(ordered, grasps, labels, assets, splits)
    folder = out / SHARDS
    make_folder(folder)
    written: dict[str, bool] = {}
    waiting: list[StagedShard] = []
    rows: list[dict[str, Any]] = []
    statistics: dict[str, Any] = {}
    frames: set[str] = set()
    optional: set[str] = set()
    grains = any(scene.has_grains for scene in ordered)
    regions = contact_regions(config, grasps, assets, contacts)
    try:
        for split in sorted({s.split for s in ordered} | set(splits.values())):
            mine = [scene for scene in ordered if scene.split == split]
            split_rows: list[dict[str, Any]] = []
            for number, start in enumerate(range(0, len(mine), config.scenes_per_shard)):
                part = mine[start : start + config.scenes_per_shard]
                clouds = [sorted(clouds_of(s.scene_id), key=lambda c: c.view) for s in part]
                _check_clouds(part, clouds)
                content = cloud_arrays(part, clouds, split, regions, grains)
                optional |= {name for name in content.arrays if field_of(name).optional}
                frames |= {cloud.frame for of_scene in clouds for cloud in of_scene}
                if len(frames) > 1:
                    raise ShardContentError(
                        f"clouds in several frames {sorted(frames)}; choose one"
                    )
                name = shard_name(split, number)
                written[name] = _put(folder / name, content, config, waiting)
                split_rows += _index_rows(part, clouds, name)
            rows += split_rows
            of_split = [g for g in grasps if splits[g.object_id] == split]
            statistics[split] = cloud_statistics(mine, split_rows)
            if of_split:
                labelled = [x for x in labels if splits[x.object_id] == split]
                content = grasp_arrays(of_split, labelled, assets, split)
                optional |= {name for name in content.arrays if field_of(name).optional}
                name = grasps_name(split)
                written[name] = _put(folder / name, content, config, waiting)
                statistics[split]["grasps"] = grasp_statistics(content)
    except BaseException:
        for staged in waiting:
            staged.discard()
        raise
    for staged in waiting:
        staged.swap()
    _publish_manifest(out, manifest, rows, written, statistics, assets, splits, frames, optional)
    _remove_stale(folder, set(written))
    return {
        "scenes": len(ordered),
        "clouds": len(rows),
        "points": sum(row["points"] for row in rows),
        "grasps": sum(len(g) for g in grasps),
        "shards_written": sum(written.values()),
        "shards_kept": len(written) - sum(written.values()),
    }


def _put(
    shard: Path, content: ShardArrays, config: ShardConfig, waiting: list[StagedShard]
) -> bool:
    """New shards are published at once; those that replace one wait until all are written."""
    staged = stage_shard(shard, content, config)
    if staged is None:
        return False
    if shard.exists():
        waiting.append(staged)
    else:
        staged.swap()
    return True


def _check(
    scenes: Sequence[Scene],
    grasps: Sequence[GraspSet],
    labels: Sequence[LabelSet],
    assets: Mapping[str, ObjectAsset],
    splits: Mapping[str, str],
) -> None:
    problems: list[str] = []
    if unknown := sorted(set(splits.values()) - set(SPLITS)):
        problems.append(f"splits {unknown}: expected {', '.join(SPLITS)}")
    ids = [scene.scene_id for scene in scenes]
    if len(set(ids)) < len(ids):
        twice = sorted({name for name in ids if ids.count(name) > 1})
        problems.append(f"scene ids that come twice: {twice[:5]}")
    used = {name for s in scenes for name in s.object_ids} | {g.object_id for g in grasps}
    if missing := sorted(used - set(splits)):
        problems.append(f"objects without a split: {missing[:5]}")
    if missing := sorted(used - set(assets)):
        problems.append(f"objects without an asset: {missing[:5]}")
    for scene in scenes:
        other = {n: splits[n] for n in scene.object_ids if splits.get(n) != scene.split}
        if other:
            problems.append(
                f"scene {scene.scene_id} is in {scene.split}, but its objects are not: {other}"
            )
    names = {g.hand for g in grasps} | {x.hand for x in labels} | {x.protocol for x in labels}
    if bad := sorted(name for name in names if not CHOICE_NAME.fullmatch(name)):
        problems.append(f"hand or protocol names {bad}: expected letters, digits and _ . - only")
    known = {(g.hand, g.object_id) for g in grasps}
    if lost := sorted({(x.hand, x.object_id) for x in labels} - known):
        problems.append(f"labels without grasps (hand, object): {lost[:5]}")
    if problems:
        raise ShardContentError("cannot write this dataset: " + "; ".join(problems))


def _check_clouds(scenes: Sequence[Scene], clouds: Sequence[Sequence[Cloud]]) -> None:
    for scene, of_scene in zip(scenes, clouds, strict=True):
        views = [cloud.view for cloud in of_scene]
        wrong = {c.scene_id for c in of_scene} - {scene.scene_id}
        if wrong or len(set(views)) < len(views):
            raise ShardContentError(
                f"scene {scene.scene_id}: expected its own clouds, one per view, got views "
                f"{views} and clouds of {sorted(wrong) or 'no other scene'}"
            )


def _index_rows(
    scenes: Sequence[Scene], clouds: Sequence[Sequence[Cloud]], shard: str
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for scene, of_scene in zip(scenes, clouds, strict=True):
        for cloud in of_scene:
            rows.append(
                {
                    "scene": scene.scene_id, "kind": scene.kind, "view": cloud.view,
                    "split": scene.split, "shard": shard, "row": len(rows),
                    "points": len(cloud.points), "valid_count": cloud.valid_count,
                    "object_ids": list(scene.object_ids),
                }
            )  # fmt: skip
    return rows


def _publish_manifest(
    out: Path,
    manifest: Mapping[str, Any],
    rows: list[dict[str, Any]],
    written: Mapping[str, bool],
    statistics: Mapping[str, Any],
    assets: Mapping[str, ObjectAsset],
    splits: Mapping[str, str],
    frames: set[str],
    optional: set[str],
) -> None:
    there = {field_name(name) for name in optional}
    fields = {name: field.attributes("see frame") | {"dtype": field.dtype} for name, field in
              FIELDS.items() if not field.optional or name in there}  # fmt: skip
    body = {
        **manifest,
        "schema_version": SCHEMA_VERSION,
        "frame": min(frames, default="camera"),
        "quaternion_order": "wxyz",
        "splits": {
            split: sorted(name for name, of in splits.items() if of == split)
            for split in sorted(set(splits.values()))
        },
        "objects": {
            name: {"source": a.source, "licence": a.licence, "sha256": a.sha256,
                   "scale": float(a.scale), "mass_kg": float(a.mass)}
            for name, a in sorted(assets.items()) if name in splits
        },
        "statistics": statistics,
        "fields": fields,
        **({"optional": sorted(optional)} if optional else {}),
    }  # fmt: skip
    index = index_bytes(rows)
    dataset = canonical(body, indent=1)
    markers = {
        name: sha256_bytes(marker_of(out / SHARDS / name).read_bytes()) for name in sorted(written)
    }
    commit = seal(
        {"files": {INDEX: sha256_bytes(index), MANIFEST: sha256_bytes(dataset)},
         "shards": markers, "schema_version": SCHEMA_VERSION}
    )  # fmt: skip
    if (out / COMMIT).is_file() and (out / COMMIT).read_bytes() == commit:
        same = (out / INDEX).is_file() and (out / INDEX).read_bytes() == index
        if same and (out / MANIFEST).is_file() and (out / MANIFEST).read_bytes() == dataset:
            return
    # Without a commit there is no dataset: a reader never mixes an old index with a new manifest.
    (out / COMMIT).unlink(missing_ok=True)
    publish_bytes(out / INDEX, index)
    publish_bytes(out / MANIFEST, dataset)
    publish_bytes(out / COMMIT, commit)


def _remove_stale(folder: Path, keep: set[str]) -> None:
    """Shards of an earlier, larger dataset and what a killed writer left; nothing else."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        name = path.name.removeprefix(".tmp-").removeprefix("old-").removesuffix(".commit.json")
        if not SHARD_NAME.fullmatch(name) or (name in keep and not path.name.startswith(".tmp-")):
            continue
        remove_tree(path)
    sync(folder)
