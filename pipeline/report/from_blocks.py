"""Facts of an output that has no dataset: what the blocks of its config hold."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from pipeline.errors import CorruptBlockError
from pipeline.report.facts import (
    MOST_BLOCKS,
    CloudRow,
    Facts,
    LabelTable,
    camera_key,
    spread,
    view_distance,
)
from pipeline.store import Store
from schemas.errors import SchemaError
from schemas.records import Cloud, LabelSet, ObjectAsset, Scene, decode

R = TypeVar("R")
_ROWS = {"success", "outcome", "grasp_index"}


def add_blocks(facts: Facts, store: Store) -> None:
    """Clouds, labels and sizes of objects; a block that does not read becomes a note."""
    for asset in records(facts, store, "assets", ObjectAsset):
        facts.extents[asset.object_id] = float(np.ptp(asset.vertices, axis=0).max())
    scenes = {scene.scene_id: scene for scene in records(facts, store, "scene", Scene)}
    seen: set[tuple[str, int]] = set()
    for cloud in records(facts, store, "render", Cloud):
        scene = scenes.get(cloud.scene_id)
        if (cloud.scene_id, cloud.view) in seen:
            continue
        seen.add((cloud.scene_id, cloud.view))
        poses = scene.object_poses if scene else np.zeros((0, 7))
        facts.clouds.append(
            CloudRow(
                scene=cloud.scene_id,
                view=cloud.view,
                split=scene.split if scene else "",
                kind=scene.kind if scene else "",
                points=len(cloud.points),
                valid=cloud.valid_count,
                distance=view_distance(cloud.T_world_cam, poses),
                camera=camera_key(cloud.T_world_cam, cloud.intrinsics),
            )
        )
    facts.clouds_total = sum(work.items for work in facts.work if work.name == "render")
    splits = {name: s.split for s in scenes.values() for name in s.object_ids}
    for label in records(facts, store, "label", LabelSet):
        rows = len(label.grasp_index)
        arrays: dict[str, Any] = {
            f.name: np.asarray(getattr(label, f.name))
            for f in fields(label)
            if f.name not in _ROWS and "NDArray" in str(f.type)
        }
        facts.labels.append(
            LabelTable(
                split=splits.get(label.object_id, ""),
                hand=label.hand,
                protocol=label.protocol,
                object_ids=np.full(rows, label.object_id),
                outcome=label.outcome,
                success=label.success,
                columns=arrays,
            )
        )


def records(facts: Facts, store: Store, stage: str, record: type[R]) -> Iterator[R]:
    """Records of at most MOST_BLOCKS blocks of a stage, spread over all."""
    blocks = next((work.blocks for work in facts.work if work.name == stage), [])
    for path in spread(blocks, MOST_BLOCKS):
        try:
            marker = store.read_marker(path)
            for arrays in store.read_arrays(marker).values():
                yield decode(record, arrays)
        except (CorruptBlockError, SchemaError, OSError, ValueError) as error:
            facts.notes.append(f"{stage}: {error}")
