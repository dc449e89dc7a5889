"""What holds the grains: a box, a round bin, or the ground."""

from dataclasses import dataclass

from stages.scene.granular import world
from stages.scene.granular.errors import GrainsError


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """Four walls and a floor at z = 0, open above; `open_sides` of east, west, north, south."""

    half_x: float  # m, of the inside
    half_y: float
    open_sides: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Cylinder:
    """A round wall about z, with a floor at z = 0 unless the boundary is cyclic."""

    radius: float  # m
    floor: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """A floor at z = 0 without end, or nothing at all."""

    floor: bool = True


SIDES = {"east": world.EAST, "west": world.WEST, "north": world.NORTH, "south": world.SOUTH}


def pack_container(c: Box | Cylinder | Ground, radius: float) -> world.Container:
    """For the kernels. Raises GrainsError when grains of `radius` m do not fit."""
    out = world.Container()
    codes: list[int] = []
    size = float("inf")
    if isinstance(c, Box):
        size = min(c.half_x, c.half_y)
        out.half_x, out.half_y = c.half_x, c.half_y
        if unknown := sorted(set(c.open_sides) - set(SIDES)):
            raise GrainsError(f"container: unknown sides {unknown}; choose from {list(SIDES)}")
        codes = [code for name, code in SIDES.items() if name not in c.open_sides]
    elif isinstance(c, Cylinder):
        size = out.half_x = c.radius
        codes = [world.SIDE]
    if isinstance(c, Box) or c.floor:
        codes.append(world.FLOOR)
    if not size > radius:
        raise GrainsError(
            f"grains: of radius {radius} m they do not fit into a container of half width {size} "
            "m; take smaller grains or a larger bin"
        )
    out.walls = sum(1 << (-code - 1) for code in codes)
    return out
