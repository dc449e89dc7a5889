"""Files of a robot: units, sizes and what is told when they do not fit."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from schemas.errors import FrameError, SchemaError
from stages.crop import CropError, CropSpec, crop_depth
from stages.crop.errors import CropDigestError
from stages.crop.files import (
    parse_intrinsics,
    read_image,
    read_spec,
    read_transform,
    to_metres,
    write_ply,
)

SHAPE = (48, 64)


def test_millimetres_of_a_png_become_metres(tmp_path: Path) -> None:
    depth = np.full(SHAPE, 731, np.uint16)
    depth[3, 5] = 0
    Image.fromarray(depth).save(tmp_path / "depth.png")
    metres = to_metres(read_image(tmp_path / "depth.png"), None)
    assert metres.dtype == np.float32
    assert np.isnan(metres[3, 5])
    assert np.nanmax(metres) == pytest.approx(0.731, abs=1e-7)
    tenths = to_metres(depth, 1e-4)
    assert np.nanmax(tenths) == pytest.approx(0.0731, abs=1e-7)
    floats = np.array([[0.5, np.inf, -1.0, 0.0]])
    np.testing.assert_array_equal(np.isnan(to_metres(floats, None)), [[False, True, True, True]])


def test_a_wrong_unit_is_told() -> None:
    with pytest.raises(CropError, match=r"If the image is in millimetres, give a scale of 0\.001"):
        to_metres(np.full(SHAPE, 731.0, np.float32), None)
    with pytest.raises(CropError, match="expected a scale > 0"):
        to_metres(np.ones(SHAPE), 0.0)


def test_intrinsics_carry_their_image_size(tmp_path: Path) -> None:
    K = parse_intrinsics("60,61,32,24", SHAPE)
    assert (K.fx, K.fy, K.cx, K.cy, K.width, K.height) == (60, 61, 32, 24, 64, 48)
    path = tmp_path / "k.json"
    path.write_text(json.dumps({"K": K.K.tolist(), "width": 64, "height": 48}))
    assert parse_intrinsics(str(path), SHAPE) == K
    path.write_text(json.dumps({"fx": 60, "fy": 61, "cx": 32, "cy": 24, "width": 64, "height": 48}))
    assert parse_intrinsics(str(path), SHAPE) == K
    with pytest.raises(CropError, match="K of another image size"):
        parse_intrinsics("600,600,50,24", SHAPE)
    with pytest.raises(SchemaError, match=r"expected shape \(480, 640\)"):
        parse_intrinsics("600,600,320,240,640,480", SHAPE)
    with pytest.raises(CropError, match="expected fx,fy,cx,cy"):
        parse_intrinsics("600,600", SHAPE)
    with pytest.raises(CropError, match="not numbers"):
        parse_intrinsics("a,b,c,d", SHAPE)
    path.write_text(json.dumps({"fx": 60, "fy": 61, "cx": 32, "cy": 24}))
    with pytest.raises(CropError, match="lacks width, height"):
        parse_intrinsics(str(path), SHAPE)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(CropError, match="cannot be read"):
        read_image(tmp_path / "nowhere.npy")
    with pytest.raises(CropError, match=r"expected \.npy or \.png"):
        read_image(tmp_path / "depth.tif")
    np.save(tmp_path / "rgb.npy", np.zeros((4, 4, 3)))
    with pytest.raises(CropError, match="one channel"):
        read_image(tmp_path / "rgb.npy")
    (tmp_path / "torn.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(CropError, match="cannot be read"):
        read_image(tmp_path / "torn.npy")
    (tmp_path / "pose.json").write_text(json.dumps(np.diag([1, 1, 2, 1]).tolist()))
    with pytest.raises(FrameError, match="not orthonormal"):
        read_transform(tmp_path / "pose.json")


def test_a_dataset_s_crop_is_checked_against_its_digest(tmp_path: Path) -> None:
    spec = CropSpec(max_depth=2.0)
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps({"crop": spec.to_dict(), "crop_digest": spec.digest()}))
    assert read_spec(path) == spec
    path.write_text(json.dumps({"crop": spec.to_dict(), "crop_digest": "0" * 64}))
    with pytest.raises(CropDigestError):
        read_spec(path)
    path.write_text(json.dumps(spec.to_dict()))
    assert read_spec(path) == spec


def test_the_ply_reads_back_elsewhere(tmp_path: Path) -> None:
    import trimesh

    rng = np.random.default_rng(0)
    depth = rng.uniform(0.3, 1.0, SHAPE).astype(np.float32)
    segment = rng.integers(0, 300, SHAPE).astype(np.uint16)
    cloud = crop_depth(
        depth, parse_intrinsics("60,61,32,24", SHAPE), CropSpec(extract_segments=()), seed=0,
        segment=segment,
    )  # fmt: skip
    write_ply(tmp_path / "cloud.ply", cloud)
    read = trimesh.load(tmp_path / "cloud.ply")
    np.testing.assert_array_equal(np.asarray(read.vertices, np.float32), cloud.points)
    vertex = read.metadata["_ply_raw"]["vertex"]["data"]
    np.testing.assert_array_equal(np.asarray(vertex["segment"]).ravel(), segment.ravel())
