"""Greenscreen for any ManiSkill environment: put it before the environment's own class.

    class Twin(Greenscreen, PickCubeEnv): ...
    env = Twin(overlays={"base_camera": "photo.png"}, keep=["cube", "panda"],
               obs_mode="rgb+segmentation")

Pixels of what is not kept come from a real picture, and from a real depth image where the overlay
has one, in colour, depth, position and point clouds (`stages.robot.twin.composite`). All state is
the instance's, so that two twins in one process do not share pictures.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from schemas.camera import Intrinsics
from stages.crop import pixel_slopes
from stages.robot.errors import OverlayError
from stages.robot.twin import MODES, Overlay, composite

REAL_SEGMENT = 32767
"""Id, in `segmentation`, of what comes from the real depth image: not 0, which means nothing."""

Picture = str | Path | Overlay


class Greenscreen:
    """Mixin. Keyword arguments besides those of the environment:

    - `overlays`: camera -> picture (.png file or Overlay), or one for each environment, or None for
      a camera that stays as simulated. Every camera needs an entry;
    - `keep`: names or patterns of actors, links ("panda/panda_hand") and articulations (all links)
      that stay in front;
    - `overlay_mode`: "background", "debug" (half of each colour) or "none".

    Raises OverlayError, or FileNotFoundError naming the file.
    """

    def __init__(
        self,
        *args: Any,
        overlays: Mapping[str, Picture | Sequence[Picture] | None],
        keep: Sequence[str],
        overlay_mode: str = "background",
        **kwargs: Any,
    ) -> None:
        if overlay_mode not in MODES:
            raise OverlayError(
                f"overlay_mode: expected one of {', '.join(MODES)}, got {overlay_mode!r}"
            )
        self.overlay_mode = overlay_mode
        self._keep_names = tuple([keep] if isinstance(keep, str) else keep)
        self._overlays = {name: _opened(picture) for name, picture in overlays.items()}
        self._fitted: dict[str, dict[str, Any]] = {}
        self._kept: Any = None
        super().__init__(*args, **kwargs)

    def _after_reconfigure(self, options: Any) -> None:
        super()._after_reconfigure(options)  # type: ignore[misc]
        self._fitted, self._kept = {}, None
        if self.overlay_mode != "none":
            self._check_obs_mode()
            self._kept = self._keep_table()
            for name, overlays in self._overlays.items():
                if overlays is not None:
                    self._fitted[name] = self._fit(name, overlays)

    def _get_obs_sensor_data(self, apply_texture_transforms: bool = True) -> dict[str, Any]:
        data = super()._get_obs_sensor_data(apply_texture_transforms)  # type: ignore[misc]
        if self._visual() and apply_texture_transforms:
            for name, fitted in self._fitted.items():
                data[name] = self._composited(data[name], fitted)
        return data

    def _visual(self) -> bool:
        """Whether observations hold pictures at all."""
        return self.obs_mode not in ("state", "state_dict", "none")  # type: ignore[attr-defined]

    def _check_obs_mode(self) -> None:
        mode: Any = self
        cameras = sorted(mode._sensors)
        if unknown := sorted(set(self._overlays) - set(cameras)):
            raise OverlayError(f"overlays: no camera {unknown}; cameras: {', '.join(cameras)}")
        if without := [name for name in cameras if name not in self._overlays]:
            raise OverlayError(
                f"overlays: the camera{'s' * (len(without) > 1)} {', '.join(without)} has none; "
                "give a picture, or None to leave it as simulated"
            )
        if not self._visual():
            return
        visual = mode.obs_mode_struct.visual
        if mode.obs_mode == "sensor_data":
            raise OverlayError(
                "obs_mode sensor_data: raw textures cannot be composited; name the pictures, for "
                "example rgb+depth+segmentation"
            )
        if not visual.segmentation:
            raise OverlayError(
                f"obs_mode {mode.obs_mode!r}: expected segmentation in it, which tells what to "
                f"keep; for example {mode.obs_mode}+segmentation"
            )
        with_depth = any(o.depth is not None for os in self._overlays.values() for o in os or ())
        if with_depth and self.overlay_mode != "debug" and not (visual.depth or visual.position):
            raise OverlayError(
                f"obs_mode {mode.obs_mode!r}: an overlay has depth, and the z-test needs the "
                "simulation's: add depth"
            )

    def _keep_table(self) -> Any:
        """(N, ids) bool tensor: what environment i keeps."""
        import torch

        env: Any = self
        named: list[tuple[str, Any]] = []
        for name, actor in env.scene.actors.items():
            named.append((name, actor))
        for name, articulation in env.scene.articulations.items():
            for link in articulation.links:
                named += [(name, link), (f"{name}/{link.name}", link)]
        ids = [(int(i), int(s)) for _, o in named for i, s in _ids(o)]
        table = torch.zeros((env.num_envs, max((i for i, _ in ids), default=0) + 1), dtype=bool)
        for pattern in self._keep_names:
            found = [thing for name, thing in named if fnmatchcase(name, pattern)]
            if not found:
                known = ", ".join(sorted({name for name, _ in named}))
                raise OverlayError(f"keep: {pattern!r} matches nothing; there are: {known}")
            for thing in found:
                for number, scene in _ids(thing):
                    table[int(scene), int(number)] = True
        return table.to(env.device)

    def _fit(self, name: str, overlays: list[Overlay]) -> dict[str, Any]:
        """Tensors (N or 1, H, W, ...) of a camera's pictures, and its rays."""
        import torch

        env: Any = self
        if len(overlays) not in (1, env.num_envs):
            raise OverlayError(
                f"overlays: {name}: expected one picture or {env.num_envs}, one for each "
                f"environment, got {len(overlays)}"
            )
        sensor = env._sensors[name]
        matrices = sensor.get_params()["intrinsic_cv"].cpu().double().numpy()
        size = int(sensor.config.width), int(sensor.config.height)
        cameras = [Intrinsics.from_matrix(K, *size) for K in matrices]
        fitted = [o.fitted(cameras[i]) for i, o in enumerate(overlays)]
        if len(fitted) == 1:
            for camera in cameras[1:]:
                overlays[0].fitted(camera)
        out: dict[str, Any] = {"rgb": np.stack([o.rgb for o in fitted])}
        if any(o.depth is not None for o in fitted):
            nothing = np.full(fitted[0].rgb.shape[:2], np.nan, np.float32)
            out["depth"] = np.stack([nothing if o.depth is None else o.depth for o in fitted])
        slopes = [pixel_slopes(camera) for camera in cameras]
        out["x"] = np.stack([x for x, _ in slopes])[:, None, :]
        out["y"] = np.stack([y for _, y in slopes])[:, :, None]
        return {key: torch.from_numpy(value).to(env.device) for key, value in out.items()}

    def _composited(self, data: dict[str, Any], fitted: dict[str, Any]) -> dict[str, Any]:
        """The pictures of one camera; the simulation's depth is int16 mm, position OpenGL's."""
        import torch

        out = dict(data)
        ids = data["segmentation"][..., 0]
        row = torch.arange(len(ids), device=ids.device)[:, None, None]
        keep = self._kept[row, ids.long().clamp(0, self._kept.shape[1] - 1)]
        depth = None
        if "depth" in data or "position" in data:
            raw = data["depth"][..., 0] if "depth" in data else -data["position"][..., 2]
            depth = raw.float() / 1000
            depth = torch.where(depth > 0, depth, torch.nan)
        behind = fitted.get("depth")
        if behind is not None and depth is None:
            behind = None  # debug: nothing is hidden
        mode: Any = self.overlay_mode
        plain = torch.zeros((*ids.shape, 3), dtype=torch.uint8, device=ids.device)
        rgb, new_depth, segment = composite(
            data.get("rgb", plain)[..., :3], depth, ids, fitted["rgb"], behind, keep, mode
        )
        if "rgb" in data:
            out["rgb"] = rgb
        if mode == "debug":
            return out
        if behind is not None:
            real = torch.isfinite(behind) & (segment == 0)
            segment = torch.where(real, torch.full_like(segment, REAL_SEGMENT), segment)
        out["segmentation"] = segment[..., None]
        if "depth" in data:
            out["depth"] = _millimetres(new_depth[..., None], data["depth"].dtype)
        if "position" in data:
            # OpenGL camera frame: x right, y up, z backwards
            z = new_depth
            position = torch.stack([fitted["x"] * z, -fitted["y"] * z, -z], dim=-1)
            real = (segment == REAL_SEGMENT) | (segment == 0)
            position = _millimetres(position, data["position"].dtype)
            out["position"] = torch.where(real[..., None], position, data["position"][..., :3])
        return out


def _opened(picture: Picture | Sequence[Picture] | None) -> list[Overlay] | None:
    if picture is None:
        return None
    several = [picture] if isinstance(picture, str | Path | Overlay) else list(picture)
    return [p if isinstance(p, Overlay) else Overlay.of_file(p) for p in several]


def _ids(thing: Any) -> list[tuple[Any, Any]]:
    """(segmentation id, environment) of an actor or link in each environment that holds it."""
    return list(zip(thing.per_scene_id.tolist(), thing._scene_idxs.tolist(), strict=True))


def _millimetres(metres: Any, dtype: Any) -> Any:
    """Rounded millimetres of the simulator's type; 0 where nothing is."""
    import torch

    value = torch.nan_to_num(metres * 1000, nan=0.0)
    return (value if dtype.is_floating_point else torch.round(value)).to(dtype)
