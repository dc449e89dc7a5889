"""Published formats: what is written comes back, what is broken is named, frames are theirs."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from schemas.frames import invert, pose_to_matrix
from stages.assets.hands.load import load_hand
from stages.assets.hands.spec import HandSpec
from stages.grasp.errors import GraspFormatError
from stages.grasp.formats import FORMATS, ImportedGrasps, read_grasps, write_grasps
from stages.grasp.formats.dexgraspnet import euler_to_matrix, matrix_to_euler
from stages.grasp.formats.pickled import pickled_bytes, read_pickled
from stages.grasp.formats.record import root_matrices, roots_in_object
from tests.dexgraspbench import ROOT, labels, read_reference
from tests.reference import REFERENCE
from tests.stages.grasp.formats_data import (
    QPOS,
    assert_same,
    assert_same_poses,
    random_set,
    shadow,
)

PANDA = load_hand("panda_gripper")
# Closes along its x, approaches along its -y: nothing like the Panda.
OTHER_JAW = replace(PANDA, name="other", T_root_grasp=(0.01, -0.15, 0.02, 0.5, 0.5, 0.5, 0.5))
JAWS, HANDS = ("acronym", "graspgen"), ("dexgraspbench", "dexgraspnet")
MUG = REFERENCE / "acronym" / "Mug_10f6e09036350e92b3f21f1137c3c347_0.0002682457830986903.h5"
needs_mug = pytest.mark.skipif(not MUG.is_file(), reason=f"no ACRONYM mug at {MUG}")


@pytest.fixture
def hand_of(tmp_path: Path) -> Callable[[str], HandSpec]:
    return lambda name: PANDA if name in JAWS else shadow(tmp_path)


def round_trip(
    folder: Path, name: str, sets: list[ImportedGrasps], hand: HandSpec
) -> list[ImportedGrasps]:
    path = folder / f"thing{FORMATS[name].suffix}"
    write_grasps(path, name, sets, hand)
    assert [p.name for p in folder.iterdir() if "tmp-" in p.name] == []
    return read_grasps(path, name, hand)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("hand", [PANDA, OTHER_JAW], ids=lambda hand: hand.name)
@pytest.mark.parametrize("name", JAWS)
def test_jaw_grasps_come_back(name: str, hand: HandSpec, seed: int, tmp_path: Path) -> None:
    made = random_set(hand, seed, placed=False)
    [back] = round_trip(tmp_path, name, [made], hand)
    assert_same(made, back)


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("seed", range(5))
def test_dexgraspbench_grasps_come_back(seed: int, count: int, tmp_path: Path) -> None:
    hand = shadow(tmp_path)
    made = random_set(hand, seed, count)
    [back] = round_trip(tmp_path, "dexgraspbench", [made], hand)
    assert_same(replace(made, grasps=replace(made.grasps, object_id="thing.obj")), back)


@pytest.mark.parametrize("seed", range(5))
def test_dexgraspnet_grasps_come_back(seed: int, tmp_path: Path) -> None:
    hand = shadow(tmp_path)
    sets = [
        replace(random_set(hand, 10 * seed + i, 4, scale, placed=False), success=None)
        for i, scale in enumerate((0.06, 0.15))
    ]
    sets[1] = replace(sets[1], grasps=replace(sets[1].grasps, grasp_index=np.arange(4) + 4))
    first = round_trip(tmp_path, "dexgraspnet", sets, hand)
    assert [one.scale for one in first] == [0.06, 0.15]
    for made, back in zip(sets, first, strict=True):
        assert_same_poses(made.grasps.grasp_qpos, back.grasps.grasp_qpos)
        np.testing.assert_array_equal(made.grasps.grasp_index, back.grasps.grasp_index)
    second = round_trip(tmp_path, "dexgraspnet", first, hand)
    for a, b in zip(first, second, strict=True):
        assert_same(a, b)


@pytest.mark.parametrize("name", FORMATS)
def test_grasps_stay_where_they_are_on_the_object(
    name: str, hand_of: Callable[[str], HandSpec], tmp_path: Path
) -> None:
    hand = hand_of(name)
    made = replace(random_set(hand, 3), success=None)
    [back] = round_trip(tmp_path, name, [made], hand)
    theirs, ours = (roots_in_object(one.grasps, "grasp_qpos") for one in (made, back))
    np.testing.assert_allclose(theirs, ours, atol=1e-6)


@pytest.mark.parametrize("name", HANDS)
def test_joints_go_by_name(name: str, tmp_path: Path) -> None:
    hand = shadow(tmp_path)
    made = replace(random_set(hand, 0), success=None)
    path = tmp_path / "thing.npy"
    write_grasps(path, name, [made], hand)
    turned = replace(hand, joint_names=hand.joint_names[::-1])
    [back] = read_grasps(path, name, turned)
    np.testing.assert_allclose(
        back.grasps.grasp_qpos[:, :6:-1], made.grasps.grasp_qpos[:, 7:], atol=1e-12
    )


@pytest.mark.parametrize("name", JAWS)
def test_another_jaw_meets_the_same_grasp_centre(name: str, tmp_path: Path) -> None:
    made = random_set(PANDA, 1, placed=False)
    path = tmp_path / f"thing{FORMATS[name].suffix}"
    write_grasps(path, name, [made], PANDA)
    [other] = read_grasps(path, name, OTHER_JAW)
    centres = [
        root_matrices(one.grasps.grasp_qpos) @ pose_to_matrix(hand.T_root_grasp)
        for one, hand in ((made, PANDA), (other, OTHER_JAW))
    ]
    np.testing.assert_allclose(centres[0], centres[1], atol=1e-9)


def test_graspgen_loader_sees_its_own_convention(tmp_path: Path) -> None:
    """GraspGen multiplies a file's transforms with Rz(-90 degrees) and then closes along x."""
    made = random_set(PANDA, 2, placed=False)
    write_grasps(tmp_path / "a.json", "graspgen", [made], PANDA)
    listed = json.loads((tmp_path / "a.json").read_text())["grasps"]["transforms"]
    loaded = np.array(listed) @ pose_to_matrix([0, 0, 0, 0.5**0.5, 0, 0, -(0.5**0.5)])
    T_object_pandahand = root_matrices(made.grasps.grasp_qpos)
    np.testing.assert_allclose(loaded[:, :3, 2], T_object_pandahand[:, :3, 2], atol=1e-9)
    along = np.einsum("gi,gi->g", loaded[:, :3, 0], T_object_pandahand[:, :3, 1])
    np.testing.assert_allclose(np.abs(along), 1, atol=1e-9)


