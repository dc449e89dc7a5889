"""Meshes whose solid is known, and a cache of their convex pieces shared by the whole run."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trimesh

from schemas.records import ObjectAsset
from stages.assets.config import AssetsConfig
from stages.assets.stage import AssetsStage
from stages.contract import Item, Outcome


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Pieces are made once per test run, and never found in the user's own cache."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRASP_CLOUDS_CACHE", str(folder))
        yield folder


def run_all(config: AssetsConfig) -> tuple[list[Item], list[Outcome]]:
    stage = AssetsStage()
    items = list(stage.plan(config, {}))
    return items, stage.run(items, {}, config, {item.id: 0 for item in items})


@pytest.fixture(scope="session")
def run_stage() -> Callable[[AssetsConfig], tuple[list[Item], list[Outcome]]]:
    return run_all


@pytest.fixture(scope="session")
def ycb_assets(cache: Path) -> dict[str, ObjectAsset]:
    """Three scans: near its hull, curved, and one that is open as shipped."""
    names = ("003_cracker_box", "011_banana", "006_mustard_bottle")
    _, outcomes = run_all(AssetsConfig(objects=tuple(f"ycb://{name}" for name in names)))
    for outcome in outcomes:
        assert outcome.code == "ok", outcome.message
    return {outcome.id: outcome.record for outcome in outcomes}


@pytest.fixture
def box_mesh() -> trimesh.Trimesh:
    """100 x 60 x 40 mm."""
    return trimesh.creation.box((0.1, 0.06, 0.04))
