"""Whatever mesh format a URDF uses, the same shape arrives; what is missing is named."""

from pathlib import Path

import numpy as np
import pytest
import trimesh

from stages.assets.hands.errors import HandError, HandNotFoundError
from stages.envs.mujoco.urdf import prepare_urdf

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
    import mujoco

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