def test_euler_angles_at_and_near_the_pole() -> None:
    rng = np.random.default_rng(0)
    angles = rng.uniform(-np.pi, np.pi, (200, 3))
    angles[:20, 1], angles[20:40, 1] = np.pi / 2, -np.pi / 2 + 1e-7
    R = euler_to_matrix(angles)
    np.testing.assert_allclose(euler_to_matrix(matrix_to_euler(R)), R, atol=1e-8)
    np.testing.assert_allclose(R[50] @ R[50].T, np.eye(3), atol=1e-12)


def test_reference_dexgraspbench_is_read_as_its_labels_were_checked(tmp_path: Path) -> None:
    if not (ROOT / "labels_fc.json").is_file():
        pytest.skip(f"no reference grasps at {ROOT}")
    hand = shadow(tmp_path)
    for label in labels():
        reference = read_reference(label)
        [one] = read_grasps(ROOT / "grasps" / label["grasp"], "dexgraspbench", hand)
        assert (one.grasps.object_id, one.scale) == (reference.object_id, reference.scale)
        for name in QPOS:
            assert_same_poses(getattr(one.grasps, name), getattr(reference.row, name)[None])
        assert_same(one, round_trip(tmp_path, "dexgraspbench", [one], hand)[0])


@needs_mug
@pytest.mark.parametrize("name", JAWS)
def test_reference_mug_comes_back(name: str, tmp_path: Path) -> None:
    [mug] = read_grasps(MUG, "acronym", PANDA)
    assert len(mug.grasps) == 2000
    assert mug.success is not None
    assert mug.success.sum() == 1290
    [back] = round_trip(tmp_path, name, [mug], PANDA)
    assert_same(mug, back)


