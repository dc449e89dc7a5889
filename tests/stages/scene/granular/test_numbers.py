"""Bits that repeat, distances that are right, and input that is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import trimesh

from schemas.frames import pose_to_matrix, transform_points
from stages.scene.granular.bodies import Body
from stages.scene.granular.container import Box, Ground
from stages.scene.granular.errors import DivergedError, GrainsError
from stages.scene.granular.method import SimulatorConfig
from stages.scene.granular.sdf import distance_grid
from stages.scene.granular.simulator import Simulator
from stages.scene.granular.start import layers

R = 0.005


def pile(config: SimulatorConfig, steps: int = 150) -> Simulator:
    start = layers(150, 0.03, 0.03, 0.0, R, np.random.default_rng(7))
    box = trimesh.creation.box([0.02, 0.03, 0.02])
    grid = distance_grid(box.vertices, box.faces, spacing=0.002, margin=0.01)
    body = Body(grid=grid, position=[0, 0, 0.02], spin=[0, 0, 1.0])
    out = Simulator(
        start, config, container=Box(half_x=0.03, half_y=0.03), bodies=[body], device="cpu"
    )
    out.advance(steps)
    return out


def test_bits_repeat_for_any_hash_table_and_for_fused_kernels() -> None:
    config = SimulatorConfig(radius=R)
    first = pile(config)
    again = [
        config,
        replace(config, buckets_per_grain=0.05),  # long lists in another order
        replace(config, buckets_per_grain=20.0),
        replace(config, split=False),
    ]
    for other in map(pile, again):
        assert first.positions().tobytes() == other.positions().tobytes()
        assert first.velocities().tobytes() == other.velocities().tobytes()
        assert first.contacts().on_body(0).tobytes() == other.contacts().on_body(0).tobytes()


def test_the_order_of_grains_changes_only_rounding() -> None:
    """A bound for CUDA too, where other roundings are all that differs: until grains collide in
    another order, positions agree to a micrometre."""
    config = SimulatorConfig(radius=R)
    start = layers(60, 0.03, 0.03, 0.0, R, np.random.default_rng(7))
    order = np.random.default_rng(1).permutation(len(start))
    ends: list[Any] = []
    for x in (start, start[order]):
        one = Simulator(x, config, container=Box(half_x=0.03, half_y=0.03), device="cpu")
        one.advance(40)
        ends.append(one.positions())
    assert np.abs(ends[0][order] - ends[1]).max() < 1e-6


def test_distances_of_a_ball_and_a_box_are_those_of_closed_forms() -> None:
    rng = np.random.default_rng(0)
    h, radius = 0.002, 0.03
    ball = trimesh.creation.icosphere(5, radius)
    grid = distance_grid(ball.vertices, ball.faces, spacing=h, margin=0.02)
    turn = np.array([0.5, 0.5, 0.5, 0.5])
    place = np.array([0.1, -0.2, 0.3])
    extents = np.array([0.04, 0.06, 0.03])
    block = trimesh.creation.box(extents)
    block_grid = distance_grid(block.vertices, block.faces, spacing=h, margin=0.02)
    one = Simulator(
        [[9.0, 9.0, 9.0]], SimulatorConfig(radius=R), container=Ground(floor=False),
        bodies=[Body(grid=grid, position=place), Body(grid=block_grid, position=place,
                                                       rotation_wxyz=turn)], device="cpu",
    )  # fmt: skip
    directions = rng.normal(size=(500, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    distance = rng.uniform(-0.01, 0.015, 500)
    found = one.distances(0, place + (radius + distance)[:, None] * directions)
    # trilinear: 3/8 h^2 / R; the icosphere lies up to 0.03 mm inside the ball
    bound = 3 / 8 * h**2 / (radius - 0.01) + 4e-5
    assert np.abs(found[:, 3] - distance).max() < bound
    assert np.arccos(np.clip((found[:, :3] * directions).sum(axis=1), -1, 1)).max() < 0.1
    # over the middle of a face of the turned box: exact, since the distance is linear there
    local = np.array([[0.004, 0.003, 0.015 + d] for d in (-0.004, 0.0, 0.006, 0.011)])
    T = pose_to_matrix(np.concatenate([place, turn]))
    found = one.distances(1, transform_points(T, local))
    assert found[:, 3] == pytest.approx([-0.004, 0, 0.006, 0.011], abs=2e-7)
    assert np.allclose(found[:, :3], T[:3, 2], atol=1e-5)
    assert (one.distances(0, [[5.0, 5.0, 5.0]])[0, 3]) > 1e8


def test_distances_of_a_scan_agree_with_another_library() -> None:
    """Open3D's exact signed distances, for a YCB scan that is not convex."""
    import open3d as o3d

    from stages.assets.sources import find_ycb

    mesh = trimesh.load(find_ycb("025_mug")[0].path)
    h = 0.002
    grid = distance_grid(mesh.vertices, mesh.faces, spacing=h, margin=0.01)
    scene = o3d.t.geometry.RaycastingScene()
    scene.add_triangles(mesh.vertices.astype(np.float32), mesh.faces.astype(np.uint32))
    rng = np.random.default_rng(0)
    low, high = mesh.bounds
    points = rng.uniform(low - 0.005, high + 0.005, (2000, 3)).astype(np.float32)
    exact = scene.compute_signed_distance(points).numpy()
    one = Simulator(
        [[9.0, 9.0, 9.0]], SimulatorConfig(radius=R), bodies=[Body(grid=grid)], device="cpu"
    )
    found = one.distances(0, points)[:, 3]
    assert np.abs(found - exact).max() < h  # at edges and medial surfaces, where it is rounded
    assert np.percentile(np.abs(found - exact), 95) < 0.15 * h


