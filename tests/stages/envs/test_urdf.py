"""Whatever mesh format a URDF uses, the same shape arrives; what is missing is named."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import trimesh

from stages.assets.hands.errors import HandError, HandNotFoundError
from stages.assets.hands.models import resolve_model
from stages.envs.mujoco.urdf import SMALL_MASS, prepare_urdf

URDF = """<robot name="r">
  <link name="base"><inertial><mass value="0"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0"
    izz="0"/></inertial></link>
  <joint name="virtual" type="prismatic"><parent link="base"/><child link="palm"/>
    <axis xyz="1 0 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <link name="palm">
    <inertial><mass value="0.5"/><inertia ixx="1e-3" ixy="0" ixz="0" iyy="1e-3" iyz="0"
      izz="1e-3"/></inertial>
    <visual><geometry><mesh filename="not/there.glb"/></geometry></visual>
    <collision><geometry><mesh filename="{mesh}"/></geometry></collision>
  </link>
</robot>"""


@pytest.mark.parametrize("suffix", ["obj", "stl", "stl_ascii", "ply", "glb", "dae"])
def test_collision_meshes_of_any_format_keep_their_shape(suffix: str, tmp_path: Path) -> None:
    if suffix == "dae":
        pytest.importorskip("collada", reason="trimesh writes and reads dae through pycollada")
    box = trimesh.creation.box((0.02, 0.04, 0.08))
    box.apply_translation([0.01, 0.0, 0.03])
    name = f"palm.{suffix.partition('_')[0]}"
    (tmp_path / "meshes").mkdir()
    content = box.export(file_type=suffix)
    data = content.encode() if isinstance(content, str) else content
    (tmp_path / "meshes" / name).write_bytes(data)
    path = tmp_path / "hand.urdf"
    path.write_text(URDF.format(mesh=f"package://{tmp_path.name}/meshes/{name}"))
    urdf = prepare_urdf(path, "palm")
    model = mujoco.MjSpec.from_string(urdf.xml, assets=urdf.assets).compile()
    assert model.nq == 7  # the virtual joint is gone, the root floats
    assert model.body("palm").mass[0] == pytest.approx(0.5)
    data_ = mujoco.MjData(model)
    mujoco.mj_forward(model, data_)
    R = data_.geom_xmat[0].reshape(3, 3)
    corners = model.mesh_vert @ R.T + data_.geom_xpos[0]
    np.testing.assert_allclose(corners.min(axis=0), [0.0, -0.02, -0.01], atol=1e-6)
    np.testing.assert_allclose(corners.max(axis=0), [0.02, 0.02, 0.07], atol=1e-6)


def test_missing_collision_mesh_is_named(tmp_path: Path) -> None:
    path = tmp_path / "hand.urdf"
    path.write_text(URDF.format(mesh="gone.stl"))
    with pytest.raises(HandNotFoundError, match=r"gone\.stl"):
        prepare_urdf(path, "palm")


def test_unknown_root_lists_the_links(tmp_path: Path) -> None:
    path = tmp_path / "hand.urdf"
    path.write_text(URDF.format(mesh="gone.stl"))
    with pytest.raises(HandError, match="base, palm"):
        prepare_urdf(path, "hand")


def compiled(path: Path, root: str) -> mujoco.MjModel:
    urdf = prepare_urdf(path, root)
    return mujoco.MjSpec.from_string(urdf.xml, assets=urdf.assets).compile()


BODY = """<inertial><mass value="0.1"/><inertia ixx="1e-4" ixy="0" ixz="0" iyy="1e-4" iyz="0"
  izz="1e-4"/></inertial><collision><geometry><sphere radius="0.01"/></geometry></collision>"""


def hinge(name: str, parent: str, child: str, more: str = "") -> str:
    return (
        f'<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0 0 0.05"/><axis xyz="1 0 0"/>'
        f'<limit lower="-1" upper="2" effort="1" velocity="1"/>{more}</joint>'
    )


def test_links_that_move_without_a_mass_get_a_small_one(tmp_path: Path) -> None:
    """Between the axes of a universal joint; not one whose fixed child is heavy."""
    path = tmp_path / "hand.urdf"
    path.write_text(
        f'<robot name="r"><link name="palm">{BODY}</link><link name="cross"/>'
        f'<link name="finger">{BODY}</link><link name="frame"/><link name="pad">{BODY}</link>'
        + hinge("u1", "palm", "cross")
        + hinge("u2", "cross", "finger")
        + hinge("u3", "palm", "frame")
        + '<joint name="glue" type="fixed"><parent link="frame"/><child link="pad"/></joint>'
        + "</robot>"
    )
    model = compiled(path, "palm")
    assert model.body("cross").mass[0] == pytest.approx(SMALL_MASS)
    assert model.body("frame").mass[0] == 0.0
    assert model.body_mass.sum() == pytest.approx(0.3 + SMALL_MASS)


def test_mimic_is_kept_but_for_one_whose_master_is_above_the_root(tmp_path: Path) -> None:
    path = tmp_path / "hand.urdf"
    path.write_text(
        '<robot name="r"><link name="arm"/>'
        + "".join(f'<link name="{n}">{BODY}</link>' for n in ("palm", "a", "b", "c"))
        + hinge("wrist", "arm", "palm")
        + hinge("one", "palm", "a")
        + hinge("two", "a", "b", '<mimic joint="one" multiplier="0.5" offset="0.1"/>')
        + hinge("three", "palm", "c", '<mimic joint="wrist"/>')
        + "</robot>"
    )
    model = compiled(path, "palm")
    assert model.neq == 1
    assert model.eq_data[0, :2].tolist() == pytest.approx([0.1, 0.5])
    assert model.joint(int(model.eq_obj1id[0])).name == "two"


def test_an_obj_in_several_objects_arrives_whole(tmp_path: Path) -> None:
    boxes = [trimesh.creation.box((0.02, 0.02, 0.02)) for _ in range(2)]
    boxes[1].apply_translation([0.1, 0, 0])
    text, first = "", 1
    for i, box in enumerate(boxes):
        text += f"o part{i}\n" + "".join(f"v {x} {y} {z}\n" for x, y, z in box.vertices)
        text += "".join(f"f {a} {b} {c}\n" for a, b, c in box.faces + first)
        first += len(box.vertices)
    (tmp_path / "parts.obj").write_text(text)
    path = tmp_path / "hand.urdf"
    path.write_text(URDF.format(mesh="parts.obj"))
    assert compiled(path, "palm").mesh_facenum[0] == 2 * 12


def test_a_glb_of_the_wheel_serves_as_a_collision_mesh(tmp_path: Path) -> None:
    """The Ability Hand's, which its *_glb.urdf names for drawing."""
    source = resolve_model("mani_skill://robots/ability_hand/ability_hand_right_glb.urdf")
    meshes = source.parent / "meshes"
    (tmp_path / "meshes").symlink_to(meshes)
    text = source.read_text()
    assert "meshes/visual/thumb-F2.glb" in text
    path = tmp_path / "hand.urdf"
    path.write_text(text.replace("meshes/collision/thumb-F2_C.obj", "meshes/visual/thumb-F2.glb"))
    model = compiled(path, "base")
    thumb = [g for g in range(model.ngeom) if model.geom_bodyid[g] == model.body("thumb_L2").id]
    mesh = model.geom_dataid[thumb[0]]
    first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    size = np.ptp(model.mesh_vert[first : first + count], axis=0)
    plain = trimesh.load(meshes / "collision" / "thumb-F2_C.obj", force="mesh")
    assert np.linalg.norm(size) == pytest.approx(np.linalg.norm(plain.extents), rel=0.1)
