"""Sources of frames: every real capture, other programs' clouds, recordings, a RealSense."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.spatial import cKDTree

from schemas.camera import Intrinsics
from schemas.distortion import Distortion
from schemas.errors import SchemaError
from stages.crop import CropSpec, crop_depth
from stages.robot import CaptureError, Frame, StaleFrameError, check_age, open_source
from stages.robot.errors import EndOfRecordingError
from stages.robot.sources.clouds import cloud_to_depth, read_cloud
from stages.robot.sources.recording import RecordedSource, Recorder, frame_arrays
from tests.captures import ALL, CAPTURES, needs_captures

K = Intrinsics(fx=60.0, fy=62.0, cx=32.5, cy=23.0, width=64, height=48)
EVERYTHING = CropSpec(extract_segments=())


def a_frame(seed: int = 0, **more: object) -> Frame:
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.3, 0.9, (K.height, K.width)).astype(np.float32)
    depth[rng.random(depth.shape) < 0.2] = np.nan
    return Frame(**{"depth": depth, "intrinsics": K} | more)  # type: ignore[arg-type]


@needs_captures
@pytest.mark.parametrize("name", ALL)
def test_every_capture_loads(name: str) -> None:
    where, convention = ALL[name]
    source = open_source(where, convention)
    frame = source.read()
    source.close()
    seen = frame.depth[np.isfinite(frame.depth)]
    assert (seen > 0.1).all()
    assert 0.25 < np.median(seen) < 1.5  # metres, whatever the file's unit was
    assert np.isnan(frame.depth).any()
    if name not in ("table_mug", "krylon"):
        assert frame.colour is not None


@needs_captures
def test_missing_values_are_those_of_the_files() -> None:
    """Zeros of the file, and nothing else, are NaN; NaN stays."""
    zeros = np.asarray(Image.open(CAPTURES / "hggd" / "demo_depth.png"))
    read = open_source(*ALL["hggd"]).read().depth
    np.testing.assert_array_equal(np.isnan(read), zeros == 0)
    np.testing.assert_allclose(read[zeros > 0], zeros[zeros > 0] / 1000, rtol=1e-6)
    zeros = np.load(CAPTURES / "m2t2" / "00" / "depth.npy")
    np.testing.assert_array_equal(np.isnan(open_source(*ALL["m2t2_00"]).read().depth), zeros == 0)


@needs_captures
@pytest.mark.parametrize("name", ["table_mug", "krylon"])
def test_points_of_a_cloud_come_back(name: str) -> None:
    """The nearest point of each pixel, by another program's reading of the same ascii file."""
    where, convention = ALL[name]
    config = json.loads(convention.read_text())
    text = (where / config["cloud"]).read_text().partition("DATA ascii\n")[2]
    points = np.array([line.split()[:3] for line in text.splitlines()], float)
    if name == "krylon":
        points[:, 2] += 0.5
    cloud = open_source(where, convention).read().crop(EVERYTHING).points
    off = cKDTree(points).query(cloud)[0]
    if name == "table_mug":  # each point has a pixel of its own, within 0.01 pixels of its centre
        assert len(cloud) == len(points)
        assert off.max() < 2e-5
    else:
        assert (off < np.sqrt(0.5) * cloud[:, 2] / 600 + 1e-6).all()  # half a pixel each way


