"""One hand and one object, compiled once and reused for every grasp of the pair."""

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from schemas.records import ObjectAsset
from stages.assets.hands.spec import HandSpec
from stages.envs.config import PhysicsConfig
from stages.envs.mujoco.hand_index import HandIndex, hand_index
from stages.envs.mujoco.hand_model import hand_mjspec
from stages.envs.mujoco.ik import Arm
from stages.envs.mujoco.object_model import add_object, add_table

OBJECT = "object"
Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GraspModel:
    """A compiled model with the addresses that protocols use."""

    hand: HandSpec
    physics: PhysicsConfig
    model: mujoco.MjModel
    data: mujoco.MjData
    index: HandIndex
    arm: Arm | None  # of a rig on a fixed base
    object_body: int
    object_qpos: int  # first of seven
    object_dof: int
    object_geoms: NDArray[np.int64]
    is_contact_body: NDArray[np.bool_]  # (nbody,) bodies of the hand whose touch counts
    is_tip_body: NDArray[np.bool_]  # (nbody,)
    hand_geoms: NDArray[np.bool_]  # (ngeom,)
    is_object: NDArray[np.bool_]  # (ngeom,)

    @property
    def mass(self) -> float:
        """Object mass, kg."""
        return float(self.model.body_mass[self.object_body])

    def object_pose(self) -> Float:
        """(7,) current pose of the object, world."""
        return self.data.qpos[self.object_qpos : self.object_qpos + 7].copy()

    def hand_qpos(self) -> Float:
        """(7 + J,) current root pose and joints, world."""
        index, data = self.index, self.data
        if index.root_qpos < 0:
            root = np.concatenate([data.mocap_pos[index.mocap], data.mocap_quat[index.mocap]])
        else:
            root = data.qpos[index.root_qpos : index.root_qpos + 7]
        return np.concatenate([root, self.data.qpos[self.index.joint_qpos]])

    def body_pose(self, body: int) -> Float:
        """(7,) pose of a body, world, as of the last forward kinematics."""
        return np.concatenate([self.data.xpos[body], self.data.xquat[body]])

    def steps(self, seconds: float) -> int:
        return max(1, round(seconds / self.physics.timestep))


def build_grasp_model(
    hand: HandSpec,
    asset: ObjectAsset,
    physics: PhysicsConfig,
    *,
    table_size: tuple[float, ...] | None = None,
) -> GraspModel:
    """Compile hand + free object, and a table at z = 0 when `table_size` (2,) m is given."""
    spec = hand_mjspec(hand)
    configure_options(spec, physics)
    for geom in spec.geoms:  # a contact takes the larger friction of its two geoms
        geom.friction = physics.friction
        geom.condim = physics.condim
    if table_size is not None:
        add_table(spec, size=table_size, friction=physics.friction, condim=physics.condim)
    add_object(
        spec,
        asset,
        OBJECT,
        (0, 0, 0, 1, 0, 0, 0),
        mass=physics.object_mass,
        friction=physics.friction,
        condim=physics.condim,
    )
    model = spec.compile()
    index = hand_index(hand, model)
    columns = np.array([hand.joint_names.index(name) for name in hand.ik_joints], np.int64)
    body = model.body(OBJECT).id
    joint = model.joint(f"{OBJECT}_free").id
    is_object = model.geom_bodyid == body
    hand_geoms = np.zeros(model.ngeom, bool)
    hand_geoms[index.geoms] = True
    return GraspModel(
        hand=hand,
        physics=physics,
        model=model,
        data=mujoco.MjData(model),
        index=index,
        arm=None if hand.mocap else Arm(model=model, index=index, columns=columns),
        object_body=body,
        object_qpos=int(model.jnt_qposadr[joint]),
        object_dof=int(model.jnt_dofadr[joint]),
        object_geoms=np.flatnonzero(is_object),
        is_contact_body=np.isin(np.arange(model.nbody), index.contact_bodies),
        is_tip_body=np.isin(np.arange(model.nbody), index.tip_bodies),
        hand_geoms=hand_geoms,
        is_object=is_object,
    )


def configure_options(spec: mujoco.MjSpec, physics: PhysicsConfig) -> None:
    """Set solver options on the parent spec; gravity is off, weight is applied as a wrench."""
    option = spec.option
    option.timestep = physics.timestep
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = physics.impratio
    option.noslip_iterations = physics.noslip_iterations
    option.gravity = np.zeros(3)
    flags = int(option.disableflags)
    # A diverged state is coded as such; a silent reset would label the starting pose instead.
    flags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    if physics.disable_multiccd:
        flags |= int(mujoco.mjtDisableBit.mjDSBL_MULTICCD)
    if physics.disable_islands:
        flags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    option.disableflags = flags