@needs_mug
def test_the_fingers_close_on_the_mug() -> None:
    """Where the pads of a successful grasp first meet the mug, its surface faces them.

    Turned by 90 degrees about the approach, as if ACRONYM's frame were panda_hand, it does not.
    """
    import trimesh

    [mug] = read_grasps(MUG, "acronym", PANDA)
    mesh = trimesh.load(MUG.parent / Path(mug.object_file).name, force="mesh")
    mesh.apply_scale(mug.scale)
    assert mug.success is not None
    T_object_root = root_matrices(mug.select(mug.success).grasps.grasp_qpos)

    def share_faced(turn: float) -> float:
        turned = pose_to_matrix([0, 0, 0, np.cos(turn / 2), 0, 0, np.sin(turn / 2)])
        T = T_object_root @ turned @ pose_to_matrix(PANDA.T_root_grasp)
        faced = np.ones(len(T), bool)
        for closing in (T[:, :3, 1], -T[:, :3, 1]):
            starts = T[:, :3, 3] - PANDA.opening_width / 2 * closing
            points, rays, faces = mesh.ray.intersects_location(starts, closing, multiple_hits=False)
            between = np.linalg.norm(points - starts[rays], axis=1) < PANDA.opening_width
            cosine = -np.einsum("ni,ni->n", mesh.face_normals[faces], closing[rays])
            met = np.zeros(len(T), bool)
            met[rays] = between & (cosine > np.cos(np.deg2rad(30)))
            faced &= met
        return float(faced.mean())

    assert share_faced(0) > 0.75  # measured 0.82
    assert share_faced(np.pi / 2) < 0.2  # measured 0.12
    assert share_faced(np.pi) == pytest.approx(share_faced(0), abs=0.01)  # a jaw is symmetric


