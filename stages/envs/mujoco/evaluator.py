"""Scores grasps one by one in this process; a worker of the pool holds one of these."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mujoco
import numpy as np

from schemas.records import ObjectAsset
from stages.assets.hands.load import load_hand
from stages.envs.base import GraspResult
from stages.envs.config import MJ_PROTOCOLS, MetricsConfig, MjEnvConfig
from stages.envs.errors import EnvConfigError, StoppedError
from stages.envs.grasp_input import GraspInput
from stages.envs.mujoco.grasp_model import GraspModel, build_grasp_model
from stages.envs.mujoco.perturb import perturbed
from stages.envs.mujoco.protocols.dexgraspbench import run_dexgraspbench
from stages.envs.mujoco.protocols.fc import run_fc
from stages.envs.mujoco.protocols.tabletop import run_tabletop
from stages.envs.mujoco.protocols.trial import Trial
from stages.envs.outcomes import FAULTS

RUNNERS: dict[str, Callable[[Trial, Any], GraspResult]] = {
    "fc": run_fc,
    "tabletop": run_tabletop,
    "dexgraspbench": run_dexgraspbench,
}
ENGINE = f"mujoco {mujoco.__version__}"
KEPT_MODELS = 8  # compiled models kept; grasps come grouped by object, so few are needed


class Evaluator:
    """Compiles a model once per (object, scale, protocol) and reuses it for every grasp."""

    def __init__(self, config: MjEnvConfig) -> None:
        # Divergence is coded per grasp; MuJoCo's default also writes MUJOCO_LOG.TXT where it runs.
        mujoco.set_mju_user_warning(_no_log)
        self.config = config
        self.hand = load_hand(config.hand)
        self._models: OrderedDict[tuple[object, ...], GraspModel] = OrderedDict()

    def evaluate(
        self,
        row: GraspInput,
        asset: ObjectAsset,
        protocol: str,
        *,
        rollouts: bool = False,
        scene_id: str = "",
    ) -> GraspResult:
        """One grasp under `protocol`; equal whatever was evaluated before it."""
        grasp, config = self._model(asset, protocol), self.config
        result = self._run(grasp, row, protocol, config.metrics, rollouts, scene_id)
        if config.confidence.repeats == 0 or result.outcome in FAULTS:
            return result
        # Repeats give a verdict only: metrics at the grasp pose are those of the grasp itself.
        metrics = replace(config.metrics, analytic=False)
        verdicts: list[bool] = []
        for repeat in range(config.confidence.repeats):
            rng = np.random.default_rng([row.seed, row.grasp_index, repeat])
            again = perturbed(grasp, row, config.confidence, rng)
            verdicts.append(self._run(*again, protocol, metrics).success)
        return replace(result, confidence=float(np.mean(verdicts)))

    def _run(
        self,
        grasp: GraspModel,
        row: GraspInput,
        protocol: str,
        metrics: MetricsConfig,
        rollouts: bool = False,
        scene_id: str = "",
    ) -> GraspResult:
        trial = Trial(
            grasp=grasp,
            row=row,
            deadline=time.monotonic() + self.config.timeout_s,
            metrics=metrics,
            record=rollouts,
        )
        try:
            result = RUNNERS[protocol](trial, getattr(self.config, protocol))
        except StoppedError as stopped:
            return GraspResult(outcome=stopped.code, message=str(stopped))
        return trial.finish(result, scene_id)

    def _model(self, asset: ObjectAsset, protocol: str) -> GraspModel:
        if protocol not in MJ_PROTOCOLS:
            raise EnvConfigError(
                f"protocol: unknown {protocol!r}; known: {', '.join(MJ_PROTOCOLS)}"
            )
        key = (asset.object_id, asset.sha256, asset.scale, asset.mass, protocol)
        if key not in self._models:
            config = self.config
            table = config.tabletop.table_size if protocol == "tabletop" else None
            physics = config.physics
            if protocol == "dexgraspbench" and config.dexgraspbench.disable_multiccd:
                physics = replace(physics, disable_multiccd=True)
            self._models[key] = build_grasp_model(self.hand, asset, physics, table_size=table)
            if len(self._models) > KEPT_MODELS:
                self._models.popitem(last=False)
        self._models.move_to_end(key)
        return self._models[key]


def _no_log(message: str) -> None:
    del message
