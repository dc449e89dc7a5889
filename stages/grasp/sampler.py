"""Proposals -> checked candidates: free pregrasp, closed until contact, squeezed, distinct."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from schemas.frames import invert, matrix_to_pose, pose_to_matrix, rotation_angle
from schemas.records import ObjectAsset
from stages.assets.hands.spec import PARALLEL_JAW, HandSpec
from stages.grasp.config import GraspConfig
from stages.grasp.proposals import antipodal_proposals, approach_proposals
from stages.grasp.surface import anchor_points

Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Candidate:
    """(7 + J,) each, world: hand root xyz + wxyz, then joints."""

    pregrasp: Float
    grasp: Float
    squeeze: Float
    placed: Float  # (7,) world, of the body that T_root_grasp counts from: the root or lift_body


class Sampler:
    """One hand on one object; keeps the compiled model and the anchors between chunks."""

    def __init__(self, hand: HandSpec, asset: ObjectAsset, config: GraspConfig) -> None:
        from stages.grasp.backends.closing import HandCloser
        from stages.grasp.backends.rays import MeshRays

        self.hand, self.asset, self.config = hand, asset, config
        self._closer = HandCloser(hand, asset)
        self._rays = MeshRays(asset)
        self._points, self._normals = anchor_points(asset, config.anchors)
        self._T_grasp_root = invert(pose_to_matrix(hand.T_root_grasp))

    def chunk(
        self, number: int, object_pose: Float, rng: np.random.Generator
    ) -> tuple[list[Candidate], Counter[str]]:
        """Up to `config.chunk` candidates and the rejected proposals by reason."""
        self._closer.place_object(object_pose)
        T_world_object = pose_to_matrix(object_pose)
        found: list[Candidate] = []
        rejected: Counter[str] = Counter()
        first = number * self.config.chunk
        # Own anchors first; where none works, anywhere else on the object.
        own = [(first + i) % len(self._points) for i in range(self.config.chunk)]
        spare = rng.permutation(len(self._points)).tolist()
        budget = self.config.chunk * self.config.tries_per_grasp
        down = -T_world_object[2, :3]  # world -z, object frame
        tries_each = self.config.tries_per_anchor
        for anchor in [*own, *spare]:
            if len(found) == self.config.chunk or budget <= 0:
                break
            for T_object_grasp in self._proposals(anchor, down, rng, min(tries_each, budget)):
                budget -= 1
                candidate = self._candidate(T_world_object, T_object_grasp, rng, rejected)
                if candidate is None:
                    continue
                if any(self._same(candidate, other) for other in found):
                    rejected["duplicate"] += 1
                    continue
                found.append(candidate)
                break
        return found, rejected

    def _proposals(
        self, anchor: int, down: Float, rng: np.random.Generator, count: int
    ) -> Iterator[Float]:
        point, normal = self._points[anchor], self._normals[anchor]
        if self.hand.kind == PARALLEL_JAW:
            opening, first_hit = self.hand.opening_width, self._rays.first_hit
            source = antipodal_proposals(point, normal, first_hit, opening, down, self.config, rng)
        else:
            source = approach_proposals(point, normal, down, self.config, rng)
        return islice(source, count)

    def _candidate(
        self,
        T_world_object: Float,
        T_object_grasp: Float,
        rng: np.random.Generator,
        rejected: Counter[str],
    ) -> Candidate | None:
        if np.isnan(T_object_grasp).any():
            rejected["not antipodal"] += 1
            return None
        config, closer = self.config, self._closer
        T_world_grasp = T_world_object @ T_object_grasp
        pregrasp = np.concatenate([self.hand.base_pose, self._pregrasp_joints(rng)])
        dexterous = self.hand.kind != PARALLEL_JAW
        retract = 0.0
        while True:
            placed = matrix_to_pose(T_world_grasp @ self._T_grasp_root)
            if self.hand.mocap:
                pregrasp[:7] = placed
            elif (reached := closer.reach(pregrasp, placed)) is not None:
                pregrasp = reached
            else:
                rejected["out of reach"] += 1
                return None
            if closer.touch(pregrasp).depth == 0.0:
                break
            retract += config.retract_step
            # A jaw that steps back leaves the antipodal line; only a hand may.
            if not dexterous or retract > config.retract_max:
                rejected["pregrasp in the object"] += 1
                return None
            T_world_grasp = T_world_grasp.copy()
            T_world_grasp[:3, 3] -= config.retract_step * T_world_grasp[:3, 2]
        if closer.lowest(pregrasp) < config.table_clearance:
            rejected["hand below the table"] += 1
            return None
        grasp, touch = closer.close(pregrasp, config.closing_steps)
        if len(touch.fingers) < 2:
            rejected["fewer than two fingers touch"] += 1
            return None
        if (touch.normals @ touch.normals.T).min() > config.opposition:
            rejected["contacts do not oppose"] += 1
            return None
        if touch.depth > config.max_penetration:
            rejected["too deep at contact"] += 1
            return None
        if closer.lowest(grasp) < config.table_clearance:
            rejected["hand below the table"] += 1
            return None
        squeeze = grasp.copy()
        squeeze[7:] = np.clip(grasp[7:] + self.hand.squeeze_delta, *closer.joint_range.T)
        return Candidate(pregrasp=pregrasp, grasp=grasp, squeeze=squeeze, placed=placed)

    def _pregrasp_joints(self, rng: np.random.Generator) -> Float:
        """Between fully open and the pre-shape; of a rig, with the arm where the spec has it."""
        pre, open_ = np.array(self.hand.pregrasp_qpos), np.array(self.hand.open_qpos)
        return np.clip(pre + rng.uniform(0, 1) * (open_ - pre), *self._closer.joint_range.T)

    def _same(self, a: Candidate, b: Candidate) -> bool:
        near = np.linalg.norm(a.placed[:3] - b.placed[:3]) < self.config.dedup_distance
        return bool(near) and (rotation_angle(a.placed[3:], b.placed[3:]) < self.config.dedup_angle)
