"""Every block and the dataset, checked against what they promise."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import CorruptBlockError, UserError
from pipeline.registry import Registry
from pipeline.store import Store
from schemas.errors import SchemaError
from schemas.records import decode
from schemas.validate import problems


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    place: str  # relative to the output
    message: str


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
                        findings.append(Finding(place=f"{place} record {index}", message=problem))
            except (CorruptBlockError, SchemaError, ValueError, OSError) as error:
                findings.append(Finding(place=place, message=str(error)))
    return count, findings


def verify_output(out: Path, registry: Registry) -> tuple[int, list[Finding], bool]:
    """(blocks, findings, whether there is a dataset). Raises UserError when there is no output."""
    store = Store(out)
    if not out.is_dir():
        raise UserError(f"output {out}: no such folder; give the --out of a run")
    has_dataset = (out / "dataset.json").exists()
    if not has_dataset and not (out / "version").exists():
        raise UserError(f"output {out}: holds neither blocks nor a dataset of this program")
    if (out / "version").exists():
        store.check_version()
    count, findings = verify_blocks(store, registry)
    if has_dataset:
        from stages.shard.verify import verify_dataset

        findings += [
            Finding(place=problem.place, message=f"{problem.kind}: {problem.message}")
            for problem in verify_dataset(out)
        ]
    return count, findings, has_dataset
