"""Wires mesh files into ObjectAssets: one item per object, its split as a tag."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from schemas.records import ObjectAsset
from stages.assets.build import build_asset
from stages.assets.config import AssetsConfig
from stages.assets.sources import expand
from stages.assets.split import check_named, split_of
from stages.contract import Item, Outcome


class AssetsStage:
    """Loads, lints, repairs and decomposes every object, and finds how it rests."""

    name: ClassVar[str] = "assets"
    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ()
    record: ClassVar[type] = ObjectAsset

    def plan(self, config: AssetsConfig, upstream: Mapping[str, Sequence[Item]]) -> Sequence[Item]:
        """Objects sorted by id. The key holds the file's hash, never where the file lies."""
        sources = expand(config.objects, Path(config.asset_root), config.licence)
        check_named((source.object_id for source in sources), config)
        return [
            Item(
                id=source.object_id,
                params={"source": source.uri, "sha256": source.sha256(), "scale": config.scale}
                | ({"colour": True} if config.colour else {}),
                tags={"split": split_of(source.object_id, config)},
            )
            for source in sources
        ]

    def run(
        self,
        items: Sequence[Item],
        inputs: Mapping[tuple[str, str], Any],
        config: AssetsConfig,
        seeds: Mapping[str, int],
    ) -> list[Outcome]:
        """One ObjectAsset per item; seeds are not used, nothing here is random."""
        found = expand(config.objects, Path(config.asset_root), config.licence)
        sources = {source.object_id: source for source in found}
        outcomes: list[Outcome] = []
        for item in items:
            source = sources.get(item.id)
            if source is None:
                message = f"{item.params['source']}: gone since it was planned; restore it"
                outcomes.append(Outcome(id=item.id, code="missing_mesh", message=message))
            else:
                outcomes.append(build_asset(source, str(item.params["sha256"]), config))
        return outcomes
