"""Whatever a foreign file holds: a value, or the room's own error with a message. In time."""

import io
import json
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import trimesh
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.config import load_config
from pipeline.errors import CorruptBlockError, UserError
from pipeline.registry import Registry
from pipeline.saved import load_saved
from pipeline.store import Store
from schemas.errors import SchemaError
from stages.assets.config import AssetsConfig
from stages.assets.errors import MeshFileError
from stages.assets.hands.errors import HandError, HandNotFoundError, UnknownHandKeyError
from stages.assets.hands.load import HANDS_DIR, load_hand
from stages.assets.lint import lint
from stages.assets.load import load_mesh
from stages.crop import CropSpec
from stages.crop.errors import CropError
from stages.crop.files import parse_intrinsics, read_image, read_spec, read_transform, to_metres
from stages.grasp.errors import GraspFormatError
from stages.grasp.formats import read_grasps, write_grasps
from stages.render.cameras import load_poses
from stages.render.errors import CameraFileError
from stages.shard.errors import DatasetError
from stages.shard.layout import COMMIT, seal
from stages.shard.open import array_nodes, load_commit, load_manifest
from tests.stages.grasp.formats_data import random_set, shadow

LIMIT_S = 20
"""A reader that takes longer hangs. Most answer in milliseconds."""


@contextmanager
def in_time() -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"the reader took more than {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a foreign number may overflow; that is no error
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """`sound` are whole files that are then damaged; `keys` are put into made-up JSON and YAML."""

    name: str
    sound: tuple[bytes, ...]
    read: Callable[[Path], Any]
    errors: tuple[type[Exception], ...]
    keys: tuple[str, ...] = ()


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def png(array: Any) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(array).save(out, "png")
    return out.getvalue()


def mesh_bytes(suffix: str) -> bytes:
    data = trimesh.creation.box((0.1, 0.1, 0.1)).export(file_type=suffix)
    return data.encode() if isinstance(data, str) else data


def read_mesh(path: Path) -> None:
    mesh = load_mesh(path.read_bytes(), path.suffix, colour=True)
    lint(mesh, AssetsConfig().min_extent, AssetsConfig().max_extent)


POSES = np.eye(4)[None].repeat(2, 0)
K = {"fx": 100.0, "fy": 100.0, "cx": 8.0, "cy": 6.0, "width": 16, "height": 12}
LENS = {"distortion": {"model": "brown_conrady", "k1": 0.1}}
SPEC = CropSpec(box_min=(-1, -1, -1), box_max=(1, 1, 1))
MANIFEST = json.dumps({"crop": SPEC.to_dict(), "crop_digest": SPEC.digest()}).encode()
HAND = (HANDS_DIR / "panda_gripper.yaml").read_bytes()
CONFIG = b"""\
seed: 1
assets: {objects: [a.obj], scale: 0.5}
scene: {floating: 1}
render: {views: 2}
"""
NODE = {
    "zarr_format": 3, "node_type": "array", "shape": [4, 3], "data_type": "float32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 3]}},
    "codecs": [{"name": "bytes"}], "attributes": {},
}  # fmt: skip


def zarr_node(path: Path) -> None:
    (path.parent / "zarr.json").write_bytes(path.read_bytes())
    array_nodes(path.parent)


def commit(path: Path) -> None:
    """As a stranger would write it, with a checksum that is right."""
    data = path.read_bytes()
    (path.parent / COMMIT).write_bytes(data)
    try:
        body = json.loads(data)
        if isinstance(body, dict):
            (path.parent / COMMIT).write_bytes(seal(body))
    except (ValueError, RecursionError):
        pass
    load_commit(path.parent)
    load_manifest(path.parent)


def marker(path: Path) -> None:
    Store(path.parents[1]).read_marker(path)


def saved(path: Path) -> None:
    (path.parent / "run.json").write_bytes(path.read_bytes())
    load_saved(path.parent, Registry())


