"""Writing the report of an output."""

from pathlib import Path

from pipeline.errors import UserError
from pipeline.files import storage_error
from pipeline.registry import Registry
from pipeline.report.alarms import Alarm, alarms
from pipeline.report.drawn import draw_all
from pipeline.report.facts import gather
from pipeline.report.page import page
from pipeline.store import Store
from stages.storage import write_bytes


def write_report(out: Path, target: Path, *, pictures: bool = True) -> list[Alarm]:
    """Write the page of the output at `out` to `target`, and return its alarms.

    Raises UserError when there is no output or the page cannot be written.
    """
    if not (out / "version").exists() and not (out / "dataset.json").exists():
        raise UserError(
            f"output {out}: holds neither blocks nor a dataset; give the --out of a run"
        )
    if (out / "version").exists():
        Store(out).check_version()
    facts = gather(out, Registry())
    found = alarms(facts)
    text = page(facts, found, draw_all(facts, pictures=pictures))
    try:
        write_bytes(target, text.encode())
    except OSError as error:
        raise storage_error(target.parent, error) or UserError(
            f"cannot write {target}: {error}"
        ) from error
    return found
