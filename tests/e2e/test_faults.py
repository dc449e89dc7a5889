"""The short form of scripts/inject_faults.py, and growing and mending a dataset by commands."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from pipeline.store import Store
from schemas.records import Cloud, GraspSet, LabelSet, decode, encode
from scripts import inject_faults
from stages.shard.digest import dataset_digest

pytestmark = pytest.mark.slow

# one of each kind of process fault that is quick, and one of each damage
SHORT = (0, 1, 2, 6, 10, 11, 12, 13, 14, 15, 3, 36, 18, 19)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """(folder with the config and the finished output `whole`, digest)."""
    folder = tmp_path_factory.mktemp("faults")
    return folder, inject_faults.prepare(folder)


def test_nothing_is_lost(whole: tuple[Path, str]) -> None:
    folder, expected = whole
    landed = 0
    for number in SHORT:
        kind, site = inject_faults.inject(folder, 0, number, expected)
        assert not site.trouble, f"{kind}, {site.said}: {site.trouble}"
        assert site.found is not False, f"{kind}, {site.said}: verify did not find it"
        landed += site.landed
        shutil.rmtree(site.out)
    assert landed >= len(SHORT) - 3


def read_all(out: Path, stage: str, record: type) -> dict[str, bytes]:
    store, found = Store(out), dict[str, bytes]()
    for path in store.markers(stage):
        marker = store.read_marker(path)
        arrays = store.read_arrays(marker)
        for row in marker.rows:
            if row.index is not None:
                fields = encode(decode(record, arrays[row.index]))
                found[row.id] = b"".join(np.asarray(fields[name]).tobytes() for name in fields)
    return found


def test_extend_keeps_what_is_there_bit_for_bit(whole: tuple[Path, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole[0] / "whole", out)
    stages = {"render": Cloud, "grasp": GraspSet, "label": LabelSet}
    before = {name: read_all(out, name, record) for name, record in stages.items()}
    grow = ("extend", out, "--scenes", 2, "--grasps", 3)
    code, text = inject_faults.call(*grow, "--dry-run")
    assert code == 0
    assert "render        8 items: 4 ok, 4 to do (new)" in text
    assert "grasp         6 items: 4 ok, 2 to do (new)" in text
    assert dataset_digest(out) == whole[1]
    code, text = inject_faults.call(*grow, "--workers", 0)
    assert code == 0, text
    for name, record in stages.items():
        after = read_all(out, name, record)
        assert len(after) > len(before[name])
        assert {key: after[key] for key in before[name]} == before[name]
    assert inject_faults.call("verify", out)[0] == 0
    code, text = inject_faults.call("extend", out, "--scenes", 1)
    assert code == 2
    assert "OUT has 2, got 1" in text
    # The same as if it had been asked for at once.
    fresh = tmp_path / "fresh"
    config = ("--config", whole[0] / "two.yaml", "--out", fresh, "--workers", 0)
    sets = ("--set", "scene.floating=2", "--set", "scene.tabletop=2")
    more = ("--set", "grasp.grasps_per_object=3")
    assert inject_faults.call("run", "all", *config, *sets, *more)[0] == 0
    assert dataset_digest(fresh) == dataset_digest(out)


def test_repair_and_prune_say_what_they_do(whole: tuple[Path, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole[0] / "whole", out)
    assert "Nothing is broken." in inject_faults.call("repair", out)[1]
    chunks = (out / "shards" / "train-00000.zarr" / "points" / "c").rglob("*")
    victim = next(p for p in sorted(chunks) if p.is_file())
    victim.write_bytes(victim.read_bytes()[:-1])
    code, text = inject_faults.call("repair", out, "--dry-run")
    assert code == 0
    assert "would drop shards/train-00000.zarr.commit.json: checksum:" in text
    assert victim.exists()
    assert "dropped 2 broken parts" in inject_faults.call("repair", out)[1]
    assert not victim.exists()
    assert (out / "shards" / "train-grasps.zarr").is_dir()
    half = out / "shards" / ".tmp-train-00000.zarr"
    half.mkdir()
    (half / "x").write_bytes(b"1234")
    text = inject_faults.call("prune", out)[1]
    assert "dropped shards/.tmp-train-00000.zarr: 4 bytes: left by a writer" in text
    assert "dropped 1 parts, 4 bytes" in text
    where = ("--config", whole[0] / "two.yaml", "--out", out, "--workers", 0)
    code, text = inject_faults.call("run", "all", *where)
    assert code == 0
    assert "shards_written 1, shards_kept 1" in text
    assert dataset_digest(out) == whole[1]
