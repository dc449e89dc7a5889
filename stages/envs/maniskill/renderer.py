"""ManiSkill as a renderer: (scene, view) pairs, batched over sub-scenes. Physics never steps.

Poses of objects, hand and cameras are written, the kinematics flushed, the observation read. A
build is kept while the next scenes hold the same objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.envs.config import RendererConfig
from stages.envs.maniskill.depth import depth_metres
from stages.envs.maniskill.dexgrasp import NO_ROBOT, DexGrasp
from stages.envs.maniskill.env import pick_device, sub_scenes_of
from stages.envs.maniskill.robot import Robot
from stages.envs.maniskill.scenes import GraspScene

Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class View:
    """One (scene, view) pair."""

    scene: GraspScene
    T_world_cam: Float  # (4, 4) OpenCV, world
    qpos: Float | None = None  # (7 + J,) of the hand, when there is one


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Frame:
    """What one camera saw."""

    depth: NDArray[np.float32]  # (H, W) z-depth, m, to DEPTH_STEP; NaN without a hit
    segment: NDArray[np.uint16]  # (H, W) ids of `segment_table`
    segment_table: dict[str, int]
    normals: NDArray[np.float32] | None = None  # (H, W, 3) unit, camera frame, OpenCV axes


def build_renderer(config: RendererConfig) -> "Renderer":
    """A renderer; its environment is built with the first scenes."""
    return Renderer(config)


class Renderer:
    """Its own DexGrasp environment, in point-cloud observation mode."""

    def __init__(self, config: RendererConfig) -> None:
        self.config = config
        self.device = pick_device(config.device, max(1, config.num_envs))
        self.num_envs = config.num_envs or sub_scenes_of(self.device)
        self._env: DexGrasp | None = None
        self.builds = 0  # how often the sub-scenes were filled anew

    def render(self, views: Sequence[View]) -> list[Frame]:
        """One frame a view, in order; the same whatever they are batched with."""
        frames: list[Frame | None] = [None] * len(views)
        for batch in self._batches(views):
            self._fill([views[piece[0]].scene for piece in batch])
            for step in range(max(map(len, batch))):
                # a sub-scene that is through with its views repeats the last
                wanted = [piece[min(step, len(piece) - 1)] for piece in batch]
                for k, frame in zip(wanted, self._picture([views[k] for k in wanted]), strict=True):
                    frames[k] = frame
        return [frame for frame in frames if frame is not None]

    def close(self) -> None:
        """Free the environment; calling it twice is allowed."""
        if self._env is not None:
            self._env.close()
            self._env = None

    def _batches(self, views: Sequence[View]) -> list[list[list[int]]]:
        """Batches of `num_envs` pieces; a piece is some views of one scene."""
        of_scene: dict[int, list[int]] = {}
        for k, view in enumerate(views):
            of_scene.setdefault(id(view.scene.scene), []).append(k)
        size = max(1, -(-len(views) // self.num_envs))  # views a sub-scene when all take part
        pieces = [
            mine[a : a + size] for mine in of_scene.values() for a in range(0, len(mine), size)
        ]
        batches = [pieces[a : a + self.num_envs] for a in range(0, len(pieces), self.num_envs)]
        for batch in batches:
            batch += [batch[-1]] * (self.num_envs - len(batch))
        return batches

    def _fill(self, scenes: Sequence[GraspScene]) -> None:
        if self._env is None:
            self._env = self._make(scenes)
        elif self._env.same_build(scenes):
            self._env.move(scenes)
            return
        else:
            self._env.rebuild(scenes)
        self.builds += 1

    def _picture(self, views: Sequence[View]) -> list[Frame]:
        env = self._env
        assert env is not None
        if env.agent is not None:
            missing = [view.scene.scene.scene_id for view in views if view.qpos is None]
            if missing:
                raise ValueError(f"views of {missing}: expected the qpos of the hand")
            Robot(env).place(np.stack([np.asarray(view.qpos, np.float64) for view in views]))
        env.set_cameras(np.stack([view.T_world_cam for view in views]))
        env.flush()
        depth, segment = env.depth_and_segment()
        normals: Any = [None] * len(views)
        if self.config.normals:
            seen = env.capture("normals", normal=True)["normal"].cpu().numpy()
            normals = seen * np.array([1.0, -1.0, -1.0], np.float32)  # SAPIEN's are OpenGL's
        return [
            Frame(
                depth=depth_metres(depth[i]),
                segment=segment[i],
                segment_table=env.segment_table(i),
                normals=normals[i],
            )
            for i in range(len(views))
        ]

    def _make(self, scenes: Sequence[GraspScene]) -> DexGrasp:
        config = self.config
        return DexGrasp(
            scenes=scenes,
            num_envs=self.num_envs,
            robot_uids=config.agent,
            physics=False,
            camera=config.camera,
            normals=config.normals,
            control_mode=None if config.agent == NO_ROBOT else "pd_joint_pos",
            obs_mode="pointcloud",
            reward_mode="none",
            sim_backend=self.device,
            render_backend=self.device,
        )
