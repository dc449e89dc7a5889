"""The stage on real scans and on files that should fail, with what it promises about both."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import trimesh

from schemas.frames import pose_to_matrix, transform_points
from schemas.records import ObjectAsset, decode, encode
from stages.assets.config import AssetsConfig
from stages.assets.errors import (
    AssetConfigError,
    DuplicateObjectError,
    EscapingPathError,
    NoObjectsError,
)
from stages.assets.sources import FORMATS
from stages.assets.stage import AssetsStage

Run = Callable[..., tuple]


def test_scans_become_physical_records(ycb_assets: dict[str, ObjectAsset]) -> None:
    for asset in ycb_assets.values():
        moments = np.linalg.eigvalsh(asset.inertia)
        assert moments[0] > 0
        assert moments[0] + moments[1] >= moments[2]
        assert asset.mass == pytest.approx(400 * asset.volume)
        assert asset.licence == "CC BY 4.0"
        assert (np.diff(asset.stable_probabilities) <= 1e-9).all()
        assert asset.stable_probabilities.sum() == pytest.approx(1)
        for pose in asset.stable_poses:
            z = transform_points(pose_to_matrix(pose), asset.piece_vertices)[:, 2]
            assert abs(z.min()) < 1e-7
    assert "not_watertight" in ycb_assets["006_mustard_bottle"].notes
    # a real cracker box is 60 x 158 x 210 mm; its scan bulges a little
    assert ycb_assets["003_cracker_box"].volume == pytest.approx(0.060 * 0.158 * 0.210, rel=0.15)


def test_records_survive_storage(ycb_assets: dict[str, ObjectAsset]) -> None:
    asset = ycb_assets["011_banana"]
    again = decode(ObjectAsset, encode(asset))
    for name, value in encode(asset).items():
        assert np.array_equal(value, encode(again)[name])


def test_every_ycb_scan_is_planned() -> None:
    items = AssetsStage().plan(AssetsConfig(objects=("ycb://*",)), {})
    assert len(items) == 78
    assert len({item.id for item in items}) == 78
    assert {item.tags["split"] for item in items} == {"train", "val", "test"}


@pytest.mark.parametrize("suffix", FORMATS)
def test_each_format_gives_the_same_box(
    suffix: str, tmp_path: Path, box_mesh: trimesh.Trimesh, run_stage: Run
) -> None:
    box_mesh.export(tmp_path / f"box{suffix}")
    _, [outcome] = run_stage(AssetsConfig(objects=(f"box{suffix}",), asset_root=str(tmp_path)))
    assert outcome.code == "ok", outcome.message
    asset = outcome.record
    assert asset.volume == pytest.approx(0.1 * 0.06 * 0.04, rel=1e-5)
    assert len(asset.vertices) == 8
    assert len(asset.pieces()) == 1
    expected = asset.mass / 12 * np.diag([0.06**2 + 0.04**2, 0.1**2 + 0.04**2, 0.1**2 + 0.06**2])
    assert np.allclose(asset.inertia, expected, rtol=1e-5, atol=1e-12)


def test_bad_meshes_are_rows_and_the_rest_goes_on(
    tmp_path: Path, box_mesh: trimesh.Trimesh, run_stage: Run
) -> None:
    box_mesh.export(tmp_path / "good.stl")
    box_mesh.copy().apply_scale(1000).export(tmp_path / "millimetres.stl")
    (tmp_path / "noise.ply").write_bytes(b"ply\nnot at all")
    (tmp_path / "nothing.obj").write_text("# no faces\n")
    (tmp_path / "nan.obj").write_text(
        "v 0 0 0\nv nan 0 0\nv 0 0.1 0\nv 0 0 0.1\nf 1 2 3\nf 2 3 4\n"
    )
    _, outcomes = run_stage(AssetsConfig(objects=(".",), asset_root=str(tmp_path)))
    code = {o.id: o.code for o in outcomes}
    assert code == {
        "good": "ok",
        "millimetres": "bad_mesh",
        "nan": "bad_mesh",
        "noise": "bad_mesh",
        "nothing": "bad_mesh",
    }
    message = {o.id: o.message for o in outcomes}
    assert "looks like millimetres: set scale 0.001" in message["millimetres"]
    assert "NaN" in message["nan"]
    assert "not_watertight" not in message["millimetres"]


def test_scale_makes_a_millimetre_mesh_right(
    tmp_path: Path, box_mesh: trimesh.Trimesh, run_stage: Run
) -> None:
    box_mesh.copy().apply_scale(1000).export(tmp_path / "box.stl")
    config = AssetsConfig(objects=("*.stl",), asset_root=str(tmp_path), scale=0.001, mass=0.25)
    _, [outcome] = run_stage(config)
    assert outcome.record.volume == pytest.approx(0.1 * 0.06 * 0.04, rel=1e-5)
    assert outcome.record.mass == 0.25
    assert outcome.record.density == pytest.approx(0.25 / (0.1 * 0.06 * 0.04), rel=1e-5)


def test_items_hold_no_machine_path(tmp_path: Path, box_mesh: trimesh.Trimesh) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    plans = []
    for folder in folders:
        (folder / "meshes").mkdir(parents=True)
        box_mesh.export(folder / "meshes" / "box.stl")
        config = AssetsConfig(objects=("meshes/*.stl",), asset_root=str(folder))
        plans.append(AssetsStage().plan(config, {}))
        absolute = AssetsConfig(objects=(str(folder / "meshes" / "box.stl"),))
        [item] = AssetsStage().plan(absolute, {})
        assert str(tmp_path) not in json.dumps(dict(item.params))
    assert plans[0] == plans[1]
    assert plans[0][0].params["source"] == "meshes/box.stl"


def test_a_changed_file_is_a_coded_failure(tmp_path: Path, box_mesh: trimesh.Trimesh) -> None:
    box_mesh.export(tmp_path / "box.stl")
    config = AssetsConfig(objects=("box.stl",), asset_root=str(tmp_path))
    stage = AssetsStage()
    items = stage.plan(config, {})
    box_mesh.apply_scale(1.1).export(tmp_path / "box.stl")
    assert stage.run(items, {}, config, {"box": 0})[0].code == "changed_mesh"


def test_user_mistakes_name_what_was_searched(tmp_path: Path, box_mesh: trimesh.Trimesh) -> None:
    def plan(*objects: str) -> None:
        AssetsStage().plan(AssetsConfig(objects=objects, asset_root=str(tmp_path)), {})

    with pytest.raises(NoObjectsError, match=r"'meshes/\*.stl' matches no mesh in .*meshes"):
        plan("meshes/*.stl")
    with pytest.raises(NoObjectsError, match="nearest: 011_banana"):
        plan("ycb://011_bananna")
    with pytest.raises(AssetConfigError, match="unknown source 'ycd'; known: ycb://"):
        plan("ycd://011_banana")
    with pytest.raises(EscapingPathError, match="absolute path"):
        plan("../x.stl")
    (tmp_path / "deep").mkdir()
    box_mesh.export(tmp_path / "box.stl")
    box_mesh.export(tmp_path / "deep" / "box.obj")
    with pytest.raises(DuplicateObjectError, match=r"box.stl.*box.obj"):
        plan("**/*")
    outside = tmp_path.parent / f"{tmp_path.name}-outside.stl"
    box_mesh.export(outside)
    (tmp_path / "link.stl").symlink_to(outside)
    with pytest.raises(EscapingPathError, match=r"link.stl"):
        plan("link.stl")
