"""A dataset as files of other formats: WebDataset tars, PLY or NPZ; nothing is rounded.

TO/dataset.json                the manifest
TO/<split>-grasps.npz          every array of the grasp shard by its path: grasps, labels, meshes
TO/<split>-grasps.json         attributes of its groups: joint names, outcome codes, object ids
npz: TO/<split>/<key>.npz      arrays of one cloud
ply: TO/<split>/<key>.ply      x y z, normals, colours, segment of one cloud, and <key>.json
webdataset: TO/<split>-NNNNN.tar   of each cloud <key>.<array>.npy and <key>.json

`key` is the scene id and the view. Arrays are those of `CloudTable.read`, without visibility.
"""

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.shard.clouds import CloudTable
from stages.shard.errors import ExportError, UnknownChoiceError
from stages.shard.layout import MANIFEST, grasps_name
from stages.shard.open import check_shard, load_commit, load_manifest, read_shard
from stages.storage import sync

FORMATS = ("webdataset", "ply", "npz")
CLOUDS_PER_TAR = 1024
BLOCK = 64
"""Clouds that are read at once."""

Cloud = dict[str, Any]
Array = NDArray[Any]


def export_dataset(out: Path, to: Path, *, format_: str, split: str | None = None) -> int:
    """Write the clouds of a split (None: of all) to the new folder `to`; returns their number.

    `to` appears when all of it is written. Raises ExportError when something is there already.
    """
    if format_ not in FORMATS:
        raise UnknownChoiceError("format", format_, FORMATS)
    manifest = load_manifest(out)
    splits = sorted(manifest["splits"]) if split is None else [split]
    if unknown := set(splits) - set(manifest["splits"]):
        raise UnknownChoiceError("split", unknown.pop(), manifest["splits"])
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ExportError(f"{to} is there already; name a new folder, or remove it")
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(f".tmp-{to.name}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    count = 0
    try:
        (part / MANIFEST).write_bytes((out / MANIFEST).read_bytes())
        for name in splits:
            _write_grasps(out, part, name)
            count += _WRITERS[format_](part, name, _clouds(out, name))
        for path in [*part.rglob("*"), part]:
            sync(path)
        if to.exists():
            to.rmdir()
        os.rename(part, to)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    sync(to.parent)
    return count


def _clouds(out: Path, split: str) -> Iterator[tuple[str, Cloud]]:
    table = CloudTable(out=out, split=split)
    seen: set[str] = set()
    for start, stop in table.blocks(BLOCK):
        for cloud in table.read(start, stop):
            # A dot would end the key of a WebDataset sample.
            key = f"{cloud['scene_id']}-{cloud['view']:04d}".replace(".", "_").replace("/", "_")
            if key in seen:
                raise ExportError(f"two clouds would be called {key}; rename a scene")
            seen.add(key)
            yield key, {k: v for k, v in cloud.items() if k != "index"} | {"frame": table.frame}


def _write_grasps(out: Path, part: Path, split: str) -> None:
    commit = load_commit(out)
    if grasps_name(split) not in commit["shards"]:
        return
    content = read_shard(check_shard(out, grasps_name(split), commit))
    _save_npz(part / f"{split}-grasps.npz", content.arrays)
    (part / f"{split}-grasps.json").write_bytes(_json(content.groups))


def _save_npz(path: Path, arrays: dict[str, Array]) -> None:
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]


def _json(value: Any) -> bytes:
    def plain(v: Any) -> Any:
        return v.tolist()

    return json.dumps(value, indent=1, default=plain).encode()


def _arrays(cloud: Cloud) -> dict[str, Array]:
    return {k: v for k, v in cloud.items() if isinstance(v, np.ndarray)}


def _npz(part: Path, split: str, clouds: Iterator[tuple[str, Cloud]]) -> int:
    (part / split).mkdir()
    count = 0
    for key, cloud in clouds:
        rest = {k: np.asarray(v) for k, v in cloud.items()}
        rest["object_ids"] = np.asarray(cloud["object_ids"], np.str_)
        _save_npz(part / split / f"{key}.npz", rest)
        count += 1
    return count


def _ply(part: Path, split: str, clouds: Iterator[tuple[str, Cloud]]) -> int:
    (part / split).mkdir()
    count = 0
    for key, cloud in clouds:
        (part / split / f"{key}.ply").write_bytes(ply_bytes(cloud))
        about = {k: v for k, v in cloud.items() if k not in _PLY}
        (part / split / f"{key}.json").write_bytes(_json(about))
        count += 1
    return count


_PLY: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "points": ("<f4", "float", ("x", "y", "z")),
    "normals": ("<f4", "float", ("nx", "ny", "nz")),
    "colour": ("u1", "uchar", ("red", "green", "blue")),
    "segment": ("<u2", "ushort", ("segment",)),
}


def ply_bytes(cloud: Cloud) -> bytes:
    """Binary PLY of what `cloud` has per point: x y z in metres, normals, colours, segment."""
    there = {key: spec for key, spec in _PLY.items() if key in cloud}
    types = [(name, dtype) for dtype, _, names in there.values() for name in names]
    vertex = np.empty(len(cloud["points"]), types)
    for key, (_, _, names) in there.items():
        columns = cloud[key].reshape(len(vertex), len(names))
        for i, name in enumerate(names):
            vertex[name] = columns[:, i]
    lines = ["ply", "format binary_little_endian 1.0", "comment metres"]
    lines += [f"comment frame {cloud['frame']}", f"element vertex {len(vertex)}"]
    lines += [f"property {kind} {n}" for _, kind, names in there.values() for n in names]
    return ("\n".join([*lines, "end_header"]) + "\n").encode() + vertex.tobytes()


def _webdataset(part: Path, split: str, clouds: Iterator[tuple[str, Cloud]]) -> int:
    count, tar = 0, None
    try:
        for key, cloud in clouds:
            if count % CLOUDS_PER_TAR == 0:
                if tar is not None:
                    tar.close()
                name = f"{split}-{count // CLOUDS_PER_TAR:05d}.tar"
                tar = tarfile.open(part / name, "w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115
            assert tar is not None
            arrays = _arrays(cloud)
            for name, array in arrays.items():
                buffer = io.BytesIO()
                np.save(buffer, array, allow_pickle=False)
                _add(tar, f"{key}.{name}.npy", buffer.getvalue())
            _add(tar, f"{key}.json", _json({k: v for k, v in cloud.items() if k not in arrays}))
            count += 1
    finally:
        if tar is not None:
            tar.close()
    return count


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)  # owner and time stay 0, so that equal clouds give equal tars
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


_WRITERS: dict[str, Callable[[Path, str, Iterator[tuple[str, Cloud]]], int]] = {
    "webdataset": _webdataset,
    "ply": _ply,
    "npz": _npz,
}
