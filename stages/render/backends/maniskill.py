"""ManiSkill's rasteriser as a backend: int16 millimetres, on CUDA or on software Vulkan.

A rasteriser casts no single rays. What the sensor models ask for is read off pictures: a ray
shifted within a pixel meets the tangent plane of what that pixel sees, and a second picture from
the other eye says what that eye does not see. Within a pixel of an edge, both differ from rays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schemas.camera import Camera, Intrinsics
from schemas.records import ObjectAsset, Scene
from stages.crop import slopes_at
from stages.envs.config import RendererConfig
from stages.envs.maniskill.depth import DEPTH_STEP
from stages.envs.maniskill.env import pick_device, sub_scenes_of
from stages.envs.maniskill.renderer import Frame, Renderer, View, build_renderer
from stages.envs.maniskill.scenes import GraspScene
from stages.render.backends import check_grains
from stages.render.backends.hulls import object_hulls
from stages.render.backends.protocol import VISIBLE_SLACK, Hits

STEEPEST = 0.1  # cosine below which a tangent plane is not followed: it would run off too far
KEPT_FRAMES = 4  # of a scene: one view's, from both eyes
HIDDEN_SLACK = VISIBLE_SLACK + DEPTH_STEP


_Eye = tuple[Intrinsics, bytes]  # with the bytes of T_world_cam


@dataclass(kw_only=True, slots=True, eq=False)
class PreparedScene:
    scene: GraspScene
    hulls: tuple[NDArray[np.float64], ...]
    frames: dict[_Eye, Frame] = field(default_factory=dict)


class ManiSkillBackend:
    """`RayBackend` and `BatchBackend` on a DexGrasp environment without a hand."""

    depth_step = DEPTH_STEP

    def __init__(self) -> None:
        self._normals, self._sub_scenes = True, 0
        self._renderers: dict[Intrinsics, Renderer] = {}

    def configure(self, *, normals: bool, sub_scenes: int) -> None:
        self._normals, self._sub_scenes = normals, sub_scenes

    @property
    def batch(self) -> int:
        return self._sub_scenes or sub_scenes_of(pick_device("auto", 1))

    def prepare(self, scene: Scene, assets: Sequence[ObjectAsset]) -> PreparedScene:
        if scene.has_grains:
            check_grains("maniskill")
        return PreparedScene(
            scene=GraspScene(scene=scene, assets=tuple(assets)), hulls=object_hulls(scene, assets)
        )

    def hulls(self, prepared: PreparedScene) -> Sequence[NDArray[np.float64]]:
        return prepared.hulls

    def announce(self, wanted: Sequence[tuple[PreparedScene, Camera]]) -> None:
        for p, _ in wanted:
            p.frames.clear()
        for intrinsics in dict.fromkeys(camera.intrinsics for _, camera in wanted):
            mine = [(p, camera) for p, camera in wanted if camera.intrinsics == intrinsics]
            views = [View(scene=p.scene, T_world_cam=camera.T_world_cam) for p, camera in mine]
            for (p, camera), frame in zip(
                mine, self._renderer(intrinsics).render(views), strict=True
            ):
                p.frames[_eye(camera)] = frame

    def render(
        self,
        prepared: PreparedScene,
        camera: Camera,
        pixels: NDArray[np.int64] | None = None,
    ) -> Hits:
        K, frame = camera.intrinsics, self._frame(prepared, camera)
        if pixels is None:
            pixels = np.arange(K.width * K.height)
        normal = None
        if frame.normals is not None:
            seen = frame.normals.reshape(-1, 3)[pixels].astype(np.float64)
            normal = (seen @ camera.T_world_cam[:3, :3].T).astype(np.float32)
        return Hits(
            pixel=pixels,
            z=frame.depth.reshape(-1)[pixels],
            segment=frame.segment.reshape(-1)[pixels],
            normal=normal,
        )

    def cast(
        self,
        prepared: PreparedScene,
        camera: Camera,
        pixels: NDArray[np.int64],
        slopes: NDArray[np.float32],
    ) -> Hits:
        K, frame = camera.intrinsics, self._frame(prepared, camera)
        if frame.normals is None:
            raise ValueError("cast needs normals: configure(normals=True) before the first picture")
        x, y = slopes.astype(np.float64).T
        column = np.clip(np.floor(x * K.fx + K.cx), 0, K.width - 1).astype(np.int64)
        row = np.clip(np.floor(y * K.fy + K.cy), 0, K.height - 1).astype(np.int64)
        middle = np.stack(slopes_at(pixels, K), axis=1)
        same = (slopes == middle).all(axis=1)  # whatever rounding does to a middle
        met = np.where(same, pixels, row * K.width + column)
        z = frame.depth.reshape(-1)[met].astype(np.float64)
        n = frame.normals.reshape(-1, 3)[met].astype(np.float64)
        u, v = (s.astype(np.float64) for s in slopes_at(met, K))
        there, here = n[:, 0] * u + n[:, 1] * v + n[:, 2], n[:, 0] * x + n[:, 1] * y + n[:, 2]
        cosine = np.abs(here) / np.sqrt(x * x + y * y + 1)
        follow = ~same & (cosine > STEEPEST)
        z = np.where(follow, z * there / np.where(follow, here, 1.0), z)
        return Hits(
            pixel=pixels,
            z=z.astype(np.float32),
            segment=frame.segment.reshape(-1)[met],
            normal=(n @ camera.T_world_cam[:3, :3].T).astype(np.float32),
            cosine=np.where(np.isnan(z), np.nan, np.minimum(cosine, 1.0)),
        )

    def visible(
        self,
        prepared: PreparedScene,
        camera: Camera,
        eye_cam: ArrayLike,
        points_cam: NDArray[np.float32],
    ) -> NDArray[np.bool_]:
        K, eye = camera.intrinsics, np.asarray(eye_cam, np.float64)
        depth = self._frame(prepared, camera.moved(eye)).depth
        x, y, z = (points_cam.astype(np.float64) - eye).T
        # The nearest four pixels: a point is hidden where all of them see something before it.
        first = np.floor(x / z * K.fx + K.cx - 0.5).astype(np.int64)
        top = np.floor(y / z * K.fy + K.cy - 0.5).astype(np.int64)
        hidden = np.ones(len(z), bool)
        for dr in (0, 1):
            for dc in (0, 1):
                row, column = top + dr, first + dc
                inside = (row >= 0) & (row < K.height) & (column >= 0) & (column < K.width)
                seen = depth[np.where(inside, row, 0), np.where(inside, column, 0)]
                # what lies outside the other picture hides nothing that is known
                hidden &= inside & (seen < z - HIDDEN_SLACK)
        return ~hidden

    def _frame(self, prepared: PreparedScene, camera: Camera) -> Frame:
        key = _eye(camera)
        if key not in prepared.frames:
            view = View(scene=prepared.scene, T_world_cam=camera.T_world_cam)
            while len(prepared.frames) >= KEPT_FRAMES:
                prepared.frames.pop(next(iter(prepared.frames)))
            prepared.frames[key] = self._renderer(camera.intrinsics).render([view])[0]
        return prepared.frames[key]

    def _renderer(self, intrinsics: Intrinsics) -> Renderer:
        if intrinsics not in self._renderers:
            config = RendererConfig(
                camera=intrinsics, num_envs=self._sub_scenes, normals=self._normals
            )
            self._renderers[intrinsics] = build_renderer(config)
        return self._renderers[intrinsics]


def _eye(camera: Camera) -> _Eye:
    return camera.intrinsics, camera.T_world_cam.tobytes()
