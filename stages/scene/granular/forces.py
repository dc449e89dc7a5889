"""Forces of one time step, read on the host: on grains, walls and bodies.

Sums are in float64 over contacts in a fixed order, so that each has one value.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.scene.granular import world
from stages.scene.granular.errors import GrainsError
from stages.scene.granular.method import SimulatorConfig

Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Contacts:
    """All contacts within the margin, by grain; a pair of grains comes twice."""

    config: SimulatorConfig
    grain: NDArray[np.int64]  # (C,)
    partner: NDArray[np.int32]  # (C,) a grain, or a code of `world`
    impulse: Float  # (C, 3) N s, on the grain
    normal: Float  # (C, 3) unit, towards the grain
    wanted: Float  # (C,) m/s, least normal velocity that was asked for
    centres: Float  # (N, 3) m, when the contacts were found
    body_positions: Float  # (B, 3) m, likewise

    def deepest(self) -> float:
        """Largest penetration, m; not known, and 0, without Baumgarte's term."""
        inside = self.wanted[self.wanted > 0]
        depth = inside * self.config.timestep / max(self.config.baumgarte, 1e-12)
        return float(depth.max(initial=0.0))

    def count(self) -> int:
        """Contacts that carry an impulse, each counted once."""
        pressed = (self.impulse**2).sum(axis=1) > 0
        pair = self.partner >= 0
        return int((pressed & pair).sum() // 2 + (pressed & ~pair).sum())

    def on_grains(self) -> Float:
        """(N, 3) N, of all contacts on each grain, without gravity."""
        out = np.zeros_like(self.centres)
        np.add.at(out, self.grain, self.impulse / self.config.timestep)
        return out

    def on_body(self, body: int) -> Float:
        """(6,) force (N) and torque (N m) about the body's origin that the grains exert."""
        if not 0 <= body < len(self.body_positions):
            raise GrainsError(f"body {body}: there are {len(self.body_positions)}")
        mine = self.partner == world.FIRST_BODY - body
        force = -self.impulse[mine] / self.config.timestep
        # a grain touches one radius from its centre, against the normal
        touch = self.centres[self.grain[mine]] - self.config.radius * self.normal[mine]
        torque = np.cross(touch - self.body_positions[body], force)
        return np.concatenate([force.sum(axis=0), torque.sum(axis=0)])

    def on_walls(self, *codes: int) -> Float:
        """(3,) N, of the grains on the walls `codes` of `world` (FLOOR, EAST ... SIDE)."""
        mine = np.isin(self.partner, codes)
        return -self.impulse[mine].sum(axis=0) / self.config.timestep

    def pressure_on_walls(self) -> float:
        """N, sum of the normal forces on the upright walls."""
        mine = np.isin(self.partner, world.SIDES)
        return float((self.impulse[mine] * self.normal[mine]).sum() / self.config.timestep)
