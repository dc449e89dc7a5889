"""Names and small files of a dataset directory: canonical JSON, self-checked markers.

OUT/dataset.json, OUT/index.parquet, OUT/dataset.commit.json
OUT/shards/<split>-NNNNN.zarr, OUT/shards/<split>-grasps.zarr, each with `<name>.commit.json`

The dataset's commit names the checksum of every shard's marker, and a marker that of every file
of its shard, so one small file vouches for all the rest.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from schemas.files import JSON_LIMIT, read_limited
from stages.shard.errors import DatasetError
from stages.storage import write_bytes

MANIFEST, INDEX, COMMIT = "dataset.json", "index.parquet", "dataset.commit.json"
SHARDS = "shards"
SPLITS = ("train", "val", "test")
SHARD_NAME = re.compile(r"[A-Za-z0-9_]+-(\d{5}|grasps)\.zarr")
CHOICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # hands, protocols: safe as a folder
SEAL = "sha256_of_the_rest"


def shard_name(split: str, number: int) -> str:
    return f"{split}-{number:05d}.zarr"


def grasps_name(split: str) -> str:
    return f"{split}-grasps.zarr"


def marker_of(shard: Path) -> Path:
    return shard.with_name(shard.name + ".commit.json")


def canonical(value: Any, indent: int | None = None) -> bytes:
    """JSON bytes that depend on the value only; NaN and infinity are refused."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(
        value, sort_keys=True, separators=separators, indent=indent, allow_nan=False,
        ensure_ascii=False,
    )  # fmt: skip
    return (text + "\n").encode()


def sha256_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def seal(body: dict[str, Any]) -> bytes:
    """A marker's bytes: the body and the checksum of the body, in canonical form."""
    return canonical(body | {SEAL: sha256_bytes(canonical(body))}, indent=1)


def unseal(path: Path) -> dict[str, Any]:
    """The body of a marker; raises DatasetError when a single byte of it was changed."""
    try:
        data = read_limited(path, JSON_LIMIT)
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such marker, so nothing beside it may be read") from None
    try:
        body = json.loads(data)
        body.pop(SEAL)
        sound = seal(body) == data
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DatasetError(f"{path}: not a marker ({error}); write the dataset again") from None
    if not sound:
        raise DatasetError(f"{path}: damaged, its checksum differs; write the dataset again")
    return body


def publish_bytes(path: Path, data: bytes) -> bool:
    """Atomically put `data` at `path`; False when these bytes were there already."""
    if path.is_file() and path.read_bytes() == data:
        return False
    write_bytes(path, data, temporary=path.with_name(f".tmp-{path.name}"))
    return True