def break_h5(change: Callable[[h5py.File], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        with h5py.File(path, "r+") as file:
            change(file)

    return apply


def break_json(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        values = json.loads(path.read_text())
        change(values)
        path.write_text(json.dumps(values))

    return apply


def break_npy(change: Callable[[Any], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        values = read_pickled(path)
        change(values)
        path.write_bytes(pickled_bytes(values))

    return apply


def put(key: str, index: Any, value: Any) -> Callable[[Any], None]:
    """Change one number of one array."""

    def change(values: Any) -> None:
        values[key][index] = value

    return change


def shear(values: dict[str, Any]) -> None:
    values["grasps"]["transforms"][1][0][0] += 0.01


TRANSFORMS = "grasps/transforms"
SUCCESS = "grasps/qualities/flex/object_in_gripper"
BROKEN: list[tuple[str, Callable[[Path], None], str]] = [
    ("acronym", break_h5(lambda f: f.pop(TRANSFORMS)), "expected the dataset 'grasps/transforms'"),
    ("acronym", break_h5(lambda f: f.pop("object/scale")), "the dataset 'object/scale'"),
    ("acronym", break_h5(put(TRANSFORMS, (1, 0, 0), np.nan)), r"NaN .* at \[1, 0, 0\]"),
    ("acronym", break_h5(put(TRANSFORMS, (1, 0, 0), 2.0)), "row 1: expected a rigid transform"),
    ("acronym", break_h5(put(SUCCESS, 0, 3)), "expected 0 or 1"),
    ("acronym", break_h5(put("object/scale", (), -1.0)), "one positive number"),
    ("acronym", lambda p: p.write_bytes(b"text"), "expected an HDF5 file"),
    ("graspgen", break_json(lambda v: v.pop("grasps")), "expected the key 'grasps'"),
    ("graspgen", break_json(lambda v: v["object"].pop("scale")), "object: expected the key"),
    ("graspgen", break_json(lambda v: v["grasps"]["object_in_gripper"].pop()), r"shape \(7,\)"),
    ("graspgen", break_json(lambda v: v["grasps"].update(transforms=[])), "expected shape"),
    ("graspgen", break_json(lambda v: v["grasps"]["transforms"][0].pop()), "array of numbers"),
    ("graspgen", break_json(shear), "the rotation is not orthonormal"),
    ("graspgen", break_json(lambda v: v.update(grasps=[1])), "expected a mapping"),
    ("graspgen", lambda p: p.write_text("{"), "expected JSON"),
    ("dexgraspbench", break_npy(lambda v: v.pop("obj_pose")), "the key 'obj_pose'"),
    ("dexgraspbench", break_npy(put("grasp_qpos", (1, 3), 2.0)), "row 1: expected a unit quat"),
    ("dexgraspbench", break_npy(put("obj_pose", 0, np.inf)), "obj_pose: expected finite"),
    (
        "dexgraspbench",
        break_npy(lambda v: v.update(grasp_qpos=v["grasp_qpos"][:, :-1])),
        r"grasp_qpos: expected shape \('N > 0', 29\), got \(7, 28\)",
    ),
    (
        "dexgraspbench",
        break_npy(lambda v: v.update(squeeze_qpos=v["squeeze_qpos"][1:])),
        "one number of rows",
    ),
    ("dexgraspnet", break_npy(lambda v: v[2]["qpos"].pop("robot0:THJ0")), "the key 'robot0:THJ0'"),
    ("dexgraspnet", break_npy(lambda v: v[2]["qpos"].update(WRJTx=np.nan)), "qpos of grasp 2"),
    ("dexgraspnet", break_npy(lambda v: v[0].pop("scale")), "the key 'scale'"),
    ("dexgraspnet", break_npy(list.clear), "a list of at least one grasp"),
]


@pytest.mark.parametrize(("name", "spoil", "message"), BROKEN)
def test_broken_files_say_what_is_wrong(
    name: str,
    spoil: Callable[[Path], None],
    message: str,
    hand_of: Callable[[str], HandSpec],
    tmp_path: Path,
) -> None:
    hand = hand_of(name)
    made = random_set(hand, 0)
    made = replace(made, success=None if name == "dexgraspnet" else made.success)
    path = tmp_path / f"thing{FORMATS[name].suffix}"
    write_grasps(path, name, [made], hand)
    spoil(path)
    with pytest.raises(GraspFormatError, match=message) as caught:
        read_grasps(path, name, hand)
    assert str(caught.value).startswith(f"{path}: ")
    assert "; " in str(caught.value)  # what to do


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    hand = shadow(tmp_path)
    jaw, fingers = random_set(PANDA, 0), random_set(hand, 0)
    with pytest.raises(GraspFormatError, match="expected parallel_jaw, got dexterous"):
        write_grasps(tmp_path / "a.h5", "acronym", [fingers], hand)
    with pytest.raises(GraspFormatError, match="expected the Shadow's"):
        write_grasps(tmp_path / "a.npy", "dexgraspnet", [jaw], PANDA)
    with pytest.raises(GraspFormatError, match="joints of hand 'panda_gripper'"):
        write_grasps(tmp_path / "a.npy", "dexgraspbench", [jaw], PANDA)
    with pytest.raises(GraspFormatError, match="pass the hand"):
        write_grasps(tmp_path / "a.h5", "acronym", [fingers], PANDA)
    with pytest.raises(GraspFormatError, match=r"successes only.*select"):
        write_grasps(tmp_path / "a.npy", "dexgraspnet", [fingers], hand)
    with pytest.raises(GraspFormatError, match="one file for each"):
        write_grasps(tmp_path / "a.h5", "acronym", [jaw, jaw], PANDA)
    with pytest.raises(GraspFormatError, match=r"expected \.json, got '\.h5'"):
        write_grasps(tmp_path / "a.h5", "graspgen", [jaw], PANDA)
    with pytest.raises(GraspFormatError, match=r"one of .*acronym.*, got 'grasp'"):
        read_grasps(tmp_path / "a.h5", "grasp", PANDA)
    with pytest.raises(ValueError, match="one a grasp"):
        replace(jaw, success=np.ones(3, bool))
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".xml"]


def test_the_jaw_of_a_format_is_the_panda() -> None:
    """Its grasp centre in the hand file is the one that the formats' poses are read with."""
    from stages.grasp.formats.jaw import T_PANDAHAND_GRASP

    np.testing.assert_array_equal(
        invert(T_PANDAHAND_GRASP) @ pose_to_matrix(PANDA.T_root_grasp), np.eye(4)
    )


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
    made = random_set(PANDA, 0, placed=False)
    monkeypatch.chdir(tmp_path)
    write_grasps("Mug.h5", "acronym", [made], PANDA)
    exec(page.split("```python\n")[1].split("```")[0], {})
    [back] = read_grasps("mug.json", "graspgen", PANDA)
    assert made.success is not None
    assert len(back.grasps) == made.success.sum()
    for name in FORMATS:
        assert f"`{name}`" in page
