"""Compositing: which picture each pixel comes from, in numpy and PyTorch, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from schemas.camera import Intrinsics
from stages.crop import CropSpec, SegmentNameError
from stages.robot import Frame
from stages.robot.errors import OverlayError
from stages.robot.twin import Overlay, composite, kept_ids, outlined, overlap, twin_frame

K = Intrinsics(fx=60.0, fy=60.0, cx=32.0, cy=24.0, width=64, height=48)
SHAPE = (48, 64)


def pictures(seed: int = 0) -> dict[str, np.ndarray]:
    """Random pictures of a simulation and of a real camera, and what the simulation keeps."""
    rng = np.random.default_rng(seed)
    depth, real = rng.uniform(0.3, 1.0, (2, *SHAPE)).astype(np.float32)
    depth[rng.random(SHAPE) < 0.1] = np.nan
    real[rng.random(SHAPE) < 0.3] = np.nan
    segment = rng.integers(0, 5, SHAPE).astype(np.int16)
    rgb, photo = rng.integers(0, 256, (2, *SHAPE, 3)).astype(np.uint8)
    keep = np.isin(segment, [2, 3]) & np.isfinite(depth)
    return {"rgb": rgb, "depth": depth, "segment": segment, "overlay_rgb": photo,
            "overlay_depth": real, "keep": keep}  # fmt: skip


def test_every_pixel_comes_from_where_it_should() -> None:
    """Pixel by pixel, against the rule in words."""
    p = pictures()
    rgb, depth, segment = composite(**p)
    for row, column in np.ndindex(*SHAPE):
        at = row, column
        real = p["overlay_depth"][at]
        hidden = np.isfinite(real) and real < p["depth"][at]
        if p["keep"][at] and not hidden:
            assert (rgb[at] == p["rgb"][at]).all()
            assert (depth[at], segment[at]) == (p["depth"][at], p["segment"][at])
        else:
            assert (rgb[at] == p["overlay_rgb"][at]).all()
            assert depth[at] == real or (np.isnan(depth[at]) and np.isnan(real))
            assert segment[at] == 0
    shown = segment > 0
    assert 0.05 < shown.mean() < 0.9 * p["keep"].mean()  # both happen


def test_without_real_depth_nothing_hides_and_the_rest_is_missing() -> None:
    p = pictures() | {"overlay_depth": None}
    rgb, depth, segment = composite(**p)
    np.testing.assert_array_equal(np.isfinite(depth), p["keep"])
    np.testing.assert_array_equal(segment, np.where(p["keep"], p["segment"], 0))
    np.testing.assert_array_equal(rgb[~p["keep"]], p["overlay_rgb"][~p["keep"]])


def test_debug_and_none() -> None:
    p = pictures()
    rgb, depth, segment = composite(**p, mode="debug")
    mean = (p["rgb"].astype(int) + p["overlay_rgb"]) // 2
    np.testing.assert_array_equal(rgb, mean)
    assert rgb.dtype == np.uint8
    assert depth is p["depth"]
    assert segment is p["segment"]
    assert composite(**p, mode="none")[0] is p["rgb"]
    with pytest.raises(OverlayError, match="expected one of background, debug, none, got 'green'"):
        composite(**p, mode="green")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["background", "debug", "none"])
def test_torch_gives_the_same_and_a_batch_its_own_pictures(mode: str) -> None:
    """A picture for each environment: row i is what it would be alone."""
    alone = [pictures(i) for i in range(3)]
    batch = {k: torch.from_numpy(np.stack([p[k] for p in alone])) for k in alone[0]}
    out = composite(**batch, mode=mode)  # type: ignore[arg-type]
    for i, p in enumerate(alone):
        for got, wanted in zip(out, composite(**p, mode=mode), strict=True):  # type: ignore[arg-type]
            assert isinstance(got, torch.Tensor)
            np.testing.assert_array_equal(got[i].numpy(), wanted)
    one = {k: (v[:1] if k.startswith("overlay") else v) for k, v in batch.items()}
    np.testing.assert_array_equal(composite(**one)[0][0].numpy(), composite(**alone[0])[0])


def test_a_picture_is_resized_only_with_its_aspect_and_its_k() -> None:
    """A resized ramp stays the ramp at the new centres; K goes with it."""
    big = Intrinsics(fx=120.0, fy=120.0, cx=64.0, cy=48.0, width=128, height=96)
    row, column = np.mgrid[0:96, 0:128] + 0.5
    ramp = np.stack([column, row, column + row], axis=-1)
    depth = (1 + column / 100).astype(np.float32)
    overlay = Overlay(rgb=ramp.astype(np.uint8), depth=depth, intrinsics=big)
    for camera in (K, Intrinsics(fx=75, fy=75, cx=40, cy=30, width=80, height=60),
                   Intrinsics(fx=180, fy=180, cx=96, cy=72, width=192, height=144)):  # fmt: skip
        fitted = overlay.fitted(camera)
        r, c = np.mgrid[0 : camera.height, 0 : camera.width] + 0.5
        scale = 128 / camera.width
        wanted = np.stack([c * scale, r * scale, (c + r) * scale], axis=-1) - 0.5
        inner = np.s_[2:-2, 2:-2]
        assert np.abs(fitted.rgb.astype(float) - wanted)[inner].max() <= 1.1
        assert set(np.unique(fitted.depth)) <= set(np.unique(depth))  # never a mixture
        assert np.abs(fitted.depth - (1 + c * scale / 100)).max() < 0.0101
        assert fitted.intrinsics is not None
        assert fitted.intrinsics.to_array() == pytest.approx(camera.to_array())
    with pytest.raises(OverlayError, match="128x96 has another aspect than the camera's 64x64"):
        overlay.fitted(replace(K, height=64))
    with pytest.raises(OverlayError, match=r"K rescaled to 64x48 is fx 60\.0 .* has fx 66\.0"):
        overlay.fitted(replace(K, fx=66.0))
    with pytest.raises(OverlayError, match="give the simulated camera the real one's K"):
        overlay.fitted(replace(K, cx=33.0))
    replace(overlay, intrinsics=None).fitted(replace(K, fx=66.0))  # nobody knows its K


def test_pictures_that_cannot_be_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"overlay .*nowhere\.png: no such file"):
        Overlay.of_file(tmp_path / "nowhere.png")
    (tmp_path / "torn.png").write_bytes(b"\x89PNG")
    with pytest.raises(OverlayError, match="cannot be read"):
        Overlay.of_file(tmp_path / "torn.png")
    Image.fromarray(np.zeros(SHAPE, np.uint8)).save(tmp_path / "grey.png")
    with pytest.raises(OverlayError, match=r"expected uint8 \(H, W, 3\)"):
        Overlay.of_file(tmp_path / "grey.png")
    Image.fromarray(np.full((*SHAPE, 4), 7, np.uint8)).save(tmp_path / "alpha.png")
    assert Overlay.of_file(tmp_path / "alpha.png").rgb.shape == (*SHAPE, 3)
    p = pictures()
    with pytest.raises(OverlayError, match=r"depth .* and picture"):
        Overlay(rgb=p["rgb"], depth=np.ones((3, 3), np.float32))
    with pytest.raises(OverlayError, match="has no colour"):
        Overlay.of_frame(Frame(depth=p["depth"], intrinsics=K))
    with pytest.raises(OverlayError, match=r"use Overlay\.fitted"):
        composite(**(p | {"overlay_rgb": p["overlay_rgb"][:-1]}))
    with pytest.raises(OverlayError, match="needs the simulation's depth"):
        composite(**(p | {"depth": None}))


def test_a_twin_s_cloud_is_real_where_the_twin_is() -> None:
    p = pictures(4)
    table = {"background": 0, "table": 1, "object:0": 2, "object:1": 3, "robot": 4}
    simulated = Frame(
        depth=p["depth"], intrinsics=K, colour=p["rgb"], segment=p["segment"], segment_table=table
    )
    real = Frame(depth=p["overlay_depth"], intrinsics=K, colour=p["overlay_rgb"])
    twin = twin_frame(simulated, Overlay.of_frame(real), ["object:*"], "background")
    everything = CropSpec(extract_segments=())
    cloud = twin.crop(everything)
    own = {int(i): v for i, v in zip(cloud.pixel, cloud.points, strict=True)}
    theirs = real.crop(everything)
    real_id = twin.segment_table["real"]
    from_real = cloud.pixel[cloud.segment == real_id]
    assert len(from_real) > 100
    for pixel, point in zip(theirs.pixel, theirs.points, strict=True):
        if pixel in set(from_real.tolist()):
            np.testing.assert_array_equal(own[int(pixel)], point)
    objects = twin.crop(CropSpec(extract_segments=("object:*",)))
    alone = simulated.crop(CropSpec(extract_segments=("object:*",)))
    where = {int(i): v for i, v in zip(alone.pixel, alone.points, strict=True)}
    for pixel, point in zip(objects.pixel, objects.points, strict=True):
        np.testing.assert_array_equal(where[int(pixel)], point)
    assert 0 < len(objects.points) < len(alone.points)
    for mode in ("debug", "none"):
        np.testing.assert_array_equal(
            twin_frame(simulated, Overlay.of_frame(real), ["robot"], mode).depth, p["depth"]
        )
    with pytest.raises(SegmentNameError, match="'cup' matches none"):
        twin_frame(simulated, Overlay.of_frame(real), ["cup"], "background")
    with pytest.raises(OverlayError, match="needs colour and segments"):
        twin_frame(real, Overlay.of_frame(real), ["cup"], "background")
    assert kept_ids(["object:*", "robot"], table) == [2, 3, 4]


def test_an_outline_is_on_the_border_and_overlap_is_a_share() -> None:
    mask = np.zeros(SHAPE, bool)
    mask[10:30, 20:50] = True
    grey = np.full((*SHAPE, 3), 100, np.uint8)
    drawn = (outlined(grey, mask) != 100).any(axis=-1)
    assert drawn[10, 20:50].all()
    assert drawn[10:30, 49].all()
    assert not drawn[13:27, 23:47].any()
    assert not drawn[:9].any()
    assert not drawn[33:].any()
    other = np.roll(mask, 15, axis=1)
    assert overlap(mask, other) == pytest.approx(15 / 45)
    assert overlap(mask & False, mask & False) == 0.0
