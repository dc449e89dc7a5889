"""`rollout`: a grasp carried out in ManiSkill. Close, lift from the table, hold, judge.

Every batch is built anew, so a result depends on nothing that ran before. The hand does not touch
the table, as in MuJoCo's `tabletop`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.frames import invert, matrix_to_pose, pose_to_matrix, rotation_angle
from schemas.records import ObjectAsset, Scene
from stages.assets.hands.spec import HandSpec
from stages.envs.base import GraspResult, Rollout
from stages.envs.config import PhysicsConfig, RolloutConfig
from stages.envs.errors import StoppedError
from stages.envs.grasp_input import GraspInput
from stages.envs.maniskill.dexgrasp import DexGrasp
from stages.envs.maniskill.robot import Robot
from stages.envs.maniskill.scenes import GraspScene
from stages.envs.motion import blend, minimum_jerk, unit_pose
from stages.envs.outcomes import DIVERGED, NO_CONTACT, NOT_GRASPED, NOT_LIFTED, OK, OUT_OF_REACH

Float = NDArray[np.float64]
WAYPOINTS = 9  # heights at which an arm's joints are solved for


def grasp_scene(row: GraspInput, asset: ObjectAsset, config: RolloutConfig) -> GraspScene:
    """The object of a grasp alone on its table, or in the air."""
    table = (0.0, 0.0) if config.floating_object else config.table_size
    scene = Scene(
        scene_id=f"{asset.object_id}/{row.grasp_index}",
        kind="floating" if config.floating_object else "tabletop",
        split="train",
        object_ids=(asset.object_id,),
        object_poses=unit_pose(row.object_pose)[None],
        object_scales=np.array([asset.scale]),
        object_masses=np.array([asset.mass]),
        table_pose=np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
        table_size=np.array(table, np.float64),
        settle_time=0.0,
    )
    return GraspScene(scene=scene, assets=(asset,))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Plan:
    """Targets of one hand, control step by control step: (T, 7 + J) each."""

    close: Float
    lift: Float


def plan_targets(
    row: GraspInput, hand: HandSpec, config: RolloutConfig, asset: ObjectAsset
) -> _Plan:
    """Targets of `row`; StoppedError when it is invalid, or when an arm cannot lift that high."""
    row.check(len(hand.joint_names))
    start, grasp, squeeze = (
        unit_pose(q) for q in (row.pregrasp_qpos, row.grasp_qpos, row.squeeze_qpos)
    )
    close = [
        blend(a, b, (i + 1) / n)
        for a, b, n in (
            (start, grasp, _steps(config, config.approach_time)),
            (grasp, squeeze, _steps(config, config.squeeze_time)),
            (squeeze, squeeze, _steps(config, config.settle_time)),
        )
        for i in range(n)
    ]
    rise, hold = _steps(config, config.lift_time), _steps(config, config.hold_time)
    if config.static_base:
        for target in close:  # pinned at the final pose of the root: no approach
            target[:7] = squeeze[:7]
    if config.floating_object:
        return _Plan(close=np.array(close), lift=np.array([squeeze] * hold))
    heights = [config.lift_height * minimum_jerk((i + 1) / rise) for i in range(rise)]
    heights += [config.lift_height] * hold
    return _Plan(close=np.array(close), lift=_raised(squeeze, heights, hand, asset))


def _steps(config: RolloutConfig, seconds: float) -> int:
    """Control steps, at least one."""
    return max(1, round(seconds * config.control_freq))


def _raised(qpos: Float, heights: Sequence[float], hand: HandSpec, asset: ObjectAsset) -> Float:
    """(T, 7 + J) `qpos` with the hand so many metres higher, by the root or by the arm's IK."""
    out = np.tile(qpos, (len(heights), 1))
    if hand.mocap:
        out[:, 2] += heights
        return out
    # One inverse kinematics for both engines, on MuJoCo's model of the rig.
    from stages.envs.mujoco.grasp_model import build_grasp_model
    from stages.envs.mujoco.hand_index import set_hand_qpos
    from stages.envs.mujoco.ik import TOLERANCE

    import mujoco  # isort: skip

    grasp = build_grasp_model(hand, asset, PhysicsConfig())
    assert grasp.arm is not None
    set_hand_qpos(grasp.data, grasp.index, qpos)
    mujoco.mj_forward(grasp.model, grasp.data)
    pose = grasp.body_pose(grasp.index.carrier)
    levels, path = np.linspace(0.0, max(heights), WAYPOINTS), [qpos]
    for rise in levels[1:]:
        reached, error = grasp.arm.reach(path[-1], pose + np.array([0, 0, rise, 0, 0, 0, 0]))
        if error > 10 * TOLERANCE:
            raise StoppedError(
                OUT_OF_REACH, f"the arm stops {error:.4f} (m, rad) short of {rise:.3f} m"
            )
        path.append(reached)
    joints = np.array(path)[:, 7:]
    for column in range(joints.shape[1]):
        out[:, 7 + column] = np.interp(heights, levels, joints[:, column])
    return out


