"""Colours that lie in a mesh file come along to the record; others are unknown."""

import hashlib
from pathlib import Path

import numpy as np
import trimesh
from PIL import Image

from schemas.records import ObjectAsset
from stages.assets.build import build_asset
from stages.assets.config import AssetsConfig
from stages.assets.sources import expand
from stages.assets.stage import AssetsStage


def built(path: Path, colour: bool = True) -> ObjectAsset:
    config = AssetsConfig(objects=(path.name,), asset_root=str(path.parent), colour=colour)
    [source] = expand(config.objects, path.parent, "CC0-1.0")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    outcome = build_asset(source, sha256, config)
    assert outcome.code == "ok", outcome.message
    return outcome.record


def test_vertex_colours_follow_their_vertices(tmp_path: Path) -> None:
    mesh = trimesh.creation.icosphere(2, 0.04)
    rgb = np.rint((mesh.vertices / 0.08 + 0.5) * 255).astype(np.uint8)
    mesh.visual.vertex_colors = np.column_stack([rgb, np.full(len(rgb), 255)])
    mesh.export(tmp_path / "ball.ply")
    asset = built(tmp_path / "ball.ply")
    expected = np.rint((asset.vertices / 0.08 + 0.5) * 255)
    np.testing.assert_allclose(asset.vertex_colours, expected, atol=1)
    assert built(tmp_path / "ball.ply", colour=False).vertex_colours.shape == (0, 3)


def test_a_texture_in_the_file_is_baked(tmp_path: Path) -> None:
    """Left half of the picture red, right half blue; u follows x."""
    box = trimesh.creation.box((0.06, 0.05, 0.04)).subdivide().subdivide()
    u = box.vertices[:, 0] / 0.06 * 0.8 + 0.5
    picture = np.zeros((8, 64, 3), np.uint8)
    picture[:, :32, 0] = picture[:, 32:, 2] = 200
    material = trimesh.visual.material.PBRMaterial(baseColorTexture=Image.fromarray(picture))
    box.visual = trimesh.visual.TextureVisuals(
        uv=np.column_stack([u, np.full(len(u), 0.5)]), material=material
    )
    box.export(tmp_path / "box.glb")
    asset = built(tmp_path / "box.glb")
    left, right = asset.vertices[:, 0] < -0.005, asset.vertices[:, 0] > 0.005
    assert (asset.vertex_colours[left] == (200, 0, 0)).all()
    assert (asset.vertex_colours[right] == (0, 0, 200)).all()


def test_a_file_without_colours_has_none_and_only_the_asked_are_in_the_key(tmp_path: Path) -> None:
    trimesh.creation.box((0.06, 0.05, 0.04)).export(tmp_path / "box.stl")
    assert built(tmp_path / "box.stl").vertex_colours.shape == (0, 3)
    for colour in (False, True):
        config = AssetsConfig(objects=("box.stl",), asset_root=str(tmp_path), colour=colour)
        [item] = AssetsStage().plan(config, {})
        assert ("colour" in item.params) == colour
