"""The surface of a hand at a qpos, from the model that its labels were made with."""

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.pictures.points import HAND_COLOUR, Float, Paint, join, paint_mesh
from stages.grasp.surface import face_areas

Mesh = tuple[Float, NDArray[np.int64]]
"""Vertices (V, 3) m and faces (F, 3)."""


class HandSurface:
    """Draws one hand. Raises HandNotFoundError when no such hand is known here."""

    def __init__(self, name: str, joint_names: tuple[str, ...], digest: str) -> None:
        from stages.assets.hands.load import hand_digest, load_hand
        from stages.envs.mujoco.hand_index import hand_index
        from stages.envs.mujoco.hand_model import hand_mjspec

        # Compiled bindings without types: an `import` would be an error to the type checker.
        self.mujoco: Any = importlib.import_module("mujoco")
        spec = load_hand(name)
        self.same = hand_digest(spec) == digest
        self.model = hand_mjspec(spec).compile()
        self.data = self.mujoco.MjData(self.model)
        self.index = hand_index(spec, self.model)
        self.order = [joint_names.index(joint) for joint in spec.joint_names]

    def paint(
        self,
        qpos: Float,
        count: int = 60000,
        colours: Mapping[int, NDArray[np.uint8]] | None = None,
    ) -> Paint:
        """`qpos` (7 + J,) in any frame -> points of the hand in that frame.

        With `colours` only the bodies (by id) that it names are drawn, each in its colour.
        """
        self._place(qpos)
        geoms = [int(geom) for geom in self.index.geoms]
        if colours is not None:
            geoms = [geom for geom in geoms if self._body(geom) in colours]
        meshes = [self._geom(geom) for geom in geoms]
        areas = np.array([face_areas(v, f).sum() for v, f in meshes])
        shares = np.maximum(1, (count * areas / areas.sum()).astype(int))
        return join(
            [
                paint_mesh(v, f, colours[self._body(geom)] if colours else HAND_COLOUR, int(n))
                for geom, (v, f), n in zip(geoms, meshes, shares, strict=True)
            ]
        )

    def meshes(self, qpos: Float) -> list[Mesh]:
        """The colliding geoms at `qpos` (7 + J,), in the frame of the qpos."""
        self._place(qpos)
        return [self._geom(int(geom)) for geom in self.index.geoms]

    def middles(self, qpos: Float) -> Float:
        """(geoms, 3) the middle of every colliding geom at `qpos`, in the frame of the qpos."""
        self._place(qpos)
        return np.array(self.data.geom_xpos[[int(geom) for geom in self.index.geoms]])

    def _place(self, qpos: Float) -> None:
        from stages.envs.mujoco.hand_index import set_hand_qpos

        ordered = np.concatenate([qpos[:7], qpos[7:][self.order]])
        set_hand_qpos(self.data, self.index, ordered)
        self.mujoco.mj_forward(self.model, self.data)

    def _body(self, geom: int) -> int:
        return int(self.model.geom_bodyid[geom])

    def _geom(self, geom: int) -> Mesh:
        """Vertices (V, 3), in the frame of the qpos, and faces (F, 3) of one colliding geom."""
        import trimesh

        m, kinds = self.model, self.mujoco.mjtGeom
        kind, size = m.geom_type[geom], m.geom_size[geom]
        if kind == kinds.mjGEOM_MESH:
            mesh = m.geom_dataid[geom]
            v, f = m.mesh_vertadr[mesh], m.mesh_faceadr[mesh]
            vertices = m.mesh_vert[v : v + m.mesh_vertnum[mesh]]
            faces = m.mesh_face[f : f + m.mesh_facenum[mesh]]
        else:
            if kind == kinds.mjGEOM_BOX:
                shape = trimesh.creation.box(extents=2 * size)
            elif kind == kinds.mjGEOM_CAPSULE:
                shape = trimesh.creation.capsule(radius=size[0], height=2 * size[1])
                shape.apply_translation([0, 0, -shape.bounds.mean(axis=0)[2]])
            elif kind == kinds.mjGEOM_CYLINDER:
                shape = trimesh.creation.cylinder(radius=size[0], height=2 * size[1])
            else:  # a sphere, or an ellipsoid with three radii
                shape = trimesh.creation.icosphere(radius=1.0)
                radii = size if kind == kinds.mjGEOM_ELLIPSOID else size[[0, 0, 0]]
                shape.apply_scale(radii)
            vertices, faces = shape.vertices, shape.faces
        R = self.data.geom_xmat[geom].reshape(3, 3)
        placed = np.asarray(vertices, np.float64) @ R.T + self.data.geom_xpos[geom]
        return placed, np.asarray(faces, np.int64)