MESH, HAND_ERRORS = (MeshFileError,), (HandError, HandNotFoundError, UnknownHandKeyError)
CROP = (CropError, SchemaError)
CROP_KEYS = (*SPEC.to_dict(), "crop", "crop_digest")
READERS = [
    *(Reader(name=f"mesh.{s}", sound=(mesh_bytes(s),), read=read_mesh, errors=MESH)
      for s in ("obj", "stl", "ply", "glb", "dae", "off")),
    Reader(name="poses.npy", sound=(npy(POSES),), read=load_poses,
           errors=(CameraFileError, SchemaError)),
    Reader(name="poses.json", sound=(json.dumps(POSES.tolist()).encode(),), read=load_poses,
           errors=(CameraFileError, SchemaError)),
    Reader(name="pose.npy", sound=(npy(np.eye(4)),), read=read_transform, errors=CROP),
    Reader(name="pose.json", sound=(json.dumps(np.eye(4).tolist()).encode(),),
           read=read_transform, errors=CROP),
    Reader(name="depth.npy", sound=(npy(np.ones((4, 5), np.float32)), npy(np.ones((4, 5), "u2"))),
           read=lambda p: to_metres(read_image(p), None), errors=CROP),
    Reader(name="depth.png", sound=(png(np.full((4, 5), 700, np.uint16)),),
           read=lambda p: to_metres(read_image(p), None), errors=CROP),
    Reader(name="K.json", sound=(json.dumps(K | LENS).encode(),),
           read=lambda p: parse_intrinsics(str(p), (12, 16)), errors=CROP,
           keys=(*K, "K", "distortion", "model", "k1")),
    Reader(name="crop.json", sound=(json.dumps(SPEC.to_dict()).encode(), MANIFEST),
           read=read_spec, errors=CROP, keys=CROP_KEYS),
    Reader(name="hand.yaml", sound=(HAND,), read=load_hand, errors=HAND_ERRORS,
           keys=tuple(yaml.safe_load(HAND))),
    Reader(name="config.yaml", sound=(CONFIG,),
           read=lambda p: load_config(p, registry=Registry()), errors=(UserError,),
           keys=("seed", "extends", "assets", "objects", "scene", "floating", "render", "camera",
                 "crop", "grasp", "hands", "label", "physics", "workers", "shard")),
    Reader(name="node.json", sound=(json.dumps(NODE).encode(),), read=zarr_node,
           errors=(DatasetError,), keys=tuple(NODE)),
    Reader(name="commit.json", sound=(b'{"schema_version": 1, "shards": {}, "files": {}}',),
           read=commit, errors=(DatasetError,), keys=("schema_version", "shards", "files")),
    Reader(name="marker.json", sound=(b'{"layout": 1, "rows": [], "stage": "a"}',), read=marker,
           errors=(CorruptBlockError,), keys=("layout", "rows", "stage", "block", "sha256")),
    Reader(name="saved.json", sound=(b'{"seed": 0, "scene": {"floating": 1}}',), read=saved,
           errors=(UserError,), keys=("seed", "scene", "floating", "render", "crop")),
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, sound: tuple[bytes, ...]) -> bytes:
    """A sound file with some bytes changed, cut out or put in; or cut short."""
    data = bytearray(draw(st.sampled_from(sound)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        act = draw(st.sampled_from(["change", "insert", "delete", "cut", "digit"]))
        if act == "change" and data:
            data[at] = draw(st.integers(0, 255))
        elif act == "insert":
            data[at:at] = draw(st.binary(max_size=12))
        elif act == "delete":
            del data[at : at + draw(st.integers(1, 40))]
        elif act == "cut":
            del data[at:]
        else:
            digits = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
            if digits:
                i = draw(st.sampled_from(digits))
                data[i : i + 1] = draw(st.sampled_from([b"99999999", b"-1", b"nan", b"1e999"]))
    return bytes(data)


def made_up(keys: tuple[str, ...]) -> st.SearchStrategy[bytes]:
    """JSON, which is YAML as well: the right keys with anything in them."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(10**20), 10**20)
        | st.floats()
        | st.text(max_size=8)
        | st.sampled_from(keys or ("a",))
    )
    names = st.sampled_from(keys) | st.text(max_size=4) if keys else st.text(max_size=4)
    values = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=6),
        max_leaves=12,
    )
    return values.map(lambda value: json.dumps(value).encode())


def check(path: Path, reader: Reader, data: bytes) -> None:
    path.write_bytes(data)
    said = "a value says nothing"
    with in_time():
        try:
            reader.read(path)
        except reader.errors as error:
            said = str(error)
    assert len(said) > 10


FUZZ = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_a_sound_file_reads(reader: Reader, tmp_path: Path) -> None:
    if reader.name not in ("commit.json", "marker.json"):  # those are only begun here
        for data in reader.sound:
            (tmp_path / reader.name).write_bytes(data)
            reader.read(tmp_path / reader.name)


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_any_bytes_are_a_value_or_an_error_of_the_room(reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / reader.name
    anything = damaged(reader.sound) | st.binary(max_size=200)
    if path.suffix in (".json", ".yaml"):
        anything = anything | made_up(reader.keys)

    @FUZZ
    @given(data=anything)
    def fuzz(data: bytes) -> None:
        check(path, reader, data)

    fuzz()


@pytest.mark.parametrize("format_", ["acronym", "dexgraspbench", "dexgraspnet", "graspgen"])
def test_any_grasp_file_is_grasps_or_a_format_error(format_: str, tmp_path: Path) -> None:
    jaw = format_ in ("acronym", "graspgen")
    hand = load_hand("panda_gripper") if jaw else shadow(tmp_path)
    suffix = {"acronym": ".h5", "graspgen": ".json"}.get(format_, ".npy")
    path = tmp_path / f"grasps{suffix}"
    placed = format_ == "dexgraspbench"
    grasps = random_set(hand, 3, 3, placed=placed)
    if format_ == "dexgraspnet":  # it holds successes alone
        assert grasps.success is not None
        grasps = grasps.select(grasps.success)
    write_grasps(path, format_, [grasps], hand)
    reader = Reader(
        name=path.name,
        sound=(path.read_bytes(),),
        read=lambda p: read_grasps(p, format_, hand),
        errors=(GraspFormatError,),
        keys=("object", "file", "scale", "grasps", "transforms", "object_in_gripper"),
    )
    anything = damaged(reader.sound) | st.binary(max_size=200)

    @FUZZ
    @given(data=anything | made_up(reader.keys) if suffix == ".json" else anything)
    def fuzz(data: bytes) -> None:
        check(path, reader, data)

    fuzz()
