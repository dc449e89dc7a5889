"""One shard of clouds as a job: all that its writer needs, and what the dataset needs of it.

Both are plain values that can be pickled, so any process of this machine may be the writer.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.dataset import field_of
from schemas.records import Cloud, Scene
from stages.shard.arrays import ShardArrays, cloud_arrays
from stages.shard.config import ShardConfig
from stages.shard.errors import ShardContentError
from stages.shard.publish import StagedShard, stage_shard
from stages.shard.visibility import Regions


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ShardJob:
    """A shard to write. `clouds[i]` are those of `scenes[i]`, read when they are iterated."""

    shard: Path  # where it is to be
    scratch: Path  # folder of this machine where it is written first
    split: str
    scenes: tuple[Scene, ...]
    clouds: tuple[Iterable[Cloud], ...]
    regions: Mapping[str, Regions]
    grains: bool
    config: ShardConfig


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WrittenShard:
    """A shard that is there, or `staged`: complete, and still to take the place of another."""

    name: str
    rows: Sequence[dict[str, Any]]  # of the index, in the order of the shard
    frames: frozenset[str]
    optional: frozenset[str]  # paths of the arrays that not every dataset has
    written: bool  # False: it was published already
    staged: StagedShard | None


Spread = Callable[[Iterator[ShardJob], int], Generator[WrittenShard]]
"""Does so many jobs, in any order; when it is closed nobody writes any more."""


def one_by_one(jobs: Iterator[ShardJob], count: int) -> Generator[WrittenShard]:
    """The `Spread` of a single process, this one."""
    yield from map(write_shard, jobs)


def write_shard(job: ShardJob) -> WrittenShard:
    """Publish a new shard, or stage one that replaces another.

    Raises ShardContentError for clouds that do not belong together.
    """
    clouds = [sorted(of_scene, key=lambda cloud: cloud.view) for of_scene in job.clouds]
    _check_clouds(job.scenes, clouds)
    content = cloud_arrays(job.scenes, clouds, job.split, job.regions, job.grains)
    return put_shard(
        job.shard,
        content,
        job.config,
        job.scratch,
        rows=_index_rows(job.scenes, clouds, job.shard.name),
        frames=frozenset(cloud.frame for of_scene in clouds for cloud in of_scene),
    )


def put_shard(
    shard: Path,
    content: ShardArrays,
    config: ShardConfig,
    scratch: Path,
    *,
    rows: Sequence[dict[str, Any]] = (),
    frames: frozenset[str] = frozenset(),
) -> WrittenShard:
    """Publish a shard at once when it is new; one that replaces another waits in `scratch`."""
    staged = stage_shard(shard, content, config, scratch)
    written = staged is not None
    if staged and not shard.exists():
        staged.swap()
        staged = None
    return WrittenShard(
        name=shard.name,
        rows=rows,
        frames=frames,
        optional=frozenset(name for name in content.arrays if field_of(name).optional),
        written=written,
        staged=staged,
    )


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
