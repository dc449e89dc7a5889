"""A bin with objects, filled with grains until they rest: the scene kind `granular`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schemas.frames import invert, matrix_to_pose, pose_to_matrix, transform_points
from schemas.records import ObjectAsset
from stages.assets.places import even_places
from stages.scene.errors import PlacementError
from stages.scene.granular.config import GrainsConfig
from stages.scene.sample import uniform_quaternion

if TYPE_CHECKING:
    from stages.scene.granular.sdf import DistanceGrid
    from stages.scene.granular.simulator import Simulator

Float = NDArray[np.float64]
PACKING = 0.6  # share of the bed's volume that poured spheres fill
TRIES = 200  # of a place for an object
SURFACE = 400  # points of an object that are looked at for contact
CHUNK = 25  # steps between looks at the speed


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Filling:
    """Grains at rest and the objects in them; world frame, m."""

    poses: Float  # (O, 7) of the objects
    grains: NDArray[np.float32]  # (G, 3) centres
    buried_fraction: Float  # (O,)
    exposed_area: Float  # (O,) m^2
    seconds: float  # simulated


def object_poses(
    assets: Sequence[ObjectAsset],
    grids: Sequence["DistanceGrid"],
    config: GrainsConfig,
    rng: np.random.Generator,
) -> Float:
    """(O, 7): any rotation, inside the bin, lifted off its floor, a grain's radius apart.

    `grids` are those of the assets. Largest first. Raises PlacementError("no_placement").
    """
    half = np.array(config.bin_size[:2]) / 2
    poses = np.empty((len(assets), 7))
    surfaces = [even_places(asset.vertices, asset.faces, SURFACE)[0] for asset in assets]
    size = [float(np.linalg.norm(np.ptp(asset.vertices, axis=0))) for asset in assets]
    placed: list[int] = []
    for i in sorted(range(len(assets)), key=lambda i: (-size[i], assets[i].object_id)):
        for _ in range(TRIES):
            T = pose_to_matrix(np.concatenate([np.zeros(3), uniform_quaternion(rng)]))
            corners = transform_points(T, assets[i].vertices)
            low, high = corners.min(axis=0), corners.max(axis=0)
            room_low, room_high = -half - low[:2], half - high[:2]
            # drawn even when they are not used, so that a try costs the same numbers
            across = rng.uniform(size=2)
            lift = rng.uniform(config.lift_min, config.lift_max)
            if (room_low > room_high).any():
                continue
            T[:3, 3] = np.append(room_low + across * (room_high - room_low), lift - low[2])
            poses[i] = matrix_to_pose(T)
            if not any(
                meet(grids[a], surfaces[b], poses[a], poses[b], config.radius)
                for j in placed
                for a, b in ((i, j), (j, i))
            ):
                placed.append(i)
                break
        else:
            raise PlacementError(
                "no_placement",
                f"{assets[i].object_id}: no free place in the bin of {config.bin_size[0]} x "
                f"{config.bin_size[1]} m after {TRIES} tries; enlarge the bin or put fewer or "
                "smaller objects into it",
            )
    return poses


def meet(grid: "DistanceGrid", points: Float, pose: Float, other: Float, gap: float) -> bool:
    """Whether points (N, 3) of an object at `other` lie within `gap` m of the grid's at `pose`."""
    T = invert(pose_to_matrix(pose)) @ pose_to_matrix(other)
    cell = np.rint((transform_points(T, points) - grid.low) / grid.spacing).astype(int)
    inside = ((cell >= 0) & (cell < grid.values.shape)).all(axis=1)
    return bool((grid.values[tuple(cell[inside].T)] < gap).any())


