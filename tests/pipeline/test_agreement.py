"""Agreement of two protocols: counts, kappa, margins, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pipeline.agreement import Confusion, lines, margins, pair_labels, report
from pipeline.errors import UserError
from schemas.records import LabelSet
from stages.label.config import LabelConfig, protocol_hash
from stages.label.errors import LabelConfigError

CONFIG = LabelConfig()


def labels(protocol: str, success: list[bool], hand: str = "h", name: str = "o") -> LabelSet:
    n = len(success)
    zero, count = np.zeros(n), np.zeros(n, np.int32)
    return LabelSet(
        hand=hand, object_id=name, protocol=protocol, protocol_hash="x",
        engine="maniskill 3" if protocol == "rollout" else "mujoco 4",
        grasp_index=np.arange(n) + 5, success=np.array(success, bool),
        outcome=np.array(["ok" if s else "slipped" for s in success]),
        direction_success=np.zeros((n, 6), bool), final_object_pose=np.zeros((n, 7)),
        translation=zero, rotation=zero, contacts_grasp=count, contacts_squeeze=count,
        contacts_end=count, hand_object_penetration=zero, self_penetration=zero,
        contact_number=count, contact_distance=zero, contact_consistency=zero, qp=zero,
        qp_dfc=zero, q1=zero, tdg=zero, dfc=zero, confidence=zero, seed=0,
    )  # fmt: skip


def test_kappa_is_cohens() -> None:
    """His own kind of table: 20 both, 5 and 10 apart, 15 neither: 0.7 agree, 0.5 by chance."""
    c = Confusion(both=20, reference_only=5, other_only=10, neither=15)
    assert c.total == 50
    assert c.agreement == pytest.approx(0.7)
    assert c.kappa == pytest.approx(0.4)
    assert Confusion(both=5, reference_only=0, other_only=0, neither=5).kappa == pytest.approx(1.0)
    assert np.isnan(Confusion(both=9, reference_only=0, other_only=0, neither=0).kappa)
    assert np.isnan(Confusion(both=0, reference_only=0, other_only=0, neither=0).agreement)


def test_rows_are_joined_by_identity_and_never_by_place() -> None:
    a = labels("tabletop", [True, True, False, False])
    b = labels("rollout", [True, False, False, True])
    order = np.array([2, 0, 3, 1])
    shuffled = replace(
        b, grasp_index=b.grasp_index[order], success=b.success[order], outcome=b.outcome[order]
    )
    for other in (b, shuffled):
        c = pair_labels([a, other], "tabletop", "rollout", CONFIG).confusion()
        assert (c.both, c.reference_only, c.other_only, c.neither) == (1, 1, 1, 1)
    fewer = replace(b, grasp_index=b.grasp_index + 2)  # two of them in common
    assert pair_labels([a, fewer], "tabletop", "rollout", CONFIG).confusion().total == 2


def test_margins_are_distances_to_the_thresholds() -> None:
    trans, angle = CONFIG.tabletop.lift_slip_thre, CONFIG.tabletop.angle_thre
    label = replace(
        labels("tabletop", [True, True, False, False]),
        translation=np.array([0.0, trans / 4, 2 * trans, np.nan]),
        rotation=np.array([0.0, angle / 2, 0.0, np.nan]),
    )
    assert margins(label, CONFIG)[:3] == pytest.approx([1.0, 0.5, -1.0])
    assert np.isnan(margins(label, CONFIG)[3])
    assert np.isnan(margins(labels("rollout", [True]), CONFIG)).all()


def test_the_report_counts_every_grasp_once_in_each_table() -> None:
    rng = np.random.default_rng(0)
    sets = []
    for hand in ("a", "b"):
        for name in ("x", "y", "z"):
            for protocol in ("fc", "rollout"):
                one = labels(protocol, (rng.random(20) < 0.5).tolist(), hand, name)
                slip = np.where(rng.random(20) < 0.1, np.nan, rng.uniform(0, 0.2, 20))
                sets.append(replace(one, translation=slip, rotation=slip))
    pairs = pair_labels(sets, "fc", "rollout", CONFIG)
    values = report(pairs, "fc", "rollout", ["mujoco 4", "maniskill 3"])
    assert values["all"]["grasps"] == 120
    for table in ("hands", "groups", "by_margin"):
        for key in ("grasps", "both", "reference_only", "other_only", "neither"):
            assert sum(row[key] for row in values[table]) == values["all"][key]
    assert sum(values["outcomes"].values()) == 120
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    text = "\n".join(lines(values))
    assert "only fc" in text
    assert "nothing to measure" in text


def test_what_was_not_labelled_is_said() -> None:
    a = labels("tabletop", [True])
    with pytest.raises(UserError, match=r"no labels under rollout.*protocols=\[tabletop,rollout\]"):
        pair_labels([a], "tabletop", "rollout", CONFIG)
    other = labels("rollout", [True], name="another")
    with pytest.raises(UserError, match="no grasp was labelled under both"):
        pair_labels([a, other], "tabletop", "rollout", CONFIG)


def test_the_hash_of_a_protocol_holds_its_own_physics_alone() -> None:
    rollout = protocol_hash(CONFIG, "rollout")
    heavier = replace(CONFIG, physics=replace(CONFIG.physics, object_mass=0.2))
    assert protocol_hash(heavier, "rollout") == rollout
    assert protocol_hash(heavier, "fc") != protocol_hash(CONFIG, "fc")
    other = replace(CONFIG, rollout=replace(CONFIG.rollout, friction=0.8))
    assert protocol_hash(other, "rollout") != rollout
    assert protocol_hash(other, "fc") == protocol_hash(CONFIG, "fc")
    faster = replace(CONFIG, sub_scenes=64)
    assert protocol_hash(faster, "rollout") == rollout
    with pytest.raises(LabelConfigError, match="unknown"):
        LabelConfig(protocols=("roll",))


def test_a_hand_that_only_mujoco_has_is_refused_when_planned() -> None:
    from stages.contract import Item
    from stages.label.stage import LabelStage

    grasp = Item(id="leap_right/o/000", inputs=(("assets", "o"),), tags={"hand_file": "leap_right"})
    stage = LabelStage()
    assert stage.plan(LabelConfig(protocols=("fc",)), {"grasp": [grasp]})
    with pytest.raises(LabelConfigError, match="only MuJoCo can score it"):
        stage.plan(LabelConfig(protocols=("fc", "rollout")), {"grasp": [grasp]})
