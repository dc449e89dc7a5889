"""Inputs that were made to do harm: they are refused, quickly, with a message."""

import ast
import json
import os
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy_format

from pipeline.config import load_config
from pipeline.errors import UserError
from pipeline.registry import Registry
from schemas.errors import ForeignFileError
from schemas.files import load_npy, read_json
from stages.assets.errors import EscapingPathError, MeshFileError
from stages.assets.hands.errors import HandError
from stages.assets.hands.load import load_hand
from stages.assets.published import published_asset
from stages.assets.sources import expand
from stages.crop.errors import CropError
from stages.crop.files import read_image
from stages.shard.digest import dataset_digest
from stages.shard.errors import DatasetError
from stages.shard.layout import COMMIT, marker_of, seal, sha256_bytes, unseal
from stages.shard.publish import checksums
from stages.shard.read import PointCloudDataset
from stages.shard.verify import verify_dataset

ROOT = Path(__file__).parents[2]
CODE = sorted(p for room in ("pipeline", "schemas", "stages") for p in (ROOT / room).rglob("*.py"))
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
)
"""10^12 values once the aliases are unfolded."""
HOSTILE_YAML = {
    "bomb": BOMB,
    "itself": "a: &a [*a]\n",
    "deep": "a: " + "[" * 500 + "]" * 500,
    "very deep": "[" * 100_000,
    "python": "a: !!python/object/apply:os.mkdir [made-by-yaml]\n",
    "long": "a: " + "x" * 2**21,
    "date": "a: 2020-99-99\n",
    "digits": "seed: " + "9" * 5000,
}


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < 60  # seconds; other programs may be using this machine


@pytest.mark.parametrize("name", HOSTILE_YAML)
def test_yaml_that_unfolds_nests_or_runs(tmp_path: Path, name: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(HOSTILE_YAML[name])
    with pytest.raises(UserError, match="config"):
        load_config(path, registry=Registry())
    with pytest.raises(HandError):
        load_hand(path)
    assert not Path("made-by-yaml").exists()


@pytest.mark.parametrize(
    "base", ["secret", "../secret", "/dev/zero", "/dev/zero.yaml", "a\\0.yaml"]
)
def test_extends_reads_yaml_files_only_and_shows_nothing_of_others(
    tmp_path: Path, base: str
) -> None:
    (tmp_path / "secret").write_text("password: hunter2")
    path = tmp_path / "config.yaml"
    path.write_text(f'extends: "{base}"\n')
    with pytest.raises(UserError) as caught:
        load_config(path, registry=Registry())
    assert "hunter2" not in str(caught.value)


def test_a_device_or_a_folder_is_no_file(tmp_path: Path) -> None:
    for path in (Path("/dev/zero"), tmp_path):
        with pytest.raises((ForeignFileError, OSError)):
            read_json(path)
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(ForeignFileError, match="expected a plain file"):
        read_json(tmp_path / "pipe.json")  # opening it would wait for ever


@pytest.mark.parametrize("entry", ["../out.obj", "in/../../out.obj", "link.obj", "linked/*.obj"])
def test_meshes_come_from_below_the_asset_root(tmp_path: Path, entry: str) -> None:
    root = tmp_path / "root"
    (root / "in").mkdir(parents=True)
    (tmp_path / "out.obj").write_text("v 0 0 0\n")
    (root / "link.obj").symlink_to(tmp_path / "out.obj")
    (root / "linked").symlink_to(tmp_path)
    with pytest.raises(EscapingPathError, match="leaves the folder"):
        expand([entry], root, "CC0")


@pytest.mark.parametrize("file", ["../out.obj", "link.obj", "ABSOLUTE"])
def test_a_grasp_file_names_no_mesh_outside_the_objects(tmp_path: Path, file: str) -> None:
    folder = tmp_path / "objects"
    folder.mkdir()
    (tmp_path / "out.obj").write_text("v 0 0 0\n")
    (folder / "link.obj").symlink_to(tmp_path / "out.obj")
    name = str(tmp_path / "out.obj") if file == "ABSOLUTE" else file
    with pytest.raises(MeshFileError, match="lies outside"):
        published_asset(folder, "thing", 1.0, name)
    with pytest.raises(MeshFileError):
        published_asset(folder, "..", 1.0, "")
    with pytest.raises(MeshFileError):
        published_asset(folder, "a\0b", 1.0, "")


def test_a_header_that_promises_more_than_follows(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (2**20, 2**20)}
        npy_format.write_array_header_1_0(file, header)
        file.write(bytes(64))
    with pytest.raises(ForeignFileError, match="but 64 follow"):
        load_npy(path)
    np.save(path, np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(ForeignFileError):
        load_npy(path)


def test_a_picture_of_a_gigapixel(tmp_path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        tail = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + tail

    header = struct.pack(">IIBBBBB", 2**16, 2**14, 16, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    (tmp_path / "d.png").write_bytes(data + chunk(b"IDAT", zlib.compress(bytes(99))))
    with pytest.raises(CropError, match=r"over \d+ pixels|Decompression"):
        read_image(tmp_path / "d.png")


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    with zipfile.ZipFile(ROOT / "tests" / "fixtures" / "dataset_schema_1.zip") as archive:
        archive.extractall(tmp_path)
    return tmp_path


def reseal(out: Path, shard: Path, **changes: object) -> None:
    """Checksums that are right again, as whoever forges a dataset would write them."""
    marker = marker_of(shard)
    marker.write_bytes(seal(unseal(marker) | {"files": checksums(shard)} | changes))
    body = unseal(out / COMMIT)
    body["shards"][shard.name] = sha256_bytes(marker.read_bytes())
    (out / COMMIT).write_bytes(seal(body))


FORGED = {
    "shape": {"shape": [2**45, 3]},
    "negative": {"shape": [-1, 3]},
    "chunk": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**40, 3]}},
              "codecs": [{"name": "bytes"}]},
    "no chunk": {"chunk_grid": {}, "codecs": []},
    "dtype": {"data_type": "object"},
    "codec": {"codecs": [{"name": "pickle"}]},
    "kind": {"node_type": "shell"},
    "attributes": {"attributes": [1]},
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_zarr_metadata(dataset: Path, name: str) -> None:
    shard = dataset / "shards" / "train-00000.zarr"
    path = shard / "points" / "zarr.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | FORGED[name]))
    reseal(dataset, shard)
    assert verify_dataset(dataset)
    with pytest.raises(DatasetError):
        dataset_digest(dataset)


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "a\0b", ""])
def test_a_marker_names_files_of_its_shard_only(dataset: Path, name: str) -> None:
    shard = dataset / "shards" / "train-00000.zarr"
    reseal(dataset, shard, files=checksums(shard) | {name: [7, "0" * 64]})
    assert any("no file of its shard" in p.message for p in verify_dataset(dataset))
    with pytest.raises(DatasetError, match="no file of its shard"):
        PointCloudDataset(dataset)[0]


