"""How much of a grasp's contact region a cloud shows.

The contact region of a grasp is the surface of the object within `contact_radius` of its contacts
at the grasp pose. A place of it counts as seen when a point of the object's part of the cloud lies
within `point_distance`: what is measured is the stored cloud, with its occlusion, crop and
sampling. Walls thinner than `point_distance` count as seen from both sides.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.frames import invert, pose_to_matrix, transform_points
from schemas.records import FIRST_OBJECT, Cloud, GraspSet, ObjectAsset, Scene
from stages.assets.places import even_places, surface_area
from stages.shard.config import ShardConfig

Float = NDArray[np.float64]
Contacts = Callable[[GraspSet, ObjectAsset], Sequence[Float]]
"""Contacts of each grasp, (n, 3) m in the object's frame, n = 0 where nothing touches."""

SPACING = 4.0  # places of the surface lie about contact_radius / SPACING apart
MAX_PLACES = 20_000  # on one object


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ContactRegions:
    """Contact regions of the grasps of one object, by hand; object frame, m."""

    grasp_index: NDArray[np.int64]  # (G,) rising
    places: Float  # (P, 3) of the surface, evenly spread
    members: NDArray[np.int64]  # (sum n_g,) the places of each grasp's region, grasp by grasp
    offsets: NDArray[np.int64]  # (G + 1,)
    radius: float  # contact_radius, m
    distance: float  # point_distance, m


Regions = Mapping[str, ContactRegions]
"""By object id."""


def contact_regions(
    config: ShardConfig,
    grasps: Sequence[GraspSet],
    assets: Mapping[str, ObjectAsset],
    contacts: Contacts | None,
) -> dict[str, Regions]:
    """Regions by hand and object; empty unless the config stores visibility."""
    if not config.visibility or contacts is None:
        return {}
    out: dict[str, dict[str, ContactRegions]] = {}
    of: dict[tuple[str, str], list[GraspSet]] = {}
    for g in grasps:
        if len(g):
            of.setdefault((g.hand, g.object_id), []).append(g)
    for (hand, name), sets in sorted(of.items(), key=lambda pair: pair[0]):
        touching = [points for g in sets for points in contacts(g, assets[name])]
        index = np.concatenate([g.grasp_index for g in sets])
        out.setdefault(hand, {})[name] = regions_of(
            assets[name], index, touching, config.contact_radius, config.point_distance
        )
    return out


def regions_for(regions: Mapping[str, Regions], scenes: Sequence[Scene]) -> dict[str, Regions]:
    """What `visibility_arrays` needs for these scenes: every hand keeps at least one object."""
    names = {name for scene in scenes for name in scene.object_ids}
    return {
        hand: {name: found for name, found in of_hand.items() if name in names}
        or dict([next(iter(of_hand.items()))])
        for hand, of_hand in regions.items()
    }


def regions_of(
    asset: ObjectAsset,
    grasp_index: NDArray[np.int64],
    contacts: Sequence[Float],
    radius: float,
    distance: float,
) -> ContactRegions:
    """Regions of grasps (G,) that touch at `contacts`, G times (n, 3), object frame."""
    from scipy.spatial import cKDTree

    places = _even_places(asset, radius / SPACING)
    tree = cKDTree(places)
    order = np.argsort(grasp_index, kind="stable")
    members = [
        np.unique(np.concatenate([np.zeros(0, np.int64), *map(_int, near)]))
        for near in (tree.query_ball_point(contacts[g], radius) for g in order)
    ]
    return ContactRegions(
        grasp_index=grasp_index[order],
        places=places,
        members=np.concatenate([np.zeros(0, np.int64), *members]),
        offsets=np.cumsum([0, *map(len, members)]).astype(np.int64),
        radius=radius,
        distance=distance,
    )


def grasp_visibility(points_object: NDArray[Any], regions: ContactRegions) -> NDArray[np.float32]:
    """(G,) share of each contact region that the points (N, 3), object frame, show; NaN for none.

    `points_object` are those of the object's own segment.
    """
    from scipy.spatial import cKDTree

    seen = np.zeros(len(regions.places), bool)
    if len(points_object):
        near, _ = cKDTree(np.asarray(points_object, np.float64)).query(
            regions.places, distance_upper_bound=regions.distance
        )
        seen = np.isfinite(near)
    running = np.concatenate([[0], np.cumsum(seen[regions.members])])
    count = np.diff(regions.offsets)
    hits = running[regions.offsets[1:]] - running[regions.offsets[:-1]]
    share = np.where(count > 0, hits / np.maximum(count, 1), np.nan)
    return share.astype(np.float32)


def visibility_arrays(
    scenes: Sequence[Scene], clouds: Sequence[Sequence[Cloud]], regions: Regions
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Columns of `visibility/<hand>/` for the clouds of a shard, and the group's attributes."""
    counts: list[int] = []
    slots: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
    index: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    shares: list[NDArray[np.float32]] = [np.zeros(0, np.float32)]
    for scene, of_scene in zip(scenes, clouds, strict=True):
        for cloud in of_scene:
            rows = 0
            T_world_points = cloud.T_world_cam if cloud.frame == "camera" else np.eye(4)
            for slot, name in enumerate(scene.object_ids):
                if name not in regions:
                    continue
                T = invert(pose_to_matrix(scene.object_poses[slot])) @ T_world_points
                mine = cloud.points[cloud.segment == FIRST_OBJECT + slot]
                shares.append(grasp_visibility(transform_points(T, mine), regions[name]))
                index.append(regions[name].grasp_index)
                slots.append(np.full(len(shares[-1]), slot, np.int32))
                rows += len(shares[-1])
            counts.append(rows)
    arrays = {
        "row_offsets": np.cumsum([0, *counts]).astype(np.int64),
        "object_slot": np.concatenate(slots),
        "grasp_index": np.concatenate(index),
        "share": np.concatenate(shares),
    }
    one = next(iter(regions.values()))
    return arrays, {"contact_radius_m": one.radius, "point_distance_m": one.distance}


def _even_places(asset: ObjectAsset, spacing: float) -> Float:
    """(P, 3) points of the surface, about `spacing` apart: subdivided faces' midpoints of area."""
    area = surface_area(asset.vertices, asset.faces)
    count = int(np.clip(np.ceil(area / spacing**2), 1, MAX_PLACES))
    return even_places(asset.vertices, asset.faces, count)[0]


def _int(values: list[int]) -> NDArray[np.int64]:
    return np.asarray(values, np.int64)
