"""Every block and the dataset, checked against what they promise."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import CorruptBlockError, UserError
from pipeline.registry import Registry
from pipeline.saved import SAVED, read_saved
from pipeline.store import Store
from schemas.errors import SchemaError
from schemas.records import decode
from schemas.validate import problems


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """`place` is relative to the output. `kind`: block, orphan, version, config, or one of the
    dataset's problems (stages/shard/verify.py) with "dataset " before it."""

    place: str
    message: str
    kind: str = "block"


def verify_blocks(store: Store, registry: Registry) -> tuple[int, list[Finding]]:
    """(blocks looked at, findings): markers, checksums, record schema, frames and units."""
    findings: list[Finding] = []
    count = 0
    for name in registry.stages:
        record_type = registry.stage(name).record
        for path in store.markers(name):
            count += 1
            place = path.relative_to(store.out).as_posix()
            try:
                marker = store.read_marker(path)
                store.check(marker)
                for index, arrays in store.read_arrays(marker).items():
                    for problem in problems(decode(record_type, arrays)):
                        message = f"record {index}: {problem}"
                        findings.append(Finding(place=place, message=message))
            except (CorruptBlockError, SchemaError, ValueError, OSError) as error:
                findings.append(Finding(place=place, message=str(error)))
    for path in store.orphans():
        place = path.relative_to(store.out).as_posix()
        message = "a block without its marker, as a killed run leaves them; nobody reads it"
        findings.append(Finding(place=place, message=message, kind="orphan"))
    return count, findings


def has_dataset(out: Path) -> bool:
    """Whether any file of a dataset is there; each may be the one that was lost."""
    from stages.shard.layout import COMMIT, INDEX, MANIFEST, SHARDS

    names = (COMMIT, INDEX, MANIFEST)
    return any((out / n).exists() for n in names) or any(out.glob(f"{SHARDS}/*.zarr*"))


def verify_output(out: Path, registry: Registry) -> tuple[int, list[Finding], bool]:
    """(blocks, findings, whether there is a dataset). Raises UserError when there is no output."""
    store = Store(out)
    if not out.is_dir():
        raise UserError(f"output {out}: no such folder; give the --out of a run")
    dataset, torn = has_dataset(out), store.version_is_torn()
    if not dataset and not torn and not (out / "version").exists():
        raise UserError(f"output {out}: holds neither blocks nor a dataset of this program")
    if (out / "version").exists():
        store.check_version()
    count, findings = verify_blocks(store, registry)
    if torn:
        message = "missing or torn, though the blocks are of a known layout; run or repair mends it"
        findings.append(Finding(place="version", message=message, kind="version"))
    if (out / SAVED).exists():
        try:
            read_saved(out, registry)
        except UserError as error:
            findings.append(Finding(place=SAVED, message=str(error), kind="config"))
    if dataset:
        from stages.shard.verify import verify_dataset

        findings += [
            Finding(
                place=problem.place,
                message=f"{problem.kind}: {problem.message}",
                kind=f"dataset {problem.kind}",
            )
            for problem in verify_dataset(out)
        ]
    return count, findings, dataset