def grain_count(
    assets: Sequence[ObjectAsset], poses: Float, depth: float, config: GrainsConfig
) -> int:
    """Grains that fill the bin to `depth` around the objects."""
    room = config.bin_size[0] * config.bin_size[1] * depth
    for asset, pose in zip(assets, poses, strict=True):
        z = transform_points(pose_to_matrix(pose), asset.vertices)[:, 2]
        under = np.clip((depth - z.min()) / max(float(np.ptp(z)), 1e-9), 0.0, 1.0)
        room -= asset.volume * float(under)
    count = int(PACKING * max(room, 0.0) / (4 / 3 * np.pi * config.radius**3))
    if count > config.max_grains:
        raise PlacementError(
            "too_many_grains",
            f"{count} grains of radius {config.radius} m fill the bin to {depth:.3f} m, more than "
            f"max_grains = {config.max_grains}; take larger grains or a smaller bin",
        )
    return count


def fill(assets: Sequence[ObjectAsset], config: GrainsConfig, rng: np.random.Generator) -> Filling:
    """Place the objects, pour the grains from above, wait for rest.

    Raises PlacementError with code no_placement, no_volume, too_many_grains, diverged, not_at_rest
    or interpenetration.
    """
    from stages.scene.granular.bodies import Body
    from stages.scene.granular.container import Box
    from stages.scene.granular.device import checked
    from stages.scene.granular.errors import GrainsError
    from stages.scene.granular.exposure import exposure
    from stages.scene.granular.method import SimulatorConfig
    from stages.scene.granular.sdf import DistanceGrid, distance_grid
    from stages.scene.granular.simulator import Simulator
    from stages.scene.granular.start import layers

    checked(config.device)
    method = SimulatorConfig(
        radius=config.radius, density=config.density, friction=config.friction,
        friction_wall=config.friction_wall, friction_body=config.friction_object,
        timestep=config.timestep, iterations=config.iterations,
    )  # fmt: skip
    grids: list[DistanceGrid] = []
    for asset in assets:
        try:
            grids.append(
                distance_grid(
                    asset.vertices, asset.faces, spacing=config.knot_spacing,
                    margin=method.reach, device=config.device,
                )
            )  # fmt: skip
        except GrainsError as error:
            raise PlacementError("no_volume", f"{asset.object_id}: {error}") from error
    poses = object_poses(assets, grids, config, rng)
    depth = float(rng.uniform(config.fill_min, config.fill_max))
    count = grain_count(assets, poses, depth, config)
    bodies = [
        Body(grid=grid, position=pose[:3], rotation_wxyz=pose[3:])
        for grid, pose in zip(grids, poses, strict=True)
    ]
    top = max(
        float(transform_points(pose_to_matrix(pose), asset.vertices)[:, 2].max())
        for asset, pose in zip(assets, poses, strict=True)
    )
    half_x, half_y = config.bin_size[0] / 2, config.bin_size[1] / 2
    start = layers(count, half_x, half_y, top, config.radius, rng)
    box = Box(half_x=half_x, half_y=half_y)
    pile = Simulator(start, method, container=box, bodies=bodies, device=config.device)
    settle(pile, config)
    grains = pile.positions()
    buried, exposed = exposure(assets, poses, grains, config.radius, config.device)
    return Filling(
        poses=poses, grains=grains, buried_fraction=buried, exposed_area=exposed, seconds=pile.time
    )


def settle(pile: "Simulator", config: GrainsConfig) -> None:
    """Advance until at rest, by the root mean square speed of all grains.

    Raises PlacementError("not_at_rest" or "interpenetration").
    """
    window = max(1, round(config.rest_window / (CHUNK * config.timestep)))
    quiet = 0
    speed = 0.0
    while quiet < window:
        if pile.time >= config.max_time:
            raise PlacementError(
                "not_at_rest",
                f"grains still move at {speed * 1e3:.1f} mm/s (root mean square) after "
                f"{config.max_time} s of simulated time",
            )
        pile.advance(CHUNK)
        speed = float(np.sqrt((pile.velocities().astype(np.float64) ** 2).sum(axis=1).mean()))
        quiet = quiet + 1 if speed < config.rest_speed else 0
    depth = pile.contacts().deepest()
    if depth > config.max_penetration * config.radius:
        raise PlacementError(
            "interpenetration",
            f"grains overlap by {depth * 1e3:.2f} mm at rest, allowed "
            f"{config.max_penetration * config.radius * 1e3:.2f} mm; take more iterations",
        )
