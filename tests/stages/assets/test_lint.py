"""Each fault is found by its kind, all at once, and repair heals what can be healed."""

import numpy as np
import pytest
import trimesh

from stages.assets.inertia import mass_properties
from stages.assets.lint import lint
from stages.assets.load import Mesh, load_mesh
from stages.assets.repair import open_edges, repair, thin


def box(**change: np.ndarray) -> Mesh:
    mesh = trimesh.creation.box((0.1, 0.06, 0.04))
    arrays = {"vertices": np.array(mesh.vertices), "faces": np.array(mesh.faces)} | change
    return Mesh(**arrays)


def kinds(mesh: Mesh, **band: float) -> set[str]:
    return {problem.kind for problem in lint(mesh, **band)}


BOX = box()
HOLE = box(faces=BOX.faces[1:])
FLIPPED = box(faces=BOX.faces[:, ::-1])
ONE_FLIPPED = box(faces=np.vstack([BOX.faces[:1, ::-1], BOX.faces[1:]]))
TWICE = box(faces=np.vstack([BOX.faces, BOX.faces[:2]]))
SLIVER = box(faces=np.vstack([BOX.faces, [[0, 0, 1]]]))
PAIR = box(
    vertices=np.vstack([BOX.vertices, BOX.vertices + [0.3, 0, 0]]),
    faces=np.vstack([BOX.faces, BOX.faces + 8]),
)
HOLED = np.where(BOX.vertices == BOX.vertices[0], np.nan, BOX.vertices)


@pytest.mark.parametrize(
    ("mesh", "kind"),
    [
        (box(vertices=BOX.vertices * 1000), "scale"),
        (box(vertices=BOX.vertices * 0.001), "scale"),
        (box(vertices=BOX.vertices * [1, 1, 0]), "flat"),
        (box(vertices=HOLED), "non_finite"),
        (box(faces=BOX.faces + 5), "bad_index"),
        (box(faces=np.zeros((0, 3), int)), "empty"),
        (HOLE, "not_watertight"),
        (FLIPPED, "inverted"),
        (ONE_FLIPPED, "winding"),
        (TWICE, "duplicate_faces"),
        (SLIVER, "degenerate_faces"),
        (PAIR, "several_bodies"),
    ],
)  # fmt: skip
def test_each_fault_has_its_kind(mesh: Mesh, kind: str) -> None:
    assert kind in kinds(mesh)
    assert kinds(BOX) == set()


def test_every_fault_is_told_at_once() -> None:
    bad = box(vertices=BOX.vertices * 1000, faces=np.vstack([BOX.faces[1:], [[0, 0, 1]]]))
    assert {"scale", "not_watertight", "degenerate_faces"} <= kinds(bad)


@pytest.mark.parametrize(
    ("factor", "hint"),
    [
        (1000.0, "millimetres: set scale 0.001"),
        (100.0, "centimetres: set scale 0.01"),
        (39.37, "inches: set scale 0.0254"),
    ],
)
def test_the_unit_is_guessed(factor: float, hint: str) -> None:
    [problem] = [p for p in lint(box(vertices=BOX.vertices * 1.5 * factor)) if p.kind == "scale"]
    assert hint in problem.message


@pytest.mark.parametrize("mesh", [FLIPPED, ONE_FLIPPED, TWICE, SLIVER], ids=str)
def test_repair_heals(mesh: Mesh) -> None:
    healed = repair(mesh)
    assert kinds(healed) == set()
    assert mass_properties(healed.vertices, healed.faces).volume == pytest.approx(0.1 * 0.06 * 0.04)


def test_a_hole_is_closed_or_said() -> None:
    healed = repair(HOLE)
    if open_edges(healed.faces):
        assert "not_watertight" in kinds(healed)
    else:
        assert mass_properties(healed.vertices, healed.faces).volume == pytest.approx(
            0.1 * 0.06 * 0.04
        )


def test_thinning_keeps_the_shape() -> None:
    ball = trimesh.creation.icosphere(5, 0.05)
    thinned = thin(Mesh(vertices=np.array(ball.vertices), faces=np.array(ball.faces)), 4000)
    assert len(thinned.faces) <= 4000 < len(ball.faces)
    radius = np.linalg.norm(thinned.vertices, axis=1)
    assert np.abs(radius - 0.05).max() < 0.002


def test_a_scene_with_transforms_is_one_mesh() -> None:
    """A glb whose node is moved and scaled must not lose its transform."""
    scene = trimesh.Scene()
    T = np.diag([2.0, 2.0, 2.0, 1.0])
    T[:3, 3] = [0.5, 0, 0]
    scene.add_geometry(trimesh.creation.box((0.01,) * 3), transform=T)
    mesh = load_mesh(scene.export(file_type="glb"), ".glb")
    np.testing.assert_allclose(mesh.vertices.min(axis=0), [0.49, -0.01, -0.01], atol=1e-7)
    np.testing.assert_allclose(mesh.vertices.max(axis=0), [0.51, 0.01, 0.01], atol=1e-7)
