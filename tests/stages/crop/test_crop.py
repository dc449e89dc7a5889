"""The crop against the pinhole equations, its own order, and real captures."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.camera import Intrinsics
from schemas.errors import FrameError, SchemaError
from schemas.frames import look_at, pose_to_matrix, transform_points
from stages.crop import (
    CropDigestError,
    CropError,
    CropSpec,
    SegmentNameError,
    crop_depth,
    crop_pixels,
)
from stages.crop.sampling import farthest_points, inliers, random_points, voxel_points
from stages.grasp.formats.pickled import read_pickled
from tests.program import packages_of
from tests.reference import REFERENCE

K = Intrinsics(fx=50.0, fy=60.0, cx=16.5, cy=11.5, width=32, height=24)
TABLE = {"background": 0, "table": 1, "object:0": 2, "object:1": 3}
ALL = CropSpec(extract_segments=())


def a_depth(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(24, 32) depth with holes of every kind, and segment ids 0 to 3."""
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.3, 1.2, (K.height, K.width)).astype(np.float32)
    depth[rng.random(depth.shape) < 0.1] = np.nan
    depth[0, :4] = [0.0, -1.0, np.inf, -np.inf]
    return depth, rng.integers(0, 4, depth.shape).astype(np.uint8)


def test_points_project_back_to_the_centres_of_their_pixels() -> None:
    depth, _ = a_depth()
    cloud = crop_depth(depth, K, ALL, seed=0)
    image = cloud.points.astype(np.float64) @ K.K.T
    row, column = np.divmod(cloud.pixel, K.width)
    np.testing.assert_allclose(image[:, 0] / image[:, 2], column + 0.5, atol=1e-4)
    np.testing.assert_allclose(image[:, 1] / image[:, 2], row + 0.5, atol=1e-4)
    np.testing.assert_array_equal(cloud.points[:, 2], depth.reshape(-1)[cloud.pixel])
    assert cloud.points.dtype == np.float32
    valid = np.isfinite(depth) & (depth > 0)
    assert cloud.valid_count == len(cloud.points) == valid.sum()


def test_depth_limits_are_open_and_a_wall_is_flat() -> None:
    wall = np.full((K.height, K.width), 0.5, np.float32)
    cloud = crop_depth(wall, K, ALL, seed=0)
    # The wall is as wide and high as the field of view says, less one pixel.
    width = (K.width - 1) / K.fx * 0.5
    assert np.ptp(cloud.points[:, 0]) == pytest.approx(width, rel=1e-5)
    assert np.ptp(cloud.points[:, 1]) == pytest.approx((K.height - 1) / K.fy * 0.5, rel=1e-5)
    assert len(crop_depth(wall, K, replace(ALL, min_depth=0.5), seed=0).points) == 0
    assert len(crop_depth(wall, K, replace(ALL, max_depth=0.5), seed=0).points) == 0


def test_extract_wins_over_remove() -> None:
    depth, segment = a_depth()
    images = {"segment": segment, "segment_table": TABLE, "seed": 0}
    spec = CropSpec(extract_segments=("object:1",), remove_segments=("object:1", "table"))
    assert set(crop_depth(depth, K, spec, **images).segment) == {3}
    spec = CropSpec(extract_segments=(), remove_segments=("table", "background"))
    assert set(crop_depth(depth, K, spec, **images).segment) == {2, 3}
    spec = CropSpec(extract_segments=("object:*",))
    assert set(crop_depth(depth, K, spec, **images).segment) == {2, 3}


def test_a_box_in_the_world_moves_with_the_table() -> None:
    depth, _ = a_depth()
    T_world_cam = look_at([0.1, -0.2, 0.9], [0.0, 0.05, 0.0], roll=0.3)
    half = np.deg2rad(10.0) / 2
    table = np.array([0.03, -0.02, 0.1, np.cos(half), 0.0, np.sin(half), 0.0])
    box = {"box_min": (-0.1, -0.15, -0.2), "box_max": (0.2, 0.1, 0.3)}
    spec = replace(ALL, box_frame="world", frame="world", **box)
    cloud = crop_depth(depth, K, spec, seed=0, T_world_cam=T_world_cam, table_pose=table)
    everything = crop_depth(depth, K, ALL, seed=0)
    # Independently, in float64 and with the inverse written out.
    world = transform_points(T_world_cam, everything.points)
    local = (world - table[:3]) @ pose_to_matrix(table)[:3, :3]
    inside = ((local > box["box_min"]) & (local < box["box_max"])).all(axis=1)
    assert 20 < inside.sum() < len(inside) - 20
    np.testing.assert_array_equal(cloud.pixel, everything.pixel[inside])
    np.testing.assert_allclose(cloud.points, world[inside], atol=1e-6)

    camera = replace(ALL, box_frame="camera", box_min=(-0.1, -0.1, 0.4), box_max=(0.1, 0.1, 0.8))
    near = crop_depth(depth, K, camera, seed=0).points
    assert len(near)
    assert (np.abs(near[:, :2]) <= 0.1).all()
    assert ((near[:, 2] >= 0.4) & (near[:, 2] <= 0.8)).all()


