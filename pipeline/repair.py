"""What is broken or no longer needed in an output, and taking exactly that away.

Nothing is made here: the next run makes again what it then finds missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.graph import parse_targets
from pipeline.ledger import scan
from pipeline.plan import make_plan
from pipeline.registry import Registry
from pipeline.saved import load_saved
from pipeline.store import VERSION_TEXT, Store
from pipeline.verify import Finding, verify_output
from stages.shard.errors import DatasetError
from stages.shard.layout import COMMIT, INDEX, MANIFEST, SHARD_NAME, SHARDS, marker_of
from stages.shard.open import load_commit
from stages.storage import is_remote, remove_tree, write_bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Removal:
    """Files or folders that go together, in this order: markers before what they promise."""

    paths: tuple[Path, ...]
    why: str

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        files = [f for p in self.paths for f in ([p] if not p.is_dir() else p.rglob("*"))]
        return sum(_size(f) for f in files)


def _size(path: Path) -> int:
    if not is_remote(path) and path.is_symlink():
        return path.lstat().st_size
    return path.stat().st_size if path.is_file() else 0


def plan_repair(out: Path, registry: Registry) -> tuple[list[Removal], list[Finding]]:
    """What to drop, and findings that dropping does not mend (with what does).

    A broken shard takes the dataset's commit with it, since a dataset without one of its shards
    is not complete. Shards and blocks that are sound stay.
    """
    store = Store(out)
    _, findings, _ = verify_output(out, registry)
    whys: dict[tuple[Path, ...], list[str]] = {}
    left: list[Finding] = []
    for finding in findings:
        paths = _broken(store, finding)
        if paths:
            whys.setdefault(paths, []).append(finding.message)
        elif finding.kind != "version":
            left.append(finding)
    commit = (out / COMMIT,)
    broken_dataset = any(paths[0].is_relative_to(out / SHARDS) for paths in whys)
    if broken_dataset and (out / COMMIT).exists():
        whys.setdefault(commit, []).append("names what is dropped; the next run writes it again")
    order = sorted(whys, key=lambda paths: (paths != commit, paths))
    return [Removal(paths=p, why=_first(whys[p])) for p in order], left


def _first(whys: Sequence[str]) -> str:
    return whys[0] if len(whys) == 1 else f"{whys[0]} (and {len(whys) - 1} more)"


def _broken(store: Store, finding: Finding) -> tuple[Path, ...]:
    """Everything that goes because of one finding; empty when nothing should."""
    path = store.out / finding.place
    if finding.kind == "block":
        return (path, store.npz_path(path.parent.name, path.stem))
    if finding.kind in ("orphan", "config"):
        return (path,)
    if finding.kind == "version" or not finding.kind.startswith("dataset"):
        return ()
    parts = Path(finding.place).parts
    if parts[0] in (COMMIT, INDEX, MANIFEST):
        return () if finding.kind == "dataset version" else (path,)
    name = parts[1].removesuffix(".commit.json")
    plain = name.removeprefix(".tmp-").removeprefix("old-")
    if not SHARD_NAME.fullmatch(plain):
        return ()  # not ours
    if plain != name:
        return (path,)
    shard = store.out / SHARDS / name
    return (marker_of(shard), shard)


def plan_prune(out: Path, registry: Registry) -> tuple[list[Removal], int]:
    """Removals, and how many broken blocks were left to `repair`.

    A block goes when the config of the last run needs none of its items from it: that config, and
    not an older one, says what is current.
    """
    store = Store(out)
    store.check_version()
    config = load_saved(out, registry)
    plans = make_plan(config, parse_targets("all", registry), registry)
    ledger = scan(store, list(registry.stages), deep=False)
    needed = {
        (name, entry.block)
        for name, plan in plans.items()
        for key in plan.keys.values()
        if (entry := ledger.find(name, key))
    }
    broken = {(stage, block) for stage, block, _ in ledger.corrupt}
    removals: list[Removal] = []
    for name in registry.stages:
        for marker in store.markers(name):
            place = (name, marker.stem)
            if place not in needed | broken:
                paths = (marker, store.npz_path(*place))
                removals.append(Removal(paths=paths, why="the config of the last run needs it not"))
    left = "left by a writer that was killed"
    removals += [Removal(paths=(p,), why=left) for p in [*store.temporaries(), *store.orphans()]]
    return removals + _stale_shards(out), len(broken)


def _stale_shards(out: Path) -> list[Removal]:
    try:
        named = set(load_commit(out)["shards"])
    except DatasetError:
        named = None  # a commit that does not read vouches for nothing, so shards stay
    removals: list[Removal] = []
    for path in sorted((out / SHARDS).glob("*")):
        name = path.name.removeprefix(".tmp-").removeprefix("old-").removesuffix(".commit.json")
        if not SHARD_NAME.fullmatch(name):
            continue
        if path.name.startswith(".tmp-"):
            removals.append(Removal(paths=(path,), why="left by a writer that was killed"))
        elif named is not None and name not in named:
            removals.append(Removal(paths=(path,), why="not part of the dataset"))
    return removals


def remove(store: Store, removals: Sequence[Removal]) -> None:
    """Take away what a plan lists. The caller holds the output's lock."""
    for removal in removals:
        for path in removal.paths:
            remove_tree(path)


def mend_version(store: Store) -> bool:
    """Write a torn version file again; True when it was torn."""
    torn = store.version_is_torn()
    if torn:
        write_bytes(store.out / "version", VERSION_TEXT)
    return torn
