"""Records -> a dataset on disk: sorted, split by object, one writer per shard, atomic."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from schemas.dataset import FIELDS, SCHEMA_VERSION, field_name
from schemas.records import Cloud, GraspSet, LabelSet, ObjectAsset, Scene
from stages.shard.arrays import grasp_arrays
from stages.shard.config import ShardConfig
from stages.shard.errors import ShardContentError
from stages.shard.index import index_bytes
from stages.shard.job import ShardJob, Spread, WrittenShard, one_by_one, put_shard
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
from stages.shard.publish import scratch_of
from stages.shard.statistics import cloud_statistics, grasp_statistics
from stages.shard.visibility import Contacts, contact_regions, regions_for
from stages.storage import make_folder, remove_tree, sync


def write_dataset(
    out: Path,
    *,
    config: ShardConfig,
    manifest: Mapping[str, Any],
    scenes: Iterable[Scene],
    clouds_of: Callable[[str], Iterable[Cloud]],
    grasps: Sequence[GraspSet],
    labels: Sequence[LabelSet],
    assets: Mapping[str, ObjectAsset],
    splits: Mapping[str, str],
    contacts: Contacts | None = None,
    spread: Spread = one_by_one,
) -> dict[str, Any]:
    """Write or update the dataset at `out`; what has not changed is not written again.

    `manifest`: JSON values to keep (resolved config, keys, "crop" with its digest, protocols with
    their hashes, versions, seeds). `splits`: object id -> train, val or test, for every object
    used. `clouds_of`: clouds of one scene, asked for once per scene, in any order of views.
    `contacts`: where the grasps touch, asked for when the config stores visibility. `spread`: who
    writes the shards of clouds; they are the same bytes whoever does.
    Returns counts: scenes, clouds, points, grasps, shards_written, shards_kept.
    """
    ordered = sorted(scenes, key=lambda scene: scene.scene_id)
    _check(ordered, grasps, labels, assets, splits)
    folder = out / SHARDS
    make_folder(folder)
    of_split = {
        split: [scene for scene in ordered if scene.split == split]
        for split in sorted({s.split for s in ordered} | set(splits.values()))
    }
    parts = {
        shard_name(split, number): mine[start : start + config.scenes_per_shard]
        for split, mine in of_split.items()
        for number, start in enumerate(range(0, len(mine), config.scenes_per_shard))
    }
    grains = any(scene.has_grains for scene in ordered)
    regions = contact_regions(config, grasps, assets, contacts)
    done: dict[str, WrittenShard] = {}
    frames: set[str] = set()
    of_grasps: dict[str, dict[str, Any]] = {}
    with scratch_of(folder) as scratch:
        # Before the clouds, so that labels which do not fit are an error within seconds.
        for split in of_split:
            some = [g for g in grasps if splits[g.object_id] == split]
            if some:
                labelled = [x for x in labels if splits[x.object_id] == split]
                content = grasp_arrays(some, labelled, assets, split)
                name = grasps_name(split)
                done[name] = put_shard(folder / name, content, config, scratch)
                of_grasps[split] = {"grasps": grasp_statistics(content)}
        jobs = (
            ShardJob(
                shard=folder / name,
                scratch=scratch,
                split=part[0].split,
                scenes=tuple(part),
                clouds=tuple(clouds_of(scene.scene_id) for scene in part),
                regions=regions_for(regions, part),
                grains=grains,
                config=config,
            )
            for name, part in parts.items()
        )
        with closing(spread(jobs, len(parts))) as results:
            for shard in results:
                done[shard.name] = shard
                frames |= shard.frames
                if len(frames) > 1:
                    raise ShardContentError(
                        f"clouds in several frames {sorted(frames)}; choose one"
                    )
        for shard in done.values():
            if shard.staged:
                shard.staged.swap()
    rows = [row for name in parts for row in done[name].rows]
    statistics = {
        split: cloud_statistics(mine, [row for row in rows if row["split"] == split])
        | of_grasps.get(split, {})
        for split, mine in of_split.items()
    }
    optional = {name for shard in done.values() for name in shard.optional}
    _publish_manifest(out, manifest, rows, done, statistics, assets, splits, frames, optional)
    _remove_stale(folder, set(done))
    written = sum(shard.written for shard in done.values())
    return {
        "scenes": len(ordered),
        "clouds": len(rows),
        "points": sum(row["points"] for row in rows),
        "grasps": sum(len(g) for g in grasps),
        "shards_written": written,
        "shards_kept": len(done) - written,
    }


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


def _publish_manifest(
    out: Path,
    manifest: Mapping[str, Any],
    rows: list[dict[str, Any]],
    shards: Iterable[str],
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
        name: sha256_bytes(marker_of(out / SHARDS / name).read_bytes()) for name in sorted(shards)
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
