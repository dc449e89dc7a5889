"""Wires composition, start poses and settling into scenes."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from schemas.records import ObjectAsset, Scene
from stages.contract import Item, ItemTable, Outcome
from stages.scene.compose import choose_objects
from stages.scene.config import KINDS, SceneConfig
from stages.scene.errors import PlacementError, SceneConfigError
from stages.scene.granular.fill import fill
from stages.scene.sample import clutter_poses, floating_pose, resting_pose

ON_TABLE = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])  # the table top is the world's z = 0


class SceneStage:
    """One item per scene; its kind, split and objects are part of its key."""

    name: ClassVar[str] = "scene"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("assets",)
    record: ClassVar[type] = Scene

    def plan(self, config: SceneConfig, upstream: Mapping[str, Sequence[Item]]) -> Sequence[Item]:
        """Raises SceneConfigError when there is no object, or no scene could be composed."""
        splits = {item.id: item.tags["split"] for item in upstream["assets"]}
        if not splits:
            raise SceneConfigError("scene: there is no object; list some in assets.objects")
        starts: dict[str, int] = {}
        count = 0
        for kind in KINDS:
            starts[kind] = count
            count += getattr(config, kind)
            if getattr(config, kind) and choose_objects("", kind, splits, config) is None:
                sizes = {s: list(splits.values()).count(s) for s in sorted(set(splits.values()))}
                least = getattr(config, f"{kind}_min")
                raise SceneConfigError(
                    f"scene: {kind} needs a split with at least {kind}_min = {least} objects, got "
                    f"{sizes}; add objects, lower {kind}_min, or set {kind}: 0"
                )

        def make(index: int) -> Item:
            kind = next(k for k in reversed(KINDS) if starts[k] <= index and getattr(config, k))
            return scene_item(f"{kind}-{index - starts[kind]:05d}", kind, splits, config)

        def position(scene_id: str) -> int | None:
            kind, _, number = scene_id.rpartition("-")
            known = kind in starts and number.isdecimal()
            return starts[kind] + int(number) if known else None

        return ItemTable(count, make, position)

    def run(
        self,
        items: Sequence[Item],
        inputs: Mapping[tuple[str, str], Any],
        config: SceneConfig,
        seeds: Mapping[str, int],
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for item in items:
            assets = [inputs["assets", oid] for oid in item.params["objects"]]
            try:
                scene = make_scene(item, assets, config, seeds[item.id])
            except PlacementError as error:
                outcomes.append(Outcome(id=item.id, code=error.code, message=str(error)))
            else:
                outcomes.append(Outcome(id=item.id, record=scene))
        return outcomes


def scene_item(scene_id: str, kind: str, splits: Mapping[str, str], config: SceneConfig) -> Item:
    """The item of one scene. `splits` maps object id to split, and has enough for a scene."""
    chosen = choose_objects(scene_id, kind, splits, config)
    if chosen is None:
        raise SceneConfigError(f"scene {scene_id}: no split has objects for a {kind} scene")
    split, objects = chosen
    return Item(
        id=scene_id,
        params={"kind": kind, "split": split, "objects": list(objects)},
        inputs=tuple(("assets", oid) for oid in objects),
        tags={"split": split},
    )


def make_scene(item: Item, assets: Sequence[ObjectAsset], config: SceneConfig, seed: int) -> Scene:
    """Sample and settle; fresh starts derive from `seed`. Raises the last PlacementError."""
    kind = str(item.params["kind"])
    more: dict[str, Any] = {}
    for attempt in range(config.attempts):
        rng = np.random.default_rng([seed, attempt])
        try:
            poses, seconds, more = _poses(kind, assets, config, rng)
            break
        except PlacementError as error:
            if attempt + 1 == config.attempts:
                raise PlacementError(
                    error.code, f"{error} (in the last of {config.attempts} attempts)"
                ) from error
    floats = kind == "floating"
    return Scene(
        scene_id=item.id,
        kind=kind,
        split=str(item.params["split"]),
        object_ids=tuple(asset.object_id for asset in assets),
        object_poses=poses,
        object_scales=np.array([asset.scale for asset in assets]),
        object_masses=np.array([asset.mass for asset in assets]),
        table_pose=ON_TABLE.copy(),
        table_size=np.zeros(2) if floats else np.array(config.table_size),
        settle_time=seconds,
        **more,
    )


def _poses(
    kind: str, assets: Sequence[ObjectAsset], config: SceneConfig, rng: np.random.Generator
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """(O, 7), simulated seconds, and the fields that only scenes of this kind have."""
    if kind == "floating":
        return np.stack([floating_pose(asset, config, rng) for asset in assets]), 0.0, {}
    if kind == "granular":
        found = fill(assets, config.grains, rng)
        return (
            found.poses,
            found.seconds,
            {
                "grain_positions": found.grains,
                "grain_radius": config.grains.radius,
                "bin_size": np.array(config.grains.bin_size),
                "buried_fraction": found.buried_fraction,
                "exposed_area": found.exposed_area,
            },
        )
    from stages.scene.backends.settle import settle

    if kind == "clutter":
        start = clutter_poses(assets, config, rng)
    else:
        start = np.stack([resting_pose(asset, config, rng) for asset in assets])
    return *settle(assets, start, ON_TABLE, config), {}