# -- bad input ------------------------------------------------------------------------------------


def test_grains_larger_than_the_bin_are_refused() -> None:
    with pytest.raises(GrainsError, match="do not fit"):
        Simulator([[0, 0, 0.1]], SimulatorConfig(radius=0.05), container=Box(half_x=0.04, half_y=1))
    with pytest.raises(GrainsError, match="do not fit"):
        layers(10, 0.005, 0.1, 0.0, 0.01, np.random.default_rng(0))


def test_a_mesh_without_volume_is_refused() -> None:
    square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], float)
    with pytest.raises(GrainsError, match="no volume"):
        distance_grid(square, [[0, 1, 2], [0, 2, 3]], spacing=0.05, margin=0.1)
    box = trimesh.creation.box([0.1, 0.1, 0.1])
    with pytest.raises(GrainsError, match="outward"):
        distance_grid(box.vertices, box.faces[:, ::-1], spacing=0.01, margin=0.1)
    with pytest.raises(GrainsError, match="raise the spacing"):
        distance_grid(box.vertices, box.faces, spacing=1e-5, margin=0.1)
    with pytest.raises(GrainsError, match="finite"):
        distance_grid(box.vertices * np.nan, box.faces, spacing=0.01, margin=0.1)
    grid = distance_grid(box.vertices, box.faces, spacing=0.01, margin=0.001)
    with pytest.raises(GrainsError, match="larger margin"):
        Simulator([[1.0, 1, 1]], SimulatorConfig(radius=R), bodies=[Body(grid=grid)])


def test_a_time_step_that_diverges_is_told_and_never_gives_numbers_that_are_none() -> None:
    start = layers(150, 0.03, 0.03, 0.0, R, np.random.default_rng(7))
    too_long = SimulatorConfig(radius=R, timestep=0.05)
    one = Simulator(start, too_long, container=Box(half_x=0.03, half_y=0.03), device="cpu")
    with pytest.raises(DivergedError, match="smaller timestep") as caught:
        one.advance(20)
    assert caught.value.code == "diverged"
    crowd = np.zeros((60, 3)) + [0, 0, 0.1]
    crowd += np.random.default_rng(0).uniform(-1e-4, 1e-4, crowd.shape)
    with pytest.raises(DivergedError):
        Simulator(crowd, SimulatorConfig(radius=R), device="cpu").advance(1)
    box = trimesh.creation.box([0.02, 0.02, 0.02])
    body = Body(grid=distance_grid(box.vertices, box.faces, spacing=0.005, margin=0.01))
    thrown = Simulator(
        [[0, 0, 0.03], [0.1, 0, R]], SimulatorConfig(radius=R), bodies=[body], device="cpu",
        velocities=np.full((2, 3), 1e38),
    )  # fmt: skip
    with pytest.raises(DivergedError, match="no number"):
        thrown.advance(50)  # positions become infinite, then no numbers, and nothing crashes
    with pytest.raises(GrainsError, match="finite"):
        Simulator([[0, 0, np.nan]], SimulatorConfig(radius=R))


def test_a_device_that_is_not_there_is_told() -> None:
    import warp as wp

    if not wp.is_cuda_available():
        with pytest.raises(GrainsError, match="no CUDA device"):
            Simulator([[0, 0, 1.0]], SimulatorConfig(), device="cuda:0")


@pytest.mark.parametrize(
    "wrong",
    [{"radius": 0.0}, {"timestep": -1.0}, {"friction": -0.1}, {"iterations": 0},
     {"relaxation": 2.0}, {"relaxation": 1.5}, {"baumgarte": 1.5}, {"cycle": (1.0, 0.0)},
     {"margin": 2.0}],
)  # fmt: skip
def test_wrong_numbers_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(GrainsError, match=next(iter(wrong))):
        SimulatorConfig(**wrong)
