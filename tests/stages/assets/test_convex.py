"""Convex pieces: convex, covering, cached by content, repeatable, and killable."""

import resource
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import trimesh

from stages.assets.config import ConvexConfig
from stages.assets.convex import cache_key, convex_pieces
from stages.assets.errors import ConvexError
from stages.assets.load import Mesh

CONFIG = ConvexConfig()


def as_mesh(mesh: trimesh.Trimesh) -> Mesh:
    return Mesh(vertices=np.array(mesh.vertices), faces=np.array(mesh.faces))


@pytest.fixture
def bracket() -> Mesh:
    """An L: clearly not convex."""
    corners = [[0, 0], [0.08, 0], [0.08, 0.02], [0.02, 0.02], [0.02, 0.08], [0, 0.08]]
    vertices = np.array([[x, y, z] for z in (0.0, 0.03) for x, y in corners])
    faces = [f for i in range(1, 5) for f in ([0, i + 1, i], [6, 6 + i, 7 + i])]
    for i in range(6):
        j = (i + 1) % 6
        faces += [[i, j, j + 6], [i, j + 6, i + 6]]
    return Mesh(vertices=vertices, faces=np.array(faces))


def test_pieces_are_convex_and_cover_the_solid(bracket: Mesh) -> None:
    pieces = convex_pieces(bracket, CONFIG, 60.0)
    assert 2 <= len(pieces) <= CONFIG.max_convex_hull
    true_volume = 0.03 * (0.08 * 0.02 + 0.06 * 0.02)
    assert sum(piece.volume for piece in pieces) == pytest.approx(true_volume, rel=0.1)
    solid = trimesh.Trimesh(bracket.vertices, bracket.faces)
    inside, _ = trimesh.sample.sample_surface(solid, 500, seed=0)
    inside = inside * 0.98 + 0.02 * np.array([0.01, 0.01, 0.015])
    covered = np.zeros(len(inside), bool)
    for piece in pieces:
        mesh = trimesh.Trimesh(piece.vertices, piece.faces)
        assert mesh.is_watertight
        assert mesh.is_convex
        planes = mesh.face_normals, np.einsum("ij,ij->i", mesh.face_normals, mesh.triangles[:, 0])
        covered |= (inside @ planes[0].T <= planes[1] + 2e-3).all(axis=1)
    assert covered.mean() > 0.98


def test_a_convex_solid_is_its_hull(bracket: Mesh) -> None:
    [piece] = convex_pieces(as_mesh(trimesh.creation.cylinder(0.03, 0.1)), CONFIG, 60.0)
    assert piece.volume == pytest.approx(np.pi * 0.03**2 * 0.1, rel=0.01)


def test_the_same_content_is_cut_once_and_the_same(
    bracket: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for name in ("a", "b"):
        monkeypatch.setenv("GRASP_CLOUDS_CACHE", str(tmp_path / name))
        first = convex_pieces(bracket, CONFIG, 60.0)
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        again = convex_pieces(bracket, CONFIG, 60.0)
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime == used  # no second cut
        for x, y in zip(first, again, strict=True):
            assert np.array_equal(x.vertices, y.vertices)
            assert np.array_equal(x.faces, y.faces)
        results.append(first)
    for x, y in zip(*results, strict=True):  # two cuts, not two reads
        assert np.array_equal(x.vertices, y.vertices)
    [entry] = (tmp_path / "a").rglob("*.npz")
    entry.write_bytes(entry.read_bytes()[:100])  # torn: made again
    monkeypatch.setenv("GRASP_CLOUDS_CACHE", str(tmp_path / "a"))
    assert len(convex_pieces(bracket, CONFIG, 60.0)) == len(results[0])
    assert cache_key(bracket, CONFIG) != cache_key(bracket, replace(CONFIG, threshold=0.1))
    moved = replace(bracket, vertices=bracket.vertices + 1e-6)
    assert cache_key(bracket, CONFIG) != cache_key(moved, CONFIG)


def test_a_decomposition_that_takes_too_long_is_killed(
    bracket: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRASP_CLOUDS_CACHE", str(tmp_path))
    start = time.perf_counter()
    with pytest.raises(ConvexError, match=r"took more than 0\.05 s") as error:
        convex_pieces(bracket, CONFIG, 0.05)
    assert error.value.code == "convex_timeout"
    assert time.perf_counter() - start < 30
    left = [p for p in psutil.Process().children(recursive=True) if p.status() != "zombie"]
    assert not [p for p in left if "convex_worker" in " ".join(p.cmdline())]
    assert not list(tmp_path.rglob("*.npz"))