specs = st.builds(
    CropSpec,
    min_depth=st.sampled_from([0.0, 0.4]),
    max_depth=st.sampled_from([0.9, 10.0]),
    extract_segments=st.sampled_from([(), ("object:*",), ("table", "object:0")]),
    box_min=st.just((-0.2, -0.2, -0.4)),
    box_max=st.just((0.2, 0.15, 0.6)),
    box_frame=st.sampled_from(["world", "camera"]),
    outlier_cell=st.sampled_from([0.0, 0.05]),
    sampling=st.sampled_from(["none", "random", "voxel", "farthest"]),
    num_points=st.sampled_from([1, 40, 5000]),
    voxel_size=st.just(0.05),
    frame=st.sampled_from(["camera", "world"]),
)


@settings(max_examples=60, deadline=None)
@given(spec=specs, seed=st.integers(0, 2**63), drop=st.floats(0, 1))
def test_leaving_out_pixels_that_would_not_survive_changes_no_bit(
    spec: CropSpec, seed: int, drop: float
) -> None:
    depth, segment = a_depth(seed % 7)
    poses = {
        "T_world_cam": look_at([0.1, -0.2, 0.9], [0, 0, 0.1]),
        "table_pose": (0, 0, 0, 1, 0, 0, 0),
    }
    full = crop_depth(depth, K, spec, seed=seed, segment=segment, segment_table=TABLE, **poses)
    unsampled = replace(spec, sampling="none")
    if spec.outlier_cell:
        unsampled = replace(unsampled, outlier_cell=0.0)
    survivors = crop_depth(
        depth, K, unsampled, seed=seed, segment=segment, segment_table=TABLE, **poses
    ).pixel
    others = np.setdiff1d(np.arange(depth.size), survivors)
    extra = others[np.random.default_rng(seed).random(len(others)) < drop]
    pixel = np.union1d(survivors, extra)
    part = crop_pixels(
        pixel,
        depth.reshape(-1)[pixel],
        K,
        spec,
        seed=seed,
        segment=segment.reshape(-1)[pixel],
        segment_table=TABLE,
        **poses,
    )
    for field in fields(full):
        a, b = getattr(full, field.name), getattr(part, field.name)
        assert np.array_equal(a, b), field.name


def test_random_sampling_is_uniform_without_replacement() -> None:
    rng = np.random.default_rng(0)
    counts = np.zeros(20)
    for _ in range(4000):
        chosen = random_points(20, 5, rng)
        assert len(set(chosen.tolist())) == 5
        counts[chosen] += 1
    # Binomial(4000, 1/4): standard deviation 27.
    assert np.abs(counts - 1000).max() < 5 * 27.4
    np.testing.assert_array_equal(random_points(3, 5, rng), [0, 1, 2])


def test_voxels_keep_one_point_each() -> None:
    points = np.random.default_rng(0).uniform(-0.1, 0.1, (3000, 3)).astype(np.float32)
    kept = points[voxel_points(points, 0.02)]
    cells = np.floor(kept.astype(np.float64) / 0.02)
    assert len(np.unique(cells, axis=0)) == len(kept)
    assert len(kept) == len(np.unique(np.floor(points.astype(np.float64) / 0.02), axis=0))