def test_values_of_png_that_mean_nothing(tmp_path: Path) -> None:
    image = np.full((48, 64), 700, np.uint16)
    image[0, :5], image[1, :7] = 0, 65535
    Image.fromarray(image).save(tmp_path / "d.png")
    values = {"depth": "d.png", "intrinsics": [60, 62, 32, 22.5], "pixel_centre": 0.0}
    (tmp_path / "capture.json").write_text(json.dumps(values | {"missing": [65535]}))
    frame = open_source(tmp_path).read()
    assert int(np.isnan(frame.depth).sum()) == 12
    assert np.nanmax(frame.depth) == pytest.approx(0.7)
    assert (frame.intrinsics.cx, frame.intrinsics.cy) == (32.5, 23.0)
    assert frame.name == tmp_path.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depht": "d.npy"}, "unknown keys ['depht']; known: ["),
        ({"cloud": "a.pcd"}, "expected either depth or cloud"),
        ({"intrinsics": []}, "depth needs K or intrinsics"),
        ({"intrinsics": [60, 62]}, "expected fx fy cx cy"),
        ({"intrinsics": [600, 620, 320, 240]}, "outside the 64x48 image"),
        ({"depth": 3}, "depth (expected str)"),
        ({"depth": "nowhere.npy"}, "no such file"),
        ({"depth": "d.txt"}, "expected one of .npy, .pkl"),
        ({"depth": "d.npy#key"}, "expected 'key', it holds ndarray"),
        ({"depth": "both.npz"}, "holds several values, say which: both.npz#KEY of a, b"),
        ({"depth": "both.npz#c"}, "expected 'c', it holds ['a', 'b']"),
        ({"depth": "k.json#n"}, "k.json"),
        ({"pixel_centre": 1.0}, "pixel_centre: expected 0 or 0.5"),
        ({"T_world_cam": "k.json#K"}, "expected shape (4, 4), got (3, 3)"),
        ({"T_world_cam": [[1, 0], [0, 1]]}, "expected a 4x4 matrix"),
        ({"segment": "both.npz#a"}, "expected integer ids, got float64"),
        ({"depth_scale": 100.0}, "the median depth is"),
        ({"segments": {"a": -1}, "segment": "k.npy"}, "expected ids from 0 to 65535"),
        ({"segments": {"a": "x"}, "segment": "k.npy"}, "['a']: expected ids from 0 to 65535"),
        ({"segments": {"a": None}, "segment": "k.npy"}, "['a']: expected ids from 0 to 65535"),
        ({"segments": {"a": 1.5}, "segment": "k.npy"}, "['a']: expected ids from 0 to 65535"),
        ({"segments": {}, "segment": "large.npy"}, "ids from 0 to 65535, got 4000000000"),
        ({"segments": None, "segment": "k.npy"}, "segments (expected dict)"),
        ({"intrinsics": [60, 62, 16, 12]}, "lies far from the middle of the 64x48 image"),
        ({"intrinsics": [], "K": "k.json#K"}, "k.json#K: the principal point (0, 0) lies far"),
        ({"intrinsics": [60, 62, 32, "k.json#n"]}, "'k.json#n': expected one number"),
        ({"intrinsics": [60, 62, 32, 10**400]}, "expected one number"),
        ({"depth_scale": "0.001"}, "depth_scale (expected a number or null)"),
        ({"depth_scale": 10**400}, "depth_scale (expected a number or null)"),
        ({"missing": ["none"]}, "missing (expected numbers)"),
        ({"T_world_cam": [[1, 0], [1]]}, "expected a 4x4 matrix of numbers"),
        ({"T_world_cam": 5}, "expected a 4x4 matrix"),
        ({"T_world_cam": {"a": 1}}, "expected a 4x4 matrix of numbers"),
    ],
)
def test_a_capture_that_cannot_be_is_explained(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    np.save(tmp_path / "d.npy", np.full((48, 64), 0.6))
    np.save(tmp_path / "k.npy", np.zeros((48, 64), np.uint8))
    np.save(tmp_path / "large.npy", np.full((48, 64), 4_000_000_000, np.uint32))
    np.savez(tmp_path / "both.npz", a=np.ones((48, 64)), b=np.ones(2))
    (tmp_path / "k.json").write_text(json.dumps({"K": np.eye(3).tolist(), "n": "x"}))
    values = {"depth": "d.npy", "intrinsics": [60, 62, 32, 24]} | change
    (tmp_path / "capture.json").write_text(json.dumps(values))
    with pytest.raises(SchemaError, match=re.escape(message)):
        open_source(tmp_path).read()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"segment_names": ["a", "b", "c"]}, "as many segment_names as segment_ids"),
        ({"segment_names": "a"}, "as many segment_names as segment_ids"),
        ({"segment_ids": ["x", "y"]}, "segment_ids of <U1"),
        ({"segment_ids": [0.5, 1.5]}, "segment_ids of float64"),
        ({"depth": np.full((48, 64), "far")}, "depth of <U3"),
        ({"depth": np.full((48, 64), 1j)}, "depth of complex128"),
        ({"intrinsics": list("abcdef")}, "intrinsics of <U1"),
        ({"distortion": ["bent"]}, "distortion of <U4"),
        ({"T_world_cam": "here"}, "T_world_cam of <U4"),
        ({"T_world_cam": np.eye(3)}, "expected a 4x4 matrix"),
        ({"time": [1.0, 2.0]}, "time: expected one number"),
    ],
)
def test_a_frame_file_that_cannot_be_is_explained(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    frame = a_frame(segment=np.ones((48, 64), np.uint8), segment_table={"table": 1, "cup": 7})
    np.savez(tmp_path / "a.npz", **frame_arrays(frame) | change)
    with pytest.raises(SchemaError, match=re.escape(message)):
        open_source(tmp_path / "a.npz").read()


def test_a_source_that_is_none_is_explained(tmp_path: Path) -> None:
    for what in (tmp_path, tmp_path / "d.npy", tmp_path / "nowhere.json"):
        with pytest.raises(CaptureError, match="expected a folder with capture"):
            open_source(what)
    with pytest.raises(CaptureError, match="no such file"):
        open_source(tmp_path / "a.npz").read()


def organised() -> tuple[np.ndarray, Frame]:
    """(H W, 3) float32 points, NaN where nothing was seen, and their frame."""
    frame = a_frame(3)
    cloud = frame.crop(EVERYTHING)
    points = np.full((K.width * K.height, 3), np.nan, np.float32)
    points[cloud.pixel] = cloud.points
    return points, frame


def write_pcd(path: Path, points: np.ndarray, mode: str, pack: bytes = b"") -> None:
    head = (
        "# .PCD v0.7\nVERSION 0.7\nFIELDS rgb x y z\nSIZE 4 4 4 4\nTYPE U F F F\nCOUNT 1 1 1 1\n"
        f"WIDTH {K.width}\nHEIGHT {K.height}\nVIEWPOINT 0 0 0 1 0 0 0\n"
        f"POINTS {len(points)}\nDATA {mode}\n"
    )
    rows = np.zeros(len(points), [("rgb", "<u4"), ("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
    rows["x"], rows["y"], rows["z"] = points.T
    if mode == "ascii":
        lines = [f"7 {x!r} {y!r} {z!r}" for x, y, z in points.astype(float).tolist()]
        body = "\n".join(lines).encode() + b"\n"
    elif mode == "binary":
        body = rows.tobytes()
    else:
        plain = b"".join(rows[name].tobytes() for name in rows.dtype.names or ())
        # literals in runs of 32, but the first field, all zero, as references to itself
        packed = bytearray([0, 0])
        left = 4 * len(points) - 1
        while left > 0:
            take = min(left, 264)
            if take < 3:
                packed += bytes([take - 1]) + bytes(take)
            elif take < 9:
                packed += bytes([(take - 2) << 5, 0])
            else:
                packed += bytes([7 << 5, take - 9, 0])
            left -= take
        for i in range(4 * len(points), len(plain), 32):
            run = plain[i : i + 32]
            packed += bytes([len(run) - 1]) + run
        body = struct.pack("<II", len(packed), len(plain)) + bytes(packed)
    path.write_bytes(head.encode() + body)


@pytest.mark.parametrize("mode", ["ascii", "binary", "binary_compressed"])
def test_an_organised_pcd_is_a_depth_image_with_its_own_k(tmp_path: Path, mode: str) -> None:
    points, frame = organised()
    write_pcd(tmp_path / "a.pcd", points, mode)
    cloud = read_cloud(tmp_path / "a.pcd")
    assert cloud.shape == (K.height, K.width)
    depth, found = cloud_to_depth(cloud.points, cloud.shape, None)
    np.testing.assert_array_equal(depth, frame.depth)
    np.testing.assert_allclose(found.to_array(), K.to_array(), rtol=1e-5)
    again, _ = cloud_to_depth(cloud.points, cloud.shape, K)
    np.testing.assert_array_equal(again, frame.depth)


def test_ply_files_by_another_writer(tmp_path: Path) -> None:
    import trimesh

    points, frame = organised()
    seen = points[np.isfinite(points[:, 0])]
    for name, encoding in (("a", "binary"), ("b", "ascii")):
        data = trimesh.PointCloud(seen).export(file_type="ply", encoding=encoding)
        (tmp_path / f"{name}.ply").write_bytes(data)
        cloud = read_cloud(tmp_path / f"{name}.ply")
        assert cloud.shape == ()
        np.testing.assert_allclose(cloud.points, seen, atol=1e-6)
        depth, _ = cloud_to_depth(cloud.points, cloud.shape, K)
        np.testing.assert_allclose(depth, frame.depth, atol=1e-6)
    rows = np.zeros(len(points), [(axis, ">f4") for axis in "xyz"])
    rows["x"], rows["y"], rows["z"] = points.T
    head = (
        f"ply\nformat binary_big_endian 1.0\nobj_info num_cols {K.width}\n"
        f"obj_info num_rows {K.height}\nelement vertex {len(points)}\nproperty float x\n"
        "property float y\nproperty float z\nend_header\n"
    )
    (tmp_path / "c.ply").write_bytes(head.encode() + rows.tobytes())
    cloud = read_cloud(tmp_path / "c.ply")
    depth, found = cloud_to_depth(cloud.points, cloud.shape, None)
    np.testing.assert_array_equal(depth, frame.depth)
    np.testing.assert_allclose(found.to_array(), K.to_array(), rtol=1e-5)


def test_clouds_that_are_no_image_are_explained(tmp_path: Path) -> None:
    points, _ = organised()
    with pytest.raises(CaptureError, match="needs intrinsics with width and height"):
        cloud_to_depth(points, (), None)
    with pytest.raises(CaptureError, match="do not lie on the rays of their pixels"):
        cloud_to_depth(points[::-1], (K.height, K.width), K)
    with pytest.raises(CaptureError, match=r"no point lies before the camera"):
        cloud_to_depth(points * [1, 1, -1], (K.height, K.width), K)
    write_pcd(tmp_path / "a.pcd", points, "binary")
    whole = (tmp_path / "a.pcd").read_bytes()
    for name, data in {
        "torn.pcd": whole[:-100],
        "many.pcd": whole.replace(b"WIDTH 64", b"WIDTH 9999999999"),
        "mode.pcd": whole.replace(b"DATA binary", b"DATA zipped"),
        "head.pcd": b"FIELDS x y z\n",
        "empty.ply": b"",
        "torn.ply": b"ply\nformat binary_little_endian 1.0\nelement vertex 9\nproperty float x\n"
        b"property float y\nproperty float z\nend_header\n1234",
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CaptureError, match="cannot be read"):
            read_cloud(tmp_path / name)
    write_pcd(tmp_path / "b.pcd", points, "binary_compressed")
    whole = (tmp_path / "b.pcd").read_bytes()
    (tmp_path / "b.pcd").write_bytes(whole[:-200])
    with pytest.raises(CaptureError, match="cannot be read"):
        read_cloud(tmp_path / "b.pcd")


def test_a_recording_gives_back_the_bits(tmp_path: Path) -> None:
    lens = Distortion.from_dict({"model": "brown_conrady", "k1": -0.1, "p2": 0.01})
    bent = Intrinsics(fx=60, fy=60, cx=32, cy=24, width=64, height=48, distortion=lens)
    frames = [
        a_frame(0, time=12.25),
        a_frame(1, intrinsics=bent, colour=np.zeros((48, 64, 3), np.uint8)),
        a_frame(2, segment=np.ones((48, 64), np.uint8), segment_table={"table": 1, "cup": 7},
                T_world_cam=np.eye(4)),
    ]  # fmt: skip
    recorder = Recorder(tmp_path / "r")
    for frame in frames[:2]:
        recorder.write(frame)
    early = open_source(tmp_path / "r")  # not closed: as after a crash
    np.testing.assert_array_equal(early.read().depth, frames[0].depth)
    np.testing.assert_array_equal(early.read().depth, frames[1].depth)
    with pytest.raises(EndOfRecordingError, match="has 2 frames"):
        early.read()
    with pytest.raises(CaptureError, match="holds a recording already"):
        Recorder(tmp_path / "r")
    recorder.write(frames[2])
    recorder.close()
    source = open_source(tmp_path / "r")
    assert isinstance(source, RecordedSource)
    assert len(source) == 3
    for frame in frames:
        back = source.read()
        np.testing.assert_array_equal(back.depth, frame.depth)
        assert back.intrinsics == frame.intrinsics
        assert back.segment_table == frame.segment_table
        assert back.time == frame.time or np.isnan(frame.time)
        for a, b in ((back.colour, frame.colour), (back.segment, frame.segment),
                     (back.T_world_cam, frame.T_world_cam)):  # fmt: skip
            assert (a is None) == (b is None)
            assert a is None or np.array_equal(a, b)
    with pytest.raises(EndOfRecordingError, match="has 3 frames"):
        source.read()
    with pytest.raises(CaptureError, match="holds a recording already"):
        Recorder(tmp_path / "r")


def test_an_old_frame_is_refused() -> None:
    frame = a_frame(time=100.0, name="wrist")
    check_age(frame, 100.2, 0.25)
    with pytest.raises(StaleFrameError, match=r"wrist: the frame is 0\.300 s old, expected at"):
        check_age(frame, 100.3, 0.25)
    with pytest.raises(StaleFrameError):
        check_age(frame, 99.0, 0.25)  # from the future: another clock
    with pytest.raises(StaleFrameError):
        check_age(a_frame(), 100.0, 0.25)  # nobody knows when


def test_a_frame_checks_what_goes_together() -> None:
    ids = np.ones((48, 64), np.uint8)
    for more, message in (
        ({"depth": np.ones((48, 64))}, "expected float32 m, got float64"),
        ({"depth": np.ones((47, 64), np.float32)}, r"expected shape \(48, 64\)"),
        ({"colour": np.zeros((96, 128, 3), np.uint8)}, "align colour to depth first"),
        ({"segment": ids}, "go together"),
        ({"segment": ids * 1.0, "segment_table": {}}, "expected integer ids"),
        ({"T_world_cam": np.diag([1, 1, 2, 1.0])}, "not orthonormal"),
    ):
        with pytest.raises(SchemaError, match=message):
            a_frame(**more)


def soft_intrinsics(rs: Any) -> Any:
    intrinsics = rs.intrinsics()
    intrinsics.width, intrinsics.height = 64, 48
    intrinsics.fx, intrinsics.fy, intrinsics.ppx, intrinsics.ppy = 60.0, 62.0, 32.0, 22.5
    intrinsics.model, intrinsics.coeffs = rs.distortion.brown_conrady, [0.0] * 5
    return intrinsics


def test_a_recording_of_a_realsense_is_played_back(tmp_path: Path) -> None:
    """Written by the library's own recorder, read through the camera's code path."""
    rs = pytest.importorskip("pyrealsense2")
    device = rs.software_device()
    sensor, video = device.add_sensor("Depth"), rs.video_stream()
    video.type, video.index, video.uid, video.fmt = rs.stream.depth, 0, 1, rs.format.z16
    video.width, video.height, video.fps, video.bpp = 64, 48, 30, 2
    video.intrinsics = soft_intrinsics(rs)
    profile = sensor.add_video_stream(video)
    sensor.add_read_only_option(rs.option.depth_units, 0.001)
    device.register_info(rs.camera_info.name, "software")
    file = tmp_path / "tape.db3"
    recorder = rs.recorder(str(file), device)
    recorded = recorder.query_sensors()[0]
    queue = rs.frame_queue(20)
    recorded.open(recorded.get_stream_profiles()[0])
    recorded.start(queue)
    for number in range(1, 5):
        frame = rs.software_video_frame()
        frame.pixels, frame.stride, frame.bpp = np.full((48, 64), 500 + number, np.uint16), 128, 2
        frame.timestamp, frame.frame_number = 1000.0 * number, number
        frame.domain = rs.timestamp_domain.system_time
        frame.profile, frame.depth_units = profile.as_video_stream_profile(), 0.001
        sensor.on_video_frame(frame)
        assert queue.wait_for_frame(60_000).get_frame_number() == number
    recorded.stop()
    recorded.close()
    del recorder
    source = open_source(f"realsense:{file}")
    for number in range(1, 5):
        found = source.read()
        assert found.depth == pytest.approx(0.5 + number / 1000, abs=1e-6)
        assert found.time == number
        assert (found.intrinsics.cx, found.intrinsics.cy) == (32.5, 23.0)
    with pytest.raises(EndOfRecordingError, match="no more frames"):
        source.read()
    source.close()


def test_a_realsense_gives_its_own_points() -> None:
    """The library's own software device: real frames, and the library's own deprojection."""
    rs = pytest.importorskip("pyrealsense2")
    from stages.robot.sources.realsense import RealSenseSource

    device, intrinsics = rs.software_device(), soft_intrinsics(rs)
    sensors = []
    for i, (stream, form, size) in enumerate(
        ((rs.stream.depth, rs.format.z16, 2), (rs.stream.color, rs.format.rgb8, 3))
    ):
        sensor, video = device.add_sensor(str(stream)), rs.video_stream()
        video.type, video.index, video.uid, video.fmt, video.bpp = stream, 0, i + 1, form, size
        video.width, video.height, video.fps, video.intrinsics = 64, 48, 30, intrinsics
        sensors.append((sensor, sensor.add_video_stream(video)))
    sensors[0][0].add_read_only_option(rs.option.depth_units, 0.0005)
    sensors[0][1].register_extrinsics_to(sensors[1][1], rs.extrinsics())
    sync = rs.syncer(4)
    device.create_matcher(rs.matchers.dlr_c)
    for sensor, profile in sensors:
        sensor.open(profile)
        sensor.start(sync)

    rng = np.random.default_rng(0)
    raw = rng.integers(600, 1800, (48, 64)).astype(np.uint16)
    raw[rng.random(raw.shape) < 0.2] = 0
    picture = rng.integers(0, 255, (48, 64, 3)).astype(np.uint8)

    def send(number: int) -> None:
        for (sensor, profile), pixels in zip(sensors, (raw, picture), strict=True):
            frame = rs.software_video_frame()
            frame.pixels, frame.stride = pixels, pixels.strides[0]
            frame.bpp = pixels.strides[1]
            frame.timestamp, frame.frame_number = 1000.0 * number, number
            frame.domain = rs.timestamp_domain.system_time
            frame.profile, frame.depth_units = profile.as_video_stream_profile(), 0.0005
            sensor.on_video_frame(frame)

    class FullSets:
        """The syncer's first sets may lack a stream, as a starting camera's do."""

        def wait_for_frames(self, timeout: int) -> object:
            for number in range(1, 20):
                send(number)
                found = sync.wait_for_frames(timeout)
                if found.get_depth_frame() and found.get_color_frame():
                    return found
            raise RuntimeError("no full frameset")

    source = RealSenseSource("test", frames=FullSets())
    frame = source.read()
    np.testing.assert_array_equal(np.isnan(frame.depth), raw == 0)
    assert np.nanmax(np.abs(frame.depth - raw * 0.0005)) < 1e-6
    assert frame.colour is not None
    assert frame.time == int(frame.time) > 0
    cloud = frame.crop(EVERYTHING)
    row, column = np.divmod(cloud.pixel, 64)
    for i in range(0, len(cloud.points), 97):
        wanted = rs.rs2_deproject_pixel_to_point(
            intrinsics, [float(column[i]), float(row[i])], float(frame.depth[row[i], column[i]])
        )
        np.testing.assert_allclose(cloud.points[i], wanted, atol=1e-6)
    for sensor, _ in sensors:
        sensor.stop()
        sensor.close()
    source.close()
    with pytest.raises(CaptureError, match="is closed"):
        source.read()


def test_a_camera_that_is_not_there_is_explained() -> None:
    pytest.importorskip("pyrealsense2")
    with pytest.raises(CaptureError, match="is the camera plugged in"):
        open_source("realsense:000000000000")


def test_a_frame_s_crop_is_the_crop() -> None:
    frame = a_frame(5, segment=np.ones((48, 64), np.uint8), segment_table={"object:0": 1})
    spec = CropSpec(sampling="random", num_points=64)
    expected = crop_depth(frame.depth, K, spec, seed=3, segment=frame.segment,
                          segment_table={"object:0": 1})  # fmt: skip
    np.testing.assert_array_equal(frame.crop(spec, seed=3).points, expected.points)