def test_a_commit_names_shards_by_their_names_only(dataset: Path) -> None:
    body = unseal(dataset / COMMIT)
    body["shards"]["../../other.zarr"] = "0" * 64
    (dataset / COMMIT).write_bytes(seal(body))
    with pytest.raises(DatasetError, match="not written by this program"):
        PointCloudDataset(dataset)
    assert verify_dataset(dataset)


def test_a_link_in_a_shard_is_not_followed(dataset: Path) -> None:
    shard = dataset / "shards" / "train-00000.zarr"
    victim = next(p for p in sorted((shard / "points" / "c").rglob("*")) if p.is_file())
    elsewhere = dataset.parent / "elsewhere"
    victim.rename(elsewhere)
    victim.symlink_to(elsewhere)
    assert any("a link" in p.message for p in verify_dataset(dataset))
    with pytest.raises(DatasetError):
        PointCloudDataset(dataset)[0]


def test_no_code_unpickles_evaluates_or_unpacks_archives() -> None:
    """`pickled.py` alone reads pickles, with an unpickler that runs nothing (its own tests).

    `export.py` writes tar files, and nothing unpacks one.
    """
    banned = {"ZipFile", "eval", "exec", "extractall", "extractfile", "full_load", "unsafe_load"}
    modules = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "tarfile"}
    for path in CODE:
        if path.name == "pickled.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                written = {"tarfile"} if path.name == "export.py" else set()
                assert not (modules - written) & {n.split(".")[0] for n in names}, path
            elif isinstance(node, ast.Call):
                f = node.func
                name = f.id if isinstance(f, ast.Name) else getattr(f, "attr", "")
                assert name not in banned, f"{path}: {name}"
                owner = f.value.id if isinstance(f, ast.Attribute) and isinstance(
                    f.value, ast.Name) else ""  # fmt: skip
                assert (owner, name) != ("yaml", "load"), path
                if (owner, name) == ("np", "load"):
                    allow = {k.arg: k.value for k in node.keywords}.get("allow_pickle")
                    assert allow is None or getattr(allow, "value", None) is False, path