def test_farthest_points_cover_as_well_as_is_possible() -> None:
    """Gonzalez 1985: the covering radius is at most the smallest distance among the chosen."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(600, 3)).astype(np.float32)
    chosen = farthest_points(points, 40, rng)
    assert len(set(chosen.tolist())) == 40
    distance = np.linalg.norm(points[:, None] - points[None, chosen], axis=2)
    among = distance[chosen]
    among[np.diag_indices(40)] = np.inf
    assert distance.min(axis=1).max() <= among.min() + 1e-6


def test_the_outlier_rule_drops_only_the_lonely() -> None:
    rng = np.random.default_rng(0)
    blob = rng.uniform(0, 0.01, (200, 3))
    lonely = np.array([[0.5, 0, 0], [-0.5, 0.2, 0], [0.5, 0.5, 0.5]])
    points = np.concatenate([blob, lonely]).astype(np.float32)
    np.testing.assert_array_equal(inliers(points, 0.01, 4), np.arange(200))


def test_every_field_is_in_the_digest() -> None:
    base = CropSpec()
    changed = {
        "min_depth": 0.1, "max_depth": 2.0, "extract_segments": ("table",),
        "remove_segments": ("table",), "box_frame": "camera", "outlier_cell": 0.01,
        "outlier_min_points": 5, "sampling": "voxel", "num_points": 7, "voxel_size": 0.01,
        "frame": "world",
    }  # fmt: skip
    boxed = replace(base, box_min=(0.0, 0.0, 0.0), box_max=(1.0, 1.0, 1.0))
    specs = [base, boxed, replace(boxed, box_max=(1.0, 1.0, 2.0))]
    specs += [replace(base, **{name: value}) for name, value in changed.items()]
    assert {f.name for f in fields(CropSpec)} == {*changed, "box_min", "box_max"}
    assert len({spec.digest() for spec in specs}) == len(specs)
    for spec in specs:
        assert CropSpec.from_dict(spec.to_dict()) == spec
    with pytest.raises(CropDigestError, match="do not match the training clouds"):
        base.check_digest(boxed.digest())
    with pytest.raises(CropError, match=r"unknown keys \['boxmin'\]"):
        CropSpec.from_dict({"boxmin": 1})


def test_mistakes_are_told() -> None:
    depth, segment = a_depth()
    with pytest.raises(CropError, match=r"multiply by 0\.001"):
        crop_depth(
            (np.nan_to_num(depth, posinf=0, neginf=0) * 1000).astype(np.uint16), K, ALL, seed=0
        )
    with pytest.raises(SchemaError, match="the K of this image"):
        crop_depth(depth[:-1], K, ALL, seed=0)
    with pytest.raises(CropError, match="no segment image was given"):
        crop_depth(depth, K, CropSpec(), seed=0, segment_table=TABLE)
    with pytest.raises(CropError, match="no segment table"):
        crop_depth(depth, K, CropSpec(), seed=0, segment=segment)
    with pytest.raises(SegmentNameError, match="'robot' matches none of this scene's segments"):
        crop_depth(
            depth, K, CropSpec(extract_segments=("robot",)), seed=0, segment=segment,
            segment_table=TABLE,
        )  # fmt: skip
    with pytest.raises(CropError, match="needs T_world_cam"):
        crop_depth(depth, K, replace(ALL, frame="world"), seed=0)
    sheared = np.eye(4)
    sheared[0, 1] = 0.01
    with pytest.raises(FrameError, match="not orthonormal"):
        crop_depth(depth, K, replace(ALL, frame="world"), seed=0, T_world_cam=sheared)
    with pytest.raises(CropError, match="min_depth < max_depth"):
        CropSpec(min_depth=2.0, max_depth=1.0)
    boxed = replace(ALL, box_min=(0, 0, 0), box_max=(1, 1, 1))
    with pytest.raises(CropError, match="needs table_pose"):
        crop_depth(depth, K, boxed, seed=0, T_world_cam=np.eye(4))
    with pytest.raises(FrameError, match="unit quaternion"):
        crop_depth(depth, K, boxed, seed=0, T_world_cam=np.eye(4), table_pose=(0, 0, 0, 2, 0, 0, 0))


def test_importing_the_crop_loads_numpy_alone() -> None:
    assert packages_of("import stages.crop, stages.crop.files") == {"schemas", "stages"}


def test_a_real_capture_gives_its_published_cloud() -> None:
    """6-DOF GraspNet published the object's points with the depth images: other people's
    back-projection of the same pixels, smoothed."""
    from scipy.spatial import cKDTree

    folder = REFERENCE / "captures" / "6dof-graspnet"
    if not folder.is_dir():
        pytest.skip(f"no reference captures at {folder}")
    files = sorted(folder.glob("*.npy"))
    assert len(files) == 6
    for file in files:
        data = read_pickled(file, encoding="latin1")
        depth = np.asarray(data["depth"])
        height, width = depth.shape
        intrinsics = Intrinsics.from_matrix(data["intrinsics_matrix"], width, height)
        cloud = crop_depth(depth, intrinsics, ALL, seed=0).points
        distance, _ = cKDTree(cloud).query(np.asarray(data["smoothed_object_pc"]))
        # Smoothing moves points along the ray by about the noise; half a pixel is 0.7 mm at 0.9 m.
        assert np.median(distance) < 0.0015, file.name
        assert np.quantile(distance, 0.95) < 0.006, file.name
