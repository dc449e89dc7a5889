"""MjEnv: scores grasp poses in MuJoCo on the CPU. `evaluate` only."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from schemas.records import GraspSet, ObjectAsset
from stages.envs.base import BaseEnv, Evaluation
from stages.envs.config import PROTOCOLS, MjEnvConfig
from stages.envs.errors import EnvConfigError, NotInteractiveError
from stages.envs.mujoco.evaluator import ENGINE, Evaluator
from stages.envs.mujoco.pool import Job, WorkerPool
from stages.envs.mujoco.protocols.trial import GraspInput


class MjEnv(BaseEnv):
    """Offline grasp scoring; each grasp starts from a state of its own.

    With `workers` >= 1 the grasps run on spawned processes and a crash costs one row; with 0 they
    run in the calling process, for callers that are such a process themselves.
    """

    def __init__(self, config: MjEnvConfig) -> None:
        self.config = config
        self._local: Evaluator | None = None
        self._pool: WorkerPool | None = None

    def evaluate(
        self,
        grasps: GraspSet,
        asset: ObjectAsset,
        protocol: str,
        *,
        rollouts: bool = False,
        scene_id: str = "",
        seed: int = 0,
    ) -> Evaluation:
        """Score every grasp: N rows in, N rows out, equal for any number of workers."""
        return self.evaluate_all(
            [(grasps, asset)], protocol, rollouts=rollouts, scene_id=scene_id, seed=seed
        )[0]

    def evaluate_all(
        self,
        pairs: Sequence[tuple[GraspSet, ObjectAsset]],
        protocol: str,
        *,
        rollouts: bool = False,
        scene_id: str = "",
        seed: int = 0,
    ) -> list[Evaluation]:
        """`evaluate` of several objects in one go, so that no worker waits for the slowest."""
        tasks: list[tuple[GraspInput, Job]] = []
        for grasps, asset in pairs:
            self._check(grasps, asset, protocol)
            job = Job(asset=asset, protocol=protocol, rollouts=rollouts, scene_id=scene_id)
            tasks += [
                (
                    GraspInput(
                        grasp_index=int(grasps.grasp_index[i]),
                        object_pose=grasps.object_pose,
                        pregrasp_qpos=grasps.pregrasp_qpos[i],
                        grasp_qpos=grasps.grasp_qpos[i],
                        squeeze_qpos=grasps.squeeze_qpos[i],
                        seed=seed,
                    ),
                    job,
                )
                for i in range(len(grasps))
            ]
        if self.config.workers == 0:
            local = self._local = self._local or Evaluator(self.config)
            results = [
                local.evaluate(row, job.asset, protocol, rollouts=rollouts, scene_id=scene_id)
                for row, job in tasks
            ]
        else:
            self._pool = self._pool or WorkerPool(self.config)
            results = self._pool.map(tasks)
        ends = np.cumsum([0, *(len(grasps) for grasps, _ in pairs)])
        return [
            Evaluation(protocol=protocol, engine=ENGINE, results=tuple(results[a:b]))
            for a, b in pairwise(ends.tolist())
        ]

    @property
    def busy_s(self) -> float:
        """Seconds that the workers have spent on grasps so far; 0 without workers."""
        return self._pool.busy_s if self._pool else 0.0

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        self._local = None

    def _check(self, grasps: GraspSet, asset: ObjectAsset, protocol: str) -> None:
        from stages.assets.hands.load import load_hand

        hand = load_hand(self.config.hand)
        if protocol not in PROTOCOLS:
            raise EnvConfigError(f"protocol: unknown {protocol!r}; known: {', '.join(PROTOCOLS)}")
        if grasps.object_id != asset.object_id:
            raise EnvConfigError(
                f"the grasps are for object {grasps.object_id!r}, the asset is "
                f"{asset.object_id!r}; pass the asset that the grasps were sampled on"
            )
        if tuple(grasps.joint_names) != hand.joint_names:
            raise EnvConfigError(
                f"joint order: hand {hand.name!r} has {list(hand.joint_names)}, the grasps have "
                f"{list(grasps.joint_names)}; reindex the qpos columns first"
            )

    def reset(self, seed: int | None = None) -> NoReturn:
        raise NotInteractiveError("reset")

    def get_qpos(self) -> NoReturn:
        raise NotInteractiveError("get_qpos")

    def step_qpos(self, qpos: Any) -> NoReturn:
        raise NotInteractiveError("step_qpos")

    def get_info(self) -> NoReturn:
        raise NotInteractiveError("get_info")

    def get_rgb(self) -> NoReturn:
        raise NotInteractiveError("get_rgb")

    def get_pointcloud(self) -> NoReturn:
        raise NotInteractiveError("get_pointcloud")
