"""Let objects fall onto the table in MuJoCo until nothing moves."""

from collections.abc import Sequence

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.records import ObjectAsset
from stages.envs.mujoco.object_model import add_object, add_table
from stages.scene.config import SceneConfig
from stages.scene.errors import PlacementError

Float = NDArray[np.float64]
ROLLING_CONDIM = 6  # with rolling friction: balls stop
FALLEN = -0.02  # m; a centre of mass this far below the table top has left it


def settle_model(
    assets: Sequence[ObjectAsset], poses: Float, table_pose: ArrayLike, config: SceneConfig
) -> mujoco.MjModel:
    """Objects `object:<i>` at `poses` (O, 7) above the table, gravity on."""
    spec = mujoco.MjSpec()
    spec.option.timestep = config.timestep
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    # A diverged state must be seen, not silently reset to the start.
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    add_table(spec, table_pose, config.table_size, config.friction, condim=ROLLING_CONDIM)
    for i, (asset, pose) in enumerate(zip(assets, poses, strict=True)):
        add_object(
            spec, asset, f"object:{i}", pose, friction=config.friction, condim=ROLLING_CONDIM
        )
    return spec.compile()


def settle(
    assets: Sequence[ObjectAsset], poses: Float, table_pose: ArrayLike, config: SceneConfig
) -> tuple[Float, float]:
    """Poses (O, 7) at rest and the simulated time (s) until then.

    Raises PlacementError with code diverged, fell_off, not_at_rest or interpenetration.
    """
    model = settle_model(assets, poses, table_pose, config)
    data = mujoco.MjData(model)
    window = max(1, round(config.rest_window / config.timestep))
    quiet = 0
    for _ in range(round(config.max_time / config.timestep)):
        mujoco.mj_step(model, data)
        speed, spin = speeds(model, data)
        if not np.isfinite(data.qpos).all() or speed > 100.0:
            raise PlacementError("diverged", "the simulation diverged; check mass and inertia")
        still = speed < config.rest_speed and spin < config.rest_spin
        quiet = quiet + 1 if still else 0
        if quiet >= window:
            break
    rest = data.qpos.reshape(-1, 7).copy()
    rest[:, 3:] /= np.linalg.norm(rest[:, 3:], axis=1, keepdims=True)
    _check(model, data, quiet >= window, config)
    return rest, float(data.time)


def speeds(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[float, float]:
    """Fastest centre of mass (m/s) and spin (rad/s) over all objects."""
    fastest, spinning = 0.0, 0.0
    velocity = np.empty(6)
    for body in range(1, model.nbody):
        # Rotation first, then translation of the body's centre of mass, world axes.
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, body, velocity, 0)
        fastest = max(fastest, float(np.linalg.norm(velocity[3:])))
        spinning = max(spinning, float(np.linalg.norm(velocity[:3])))
    return fastest, spinning


def _check(model: mujoco.MjModel, data: mujoco.MjData, at_rest: bool, config: SceneConfig) -> None:
    centres = data.xipos[1:]
    off = (np.abs(centres[:, :2]) > np.array(config.table_size) / 2).any(axis=1)
    if (off | (centres[:, 2] < FALLEN)).any():
        raise PlacementError("fell_off", "an object left the table")
    if not at_rest:
        raise PlacementError(
            "not_at_rest", f"still moving after {config.max_time} s of simulated time"
        )
    depth = -min((float(c.dist) for c in data.contact[: data.ncon]), default=0.0)
    if depth > config.max_penetration:
        raise PlacementError(
            "interpenetration",
            f"bodies overlap by {depth * 1e3:.1f} mm at rest, allowed "
            f"{config.max_penetration * 1e3:.1f} mm",
        )
