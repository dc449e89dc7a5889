"""Stored clouds whose readers meet real faults, and a run that waits to be ended.

`python -m tests.pipeline.shard_faults OUT` writes shards in two workers that never finish.
"""

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.shards import StoredClouds, spread_shards
from pipeline.store import Row, Store
from schemas.records import Cloud
from stages.shard.config import ShardConfig
from tests.stages.shard.conftest import Records, make_records

CONFIG = ShardConfig(scenes_per_shard=2, chunk_points=128, contact_radius=0.02)
VICTIM = "tabletop-00003"
"""Its scene is in the second of the four shards of train; val has a fifth."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clouds:
    """Those of one scene, and what happens to the process that reads them."""

    stored: StoredClouds
    out: Path
    fault: str = ""  # twice | cut | full | die | die once | hang

    def __iter__(self) -> Iterator[Cloud]:
        (self.out / f"{os.getpid()}.reader").touch()
        if (
            self.fault == "full"
        ):  # no file may grow, which the kernel reports as it does a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        if self.fault == "cut":  # a block loses its end after it was looked at
            os.truncate(self.block, self.block.stat().st_size - 30)
        if self.fault.startswith("die") and not (self.fault == "die once" and self._died.exists()):
            self._died.touch()
            half = self.out / "shards" / ".tmp-train-00001.zarr" / "points"
            half.mkdir(parents=True, exist_ok=True)
            (half / "zarr.json").write_text("{")
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "hang":
            time.sleep(600)
        clouds = list(self.stored)
        return iter(clouds * 2 if self.fault == "twice" else clouds)

    @property
    def block(self) -> Path:
        return self.out / "blocks" / "render" / f"{self.stored.places[0][0]}.npz"

    @property
    def _died(self) -> Path:
        return self.out / "died.reader"


def store_clouds(out: Path, records: Records) -> Callable[[str], StoredClouds]:
    """Blocks of three, so that scenes share them."""
    store = Store(out)
    store.open()
    places: dict[str, list[tuple[str, int]]] = {}
    clouds = [cloud for of_scene in records.clouds.values() for cloud in of_scene]
    for start in range(0, len(clouds), 3):
        some = clouds[start : start + 3]
        ids = [f"{c.scene_id}/v{c.view:02d}" for c in some]
        rows = [Row(id=i, key=i, own=i, code="ok", index=n) for n, i in enumerate(ids)]
        marker = store.commit(stage="render", rows=rows, records=some, seconds=0.0)
        for n, cloud in enumerate(some):
            places.setdefault(cloud.scene_id, []).append((marker.block, n))
    spec = "stages.render.stage:RenderStage"
    return lambda name: StoredClouds(
        out=str(out), stage="render", spec=spec, places=tuple(places[name])
    )


def write(
    out: Path,
    *,
    workers: int,
    fault: str = "",
    records: Records | None = None,
    views: int = 4,
    visibility: bool = False,
) -> dict[str, Any]:
    """Write the dataset; scene VICTIM has `views` views, and its reader the fault."""
    records = records or make_records()
    stored = store_clouds(out, records)

    def clouds_of(name: str) -> Clouds:
        found = stored(name)
        if name != VICTIM:
            return Clouds(stored=found, out=out, fault=fault if fault == "hang" else "")
        return Clouds(stored=replace(found, places=found.places[:views]), out=out, fault=fault)

    return records.write(
        out,
        config=replace(CONFIG, visibility=visibility),
        clouds_of=clouds_of,
        contacts=lambda grasps, asset: [np.full((1, 3), 0.01)] * len(grasps),
        spread=partial(spread_shards, workers=workers, patience_s=0.0),
    )


def readers(out: Path) -> set[int]:
    """Processes that have read clouds so far."""
    return {int(p.stem) for p in out.glob("*.reader") if p.stem.isdigit()}


if __name__ == "__main__":
    # Under its importable name, since spawned workers import it again.
    from tests.pipeline import shard_faults

    shard_faults.write(Path(sys.argv[1]), workers=2, fault="hang")
