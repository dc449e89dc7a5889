"""MjEnv: scores grasp poses in MuJoCo on the CPU. `evaluate` only."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from schemas.records import GraspSet, ObjectAsset
from stages.assets.hands.load import load_hand
from stages.envs.base import BaseEnv, Evaluation
from stages.envs.config import MJ_PROTOCOLS, MjEnvConfig
from stages.envs.errors import NotInteractiveError
from stages.envs.grasp_input import GraspInput, check_grasps, grasp_inputs
from stages.envs.mujoco.evaluator import ENGINE, Evaluator
from stages.envs.mujoco.pool import Job, WorkerPool


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
        hand = load_hand(self.config.hand)
        tasks: list[tuple[GraspInput, Job]] = []
        for grasps, asset in pairs:
            check_grasps(hand, grasps, asset, protocol, MJ_PROTOCOLS)
            job = Job(asset=asset, protocol=protocol, rollouts=rollouts, scene_id=scene_id)
            tasks += [(row, job) for row in grasp_inputs(grasps, seed)]
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
    def engine(self) -> str:
        return ENGINE

    @property
    def busy_s(self) -> float:
        """Seconds that the workers have spent on grasps so far; 0 without workers."""
        return self._pool.busy_s if self._pool else 0.0

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None
        self._local = None

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
