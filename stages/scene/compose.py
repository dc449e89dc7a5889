"""Which objects meet in which scene.

By rendezvous hashing (Thaler and Ravishankar 1998): every (scene, object) pair has a score, and a
scene takes the objects with the highest. So neither the order of the objects nor the number of
scenes matters, and a new object changes only the scenes in which it wins.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

from stages.scene.config import SceneConfig


def score(*names: object) -> int:
    """64-bit number that depends on the names alone."""
    text = "\0".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def choose_objects(
    scene_id: str, kind: str, splits: Mapping[str, str], config: SceneConfig
) -> tuple[str, Sequence[str]] | None:
    """(split, object ids) of a scene, or None when no split has enough objects.

    `splits` maps object id to split. The best-scoring object decides the split, so splits get
    scenes in proportion to their objects.
    """
    seed = config.composition_seed
    least, most = 1, 1
    if kind == "clutter":
        least, most = config.clutter_min, config.clutter_max
    elif kind == "granular":
        least, most = config.granular_min, config.granular_max
    wanted = least
    if most > least:
        wanted += score(seed, scene_id, "count") % (most - least + 1)
    sizes = Counter(splits.values())
    able = [oid for oid, split in splits.items() if sizes[split] >= least]
    if not able:
        return None
    head = hashlib.sha256(f"{seed}\0{scene_id}\0".encode())  # the same for every object

    def rank(oid: str) -> tuple[bytes, str]:
        found = head.copy()
        found.update(oid.encode())
        return found.digest()[:8], oid  # as bytes, big-endian, in the order of `score`

    ranked = sorted(able, key=rank, reverse=True)
    split = splits[ranked[0]]
    return split, [oid for oid in ranked if splits[oid] == split][:wanted]
