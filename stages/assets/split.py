"""Train, val or test, by object id: never by sort order, never by the other objects."""

import hashlib
from collections.abc import Iterable

from stages.assets.config import AssetsConfig
from stages.assets.errors import AssetConfigError


def unit_hash(object_id: str) -> float:
    """Number in [0, 1) that depends on the id alone; sha256, 53 bits."""
    digest = hashlib.sha256(f"split:{object_id}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53


def split_of(object_id: str, config: AssetsConfig) -> str:
    """ "train", "val" or "test"."""
    for split, ids in config.split_ids().items():
        if object_id in ids:
            return split
    u = unit_hash(object_id)
    if u < config.train_fraction:
        return "train"
    # the 1e-12 keeps 0.8 + 0.2 from leaving a sliver of test
    return "val" if u < config.train_fraction + config.val_fraction + 1e-12 else "test"


def check_named(object_ids: Iterable[str], config: AssetsConfig) -> None:
    """Raise when a split names an object that is not among `object_ids`: most likely a typo."""
    known = set(object_ids)
    problems = [
        f"{split}_ids names {sorted(set(ids) - known)}"
        for split, ids in config.split_ids().items()
        if set(ids) - known
    ]
    if problems:
        raise AssetConfigError(
            f"assets: {'; '.join(problems)}, not among the {len(known)} objects of assets.objects;"
            " correct the ids or add the objects"
        )