class RolloutRunner:
    """Carries out grasps of one hand, `num_envs` at a time."""

    def __init__(self, env: DexGrasp, hand: HandSpec, config: RolloutConfig) -> None:
        self.env, self.hand, self.config = env, hand, config

    def run(
        self,
        rows: Sequence[GraspInput],
        asset: ObjectAsset,
        *,
        record: bool = False,
        scene_id: str = "",
    ) -> list[GraspResult]:
        """One result a row, in order."""
        results: list[GraspResult | None] = [None] * len(rows)
        plans: dict[int, _Plan] = {}
        for i, row in enumerate(rows):
            try:
                plans[i] = plan_targets(row, self.hand, self.config, asset)
            except StoppedError as stopped:
                results[i] = GraspResult(
                    outcome=stopped.code, message=str(stopped), contact_number=-1
                )
        waiting, n = list(plans), self.env.num_envs
        for a, b in pairwise([*range(0, len(waiting), n), len(waiting)]):
            chunk = waiting[a:b]
            # the last batch is filled up with its own last grasp
            padded = chunk + [chunk[-1]] * (n - len(chunk))
            done = self._batch([rows[i] for i in padded], [plans[i] for i in padded], asset,
                               record, scene_id)  # fmt: skip
            for i, result in zip(chunk, done, strict=False):
                results[i] = result
        return [result for result in results if result is not None]

    def _batch(
        self,
        rows: Sequence[GraspInput],
        plans: Sequence[_Plan],
        asset: ObjectAsset,
        record: bool,
        scene_id: str,
    ) -> Iterator[GraspResult]:
        env, config = self.env, self.config
        env.rebuild(
            [grasp_scene(row, asset, config) for row in rows], [row.grasp_index for row in rows]
        )
        robot = Robot(env)
        first = np.array([unit_pose(row.pregrasp_qpos) for row in rows])
        if config.static_base:
            first[:, :7] = [plan.close[-1][:7] for plan in plans]
        robot.place(first)
        snapshots: list[tuple[Float, Float]] = []

        def follow(targets: Float) -> list[tuple[Float, Float]]:  # (T, N, 7 + J)
            states: list[tuple[Float, Float]] = []
            for target in targets:
                env.control_step(robot, target)
                states.append((robot.qpos(), env.target_pose()))
            if record:
                snapshots.extend(states)
            return states

        close = np.stack([plan.close for plan in plans], axis=1)
        approach = _steps(config, config.approach_time)
        follow(close[:approach])
        at_grasp = env.evaluate()["contact_links"].cpu().numpy()
        follow(close[approach:])
        at_squeeze = env.evaluate()["contact_links"].cpu().numpy()
        before = _in_hand(robot.qpos(), env.target_pose())
        lifted = follow(np.stack([plan.lift for plan in plans], axis=1))
        end = {name: values.cpu().numpy() for name, values in env.evaluate().items()}
        qpos, pose = lifted[-1]
        # of a hand on an arm the root stands still, so its object moves without slipping
        path = [_in_hand(q, p) for q, p in lifted] if self.hand.mocap else []
        for i, row in enumerate(rows):
            finite = bool(np.isfinite(qpos[i]).all() and np.isfinite(pose[i]).all())
            outcome = _outcome(finite, end, i, config)
            rollout = None
            if record:
                rollout = Rollout(
                    qpos=np.array([q[i] for q, _ in snapshots]),
                    obj_pose=np.array([p[i] for _, p in snapshots]),
                    scene_id=scene_id,
                    success=outcome == OK,
                    grasp_index=row.grasp_index,
                )
            yield GraspResult(
                outcome=outcome,
                direction_success=np.array([False] * 5 + [outcome == OK]),
                final_object_pose=pose[i],
                translation=max((float(np.linalg.norm(now[i][:3] - before[i][:3])) for now in path),
                                default=np.nan) if finite else np.nan,
                rotation=max((rotation_angle(before[i][3:], now[i][3:]) for now in path),
                             default=np.nan) if finite else np.nan,
                contacts_grasp=int(at_grasp[i]),
                contacts_squeeze=int(at_squeeze[i]),
                contacts_end=int(end["contact_links"][i]),
                contact_number=-1,  # not measured here
                lift=float(end["lift"][i]),
                rollout=rollout,
            )  # fmt: skip


def _outcome(finite: bool, end: dict[str, Any], i: int, config: RolloutConfig) -> str:
    if not finite:
        return DIVERGED
    if end["success"][i]:
        return OK
    if end["contact_links"][i] == 0:
        return NO_CONTACT
    if config.floating_object or not end["is_strictly_grasped"][i]:
        return NOT_GRASPED
    return NOT_LIFTED


def _in_hand(qpos: Float, pose: Float) -> list[Float]:
    """(7,) object in the hand's root frame, a sub-scene each; NaN where the state is."""
    out: list[Float] = []
    for q, p in zip(qpos, pose, strict=True):
        if not (np.isfinite(q).all() and np.isfinite(p).all()):
            out.append(np.full(7, np.nan))
            continue
        T = invert(pose_to_matrix(unit_pose(q)[:7])) @ pose_to_matrix(unit_pose(p))
        out.append(matrix_to_pose(T))
    return out
