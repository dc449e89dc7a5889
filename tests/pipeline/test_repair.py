"""`repair` drops exactly what is broken, `prune` what is not needed; both say it before."""

import json
from pathlib import Path

import pytest

from pipeline.cli.extend import _grown
from pipeline.config import build_config
from pipeline.errors import UserError, VersionError
from pipeline.registry import Registry
from pipeline.repair import mend_version, plan_prune, plan_repair, remove
from pipeline.saved import load_saved, read_saved, save_config
from pipeline.store import VERSION_TEXT, Store
from pipeline.verify import verify_output
from tests.pipeline.toy import REGISTRY, run_toy

BASE = {"walk": {"count": 6}, "block_size": 2}


def files(out: Path) -> set[str]:
    return {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}


def flip(path: Path, at: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 1
    path.write_bytes(data)


def test_nothing_is_broken_in_a_sound_output(tmp_path: Path) -> None:
    run_toy(tmp_path, BASE)
    assert plan_repair(tmp_path, REGISTRY) == ([], [])


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_a_torn_block_goes_with_its_marker_and_nothing_else(tmp_path: Path, suffix: str) -> None:
    _, digest = run_toy(tmp_path, BASE)
    before = files(tmp_path)
    victim = sorted(tmp_path.glob(f"blocks/pair/*{suffix}"))[0]
    flip(victim)
    removals, left = plan_repair(tmp_path, REGISTRY)
    assert files(tmp_path) == before  # a plan touches nothing
    assert not left
    [removal] = removals
    assert removal.size > 0
    remove(Store(tmp_path), removals)
    gone = {f"blocks/pair/{victim.stem}{s}" for s in (".npz", ".json")}
    assert files(tmp_path) == before - gone
    result, again = run_toy(tmp_path, BASE)
    assert again == digest
    assert [s.done_now for s in result.summaries] == [0, 2]


def test_every_bit_of_a_marker_counts(tmp_path: Path) -> None:
    run_toy(tmp_path, {"walk": {"count": 2, "fail": ["w001"]}, "max_failure_fraction": 1.0})
    marker = next(tmp_path.glob("blocks/walk/*.json"))
    data = marker.read_bytes()
    for at in range(0, len(data), 7):
        marker.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        assert verify_output(tmp_path, REGISTRY)[1], f"byte {at}"
    marker.write_bytes(data)
    assert not verify_output(tmp_path, REGISTRY)[1]


def test_a_torn_version_file_is_told_from_a_newer_version(tmp_path: Path) -> None:
    run_toy(tmp_path, BASE)
    version, store = tmp_path / "version", Store(tmp_path)
    for bit in range(8 * len(VERSION_TEXT)):
        torn = bytearray(VERSION_TEXT)
        torn[bit // 8] ^= 1 << bit % 8
        version.write_bytes(torn)
        if torn.strip() != VERSION_TEXT.strip():  # the end of the line may be another one
            assert store.version_is_torn(), bytes(torn)
    assert mend_version(store)
    assert version.read_bytes() == VERSION_TEXT
    for newer in (b"3\n", b"3 layout-3\n"):
        version.write_bytes(newer)
        with pytest.raises(VersionError, match=r"version 3.*install the release that wrote it"):
            plan_repair(tmp_path, REGISTRY)


def test_prune_drops_what_an_older_config_made(tmp_path: Path) -> None:
    registry = Registry(stages=REGISTRY.stages, configs=REGISTRY.configs, publishers={})
    run_toy(tmp_path, BASE | {"pair": {"gain": 3.0}})
    old = files(tmp_path)
    _, digest = run_toy(tmp_path, BASE)
    save_config(tmp_path, build_config(BASE, registry=registry))
    (tmp_path / "blocks" / "walk" / "x.npz.tmp-12").write_bytes(b"half")
    before = files(tmp_path)
    removals, broken = plan_prune(tmp_path, registry)
    assert files(tmp_path) == before
    assert broken == 0
    dropped = {p.relative_to(tmp_path).as_posix() for r in removals for p in r.paths}
    wanted = {n for n in old if n.startswith("blocks/pair/")} | {"blocks/walk/x.npz.tmp-12"}
    assert dropped & before == wanted
    assert sum(r.size for r in removals) > 1000
    remove(Store(tmp_path), removals)
    result, again = run_toy(tmp_path, BASE)
    assert result.did_nothing
    assert again == digest
    assert plan_prune(tmp_path, registry) == ([], 0)


def test_a_saved_config_comes_back_and_a_torn_one_is_known(tmp_path: Path) -> None:
    config = build_config({"seed": 3, "walk": {"count": 9}}, registry=REGISTRY)
    save_config(tmp_path, config)
    assert load_saved(tmp_path, REGISTRY) == config
    path = tmp_path / "run.json"
    data = path.read_bytes()
    for at in range(0, len(data), 3):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(UserError, match="run again with --config"):
            read_saved(tmp_path, REGISTRY)
    unsealed = json.loads(data)
    del unsealed["sha256_of_the_rest"]
    path.write_text(json.dumps(unsealed))  # as it was written before it had a checksum
    assert load_saved(tmp_path, REGISTRY) == config
    path.unlink()
    with pytest.raises(UserError, match="run once with --config"):
        read_saved(tmp_path, REGISTRY)


def test_extend_only_grows_and_says_all_that_does_not() -> None:
    data = {"assets": {"objects": ["a.obj"]}, "scene": {"floating": 4, "tabletop": 2, "clutter": 0}}
    config = build_config(data, registry=Registry())
    grown = _grown(
        config, 5, {"floating": None, "tabletop": 9, "clutter": None, "granular": None}, 32
    )
    scene = grown.sections["scene"]
    assert (scene.floating, scene.tabletop, scene.clutter) == (5, 9, 0)
    assert grown.sections["grasp"].grasps_per_object == 32
    with pytest.raises(UserError, match="floating scenes: OUT has 4, got 3; grasps: OUT has 16"):
        _grown(
            config, 3, {"floating": None, "tabletop": None, "clutter": None, "granular": None}, 8
        )
    with pytest.raises(UserError, match="say what should grow"):
        _grown(
            config,
            None,
            {"floating": None, "tabletop": None, "clutter": None, "granular": None},
            None,
        )
