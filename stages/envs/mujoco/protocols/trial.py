"""What both protocols do first: check a grasp, measure it, close the hand, keep the state."""

import time
from dataclasses import dataclass, field, replace

import mujoco
import numpy as np
from numpy.typing import NDArray

from stages.envs.base import GraspResult, Rollout
from stages.envs.config import ClosingConfig, MetricsConfig
from stages.envs.errors import StoppedError
from stages.envs.grasp_input import GraspInput
from stages.envs.motion import blend, unit_pose
from stages.envs.mujoco.grasp_model import GraspModel
from stages.envs.mujoco.hand_index import drive_hand, set_hand_qpos
from stages.envs.mujoco.metrics import count_contacts, grasp_metrics, penetration
from stages.envs.outcomes import (
    DIVERGED,
    INITIAL_PENETRATION,
    NO_CONTACT,
    TIMED_OUT,
)

Float = NDArray[np.float64]
STATE = mujoco.mjtState.mjSTATE_INTEGRATION
CHUNK = 25  # steps between checks for divergence and time


@dataclass(kw_only=True, slots=True, eq=False)
class Trial:
    """One grasp in simulation. `step` is the only way time passes, so every limit is in it."""

    grasp: GraspModel
    row: GraspInput
    deadline: float  # time.monotonic() seconds
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    record: bool = False
    snapshots: list[tuple[Float, Float]] = field(default_factory=list)

    def step(self, n: int) -> None:
        """Advance `n` steps; raises StoppedError on divergence or past the deadline."""
        model, data = self.grasp.model, self.grasp.data
        while n > 0:
            chunk = min(n, CHUNK)
            mujoco.mj_step(model, data, chunk)
            n -= chunk
            speed = np.abs(data.qvel).max()
            if not (speed < self.grasp.physics.max_speed and np.isfinite(data.qpos).all()):
                raise StoppedError(DIVERGED, f"largest joint speed {speed:.3g} (m/s or rad/s)")
            if time.monotonic() > self.deadline:
                raise StoppedError(TIMED_OUT, "past timeout_s of wall-clock time")
            if self.record:
                self.snapshots.append((self.grasp.hand_qpos(), self.grasp.object_pose()))

    def close_hand(self, closing: ClosingConfig, *, need_contact: bool = True) -> GraspResult:
        """Measure the grasp pose, then pregrasp -> grasp -> squeeze; metrics so far.

        The outcome is "" when the trial goes on: with `need_contact`, only if something touches.
        Raises StoppedError when the grasp is invalid, starts in penetration or ends untouched.
        """
        grasp, row = self.grasp, self.row
        row.check(len(grasp.hand.joint_names))
        pregrasp, target, squeeze = (
            unit_pose(q) for q in (row.pregrasp_qpos, row.grasp_qpos, row.squeeze_qpos)
        )
        self._place(target)
        result = GraspResult(
            outcome=NO_CONTACT,
            final_object_pose=grasp.object_pose(),
            **grasp_metrics(grasp, self.metrics),
        )
        self._place(pregrasp)
        deepest = max(result.hand_object_penetration, penetration(grasp))
        if deepest > closing.max_pene:
            return replace(
                result,
                outcome=INITIAL_PENETRATION,
                message=f"{deepest:.4f} m deep, allowed {closing.max_pene} m",
            )
        self._move(pregrasp, target, closing.approach_time, closing.target_every)
        self._move(target, squeeze, closing.squeeze_time, closing.target_every)
        if closing.settle_time > 0:
            self.step(grasp.steps(closing.settle_time))
        contacts = count_contacts(grasp)
        return replace(
            result,
            outcome="" if contacts or not need_contact else NO_CONTACT,
            final_object_pose=grasp.object_pose(),
            contacts_squeeze=contacts,
        )

    def object_start(self) -> Float:
        """(7,) pose of the object before the hand closed, world."""
        return unit_pose(self.row.object_pose)

    def save(self) -> Float:
        """The whole integration state, to branch from."""
        model = self.grasp.model
        state = np.empty(mujoco.mj_stateSize(model, STATE))
        mujoco.mj_getState(model, self.grasp.data, state, STATE)
        return state

    def restore(self, state: Float) -> None:
        """Back to `save`; contacts and kinematics are recomputed."""
        mujoco.mj_setState(self.grasp.model, self.grasp.data, state, STATE)
        mujoco.mj_forward(self.grasp.model, self.grasp.data)

    def finish(self, result: GraspResult, scene_id: str) -> GraspResult:
        """`result` with its rollout when one was asked for."""
        if not self.snapshots:
            return result
        qpos, poses = (np.array(column) for column in zip(*self.snapshots, strict=True))
        rollout = Rollout(
            qpos=qpos,
            obj_pose=poses,
            scene_id=scene_id,
            success=result.success,
            grasp_index=self.row.grasp_index,
        )
        return replace(result, rollout=rollout)

    def _place(self, qpos: Float) -> None:
        # A full reset, so that nothing (warm starts included) leaks in from an earlier grasp.
        grasp = self.grasp
        mujoco.mj_resetData(grasp.model, grasp.data)
        set_hand_qpos(grasp.data, grasp.index, qpos)
        a = grasp.object_qpos
        grasp.data.qpos[a : a + 7] = self.object_start()
        mujoco.mj_forward(grasp.model, grasp.data)

    def _move(self, start: Float, end: Float, seconds: float, every: int) -> None:
        n = self.grasp.steps(seconds)
        for done in range(0, n, every):
            k = min(every, n - done)
            drive_hand(self.grasp.data, self.grasp.index, blend(start, end, (done + k) / n))
            self.step(k)
