"""Labels that DexGraspBench's own evaluator gave to its Shadow-hand grasps, and ours.

Under the protocol `dexgraspbench` all 200 verdicts are equal (benchmarks/bench_label.py runs them
all, on MuJoCo 4.0.0 against their 3.3.2); the suite runs every fourth. Penetrations are the same
quantity.
"""

from pathlib import Path

import numpy as np
import pytest

from schemas.records import ObjectAsset
from stages.envs.base import GraspResult
from stages.envs.config import FcConfig, MjEnvConfig
from stages.envs.mujoco.evaluator import Evaluator
from tests.dexgraspbench import ROOT, labels, read_reference, reference_asset, shadow_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (ROOT / "labels_fc.json").is_file(), reason=f"no reference labels at {ROOT}"
    ),
]


def evaluate(folder: Path, protocol: str, every: int) -> list[tuple[dict, GraspResult]]:
    """(their label, our result) of every so many grasps."""
    hand = str(shadow_file(folder))
    evaluator = Evaluator(MjEnvConfig(hand=hand, workers=0, fc=FcConfig(count_closing=True)))
    assets: dict[tuple[str, float], ObjectAsset] = {}
    out: list[tuple[dict, GraspResult]] = []
    for label in labels()[::every]:
        reference = read_reference(label)
        key = (reference.object_id, reference.scale)
        if key not in assets:
            assets[key] = reference_asset(*key)
        out.append((label, evaluator.evaluate(reference.row, assets[key], protocol)))
    return out


def test_verdicts_and_penetrations_are_theirs(tmp_path: Path) -> None:
    pairs = evaluate(tmp_path, "dexgraspbench", every=4)
    assert len(pairs) == 50
    # The reference itself changes on 3 of 400 between MuJoCo 3.3.2 and 4.0.0.
    assert sum(ours.success == theirs["succ_flag"] for theirs, ours in pairs) >= 49
    held = [(t, o) for t, o in pairs if o.success and t["succ_flag"]]
    moves = [abs(o.translation - t["delta_pos"]) for t, o in held]
    assert np.median(moves) < 0.003  # m; ours is the largest over the directions
    for theirs, ours in pairs:
        # metres; another contact algorithm (MuJoCo 3.3 against 4), the same geometry
        assert ours.hand_object_penetration == pytest.approx(theirs["ho_pene"], abs=1e-4)
        assert ours.self_penetration == pytest.approx(theirs["self_pene"], abs=1e-4)


def test_fc_agrees_on_most(tmp_path: Path) -> None:
    """Our own protocol has other ramps and settles in between, so not on all."""
    pairs = evaluate(tmp_path, "fc", every=9)
    assert np.mean([ours.success == theirs["succ_flag"] for theirs, ours in pairs]) >= 0.9
