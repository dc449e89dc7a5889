"""Content keys and seeds: what an item is decides whether it is done and how it is drawn."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

from stages.contract import Item


def plain(value: Any, *, content_only: bool = False) -> Any:
    """`value` as JSON values.

    `content_only` leaves out fields marked PLAN_ONLY, and those marked OPTIONAL that have their
    default, at any depth.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: plain(getattr(value, f.name), content_only=content_only)
            for f in fields(value)
            if not (content_only and _keyless(f, getattr(value, f.name)))
        }
    if isinstance(value, Mapping):
        return {str(k): plain(v, content_only=content_only) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, content_only=content_only) for v in value]
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, PurePath):
        return value.as_posix()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    tolist = getattr(value, "tolist", None)  # numpy scalars and arrays
    if callable(tolist):
        return plain(tolist())
    raise TypeError(
        f"{type(value).__name__} has no canonical JSON form; use numbers, strings, lists, "
        "mappings or dataclasses"
    )


def _keyless(f: "Field[Any]", value: Any) -> bool:
    if f.metadata.get("optional"):
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        return value == default
    return bool(f.metadata.get("plan_only"))


def canonical_json(value: Any) -> str:
    """One text per value: sorted keys, no spaces, shortest round-trip floats, no NaN."""
    return json.dumps(
        plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True
    )


def digest(value: Any) -> str:
    """sha256 (hex) of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def record_schema(record: type) -> str:
    """Digest of a record's field names and types: another shape of record is another key.

    Fields with a default came later and are empty unless asked for: `decode` fills them in.
    """
    return digest([[f.name, str(f.type)] for f in fields(record) if _required(f)])


def _required(f: "Field[Any]") -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def config_digest(config: Any) -> str:
    """Digest of a stage's config without what only says how much to do."""
    return digest(plain(config, content_only=True))


def own_key(
    *, stage: str, version: int, schema: str, config: str, root_seed: int, item: Item
) -> str:
    """Key of an item apart from its inputs: stage, code version, config, seed, id and params."""
    return OwnKeys(stage, version, schema, config, root_seed)(item)


class OwnKeys:
    """`own_key` of many items of one stage: what they share is hashed once.

    The bytes that are hashed are the canonical JSON of [stage, version, schema, config, root
    seed, id, params].
    """

    def __init__(self, stage: str, version: int, schema: str, config: str, root_seed: int) -> None:
        head = canonical_json([stage, version, schema, config, root_seed])
        self._head = hashlib.sha256(head[:-1].encode())

    def __call__(self, item: Item) -> str:
        found = self._head.copy()
        found.update(f",{json.dumps(item.id)},{canonical_json(item.params)}]".encode())
        return found.hexdigest()


def item_key(own: str, input_keys: Sequence[str]) -> str:
    """Content key: its own part and the keys of its inputs, in the item's order."""
    keys = ",".join(f'"{key}"' for key in input_keys)  # hexadecimal needs no escapes
    return hashlib.sha256(f'["{own}",[{keys}]]'.encode()).hexdigest()


def _words(text: str) -> list[int]:
    raw = hashlib.sha256(text.encode()).digest()
    return [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]


@dataclass(frozen=True, slots=True)
class Seeds:
    """`item_seed` of one stage by item id: a worker computes them, so that nobody else has to."""

    root_seed: int
    stage: str

    def __getitem__(self, item_id: str) -> int:
        return item_seed(self.root_seed, self.stage, item_id)


def item_seed(root_seed: int, stage: str, item_id: str) -> int:
    """64-bit seed from identity alone: neither order, nor block, nor worker takes part."""
    from numpy.random import SeedSequence

    entropy = [root_seed, *_words(stage), *_words(item_id)]
    low, high = SeedSequence(entropy).generate_state(2, dtype="uint32").tolist()
    return low | (high << 32)
