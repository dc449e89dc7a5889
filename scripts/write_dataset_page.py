"""Write the tables of docs/dataset.md from the field dictionary; `--check` only compares."""

from pathlib import Path

from pages import write_or_check

from schemas.dataset import CLOUD_FIELDS, GRASP_FIELDS, SCHEMA_VERSION
from schemas.field import CLOUD_FRAME, Field

PAGE = Path(__file__).resolve().parents[1] / "docs" / "dataset.md"
BEGIN, END = "<!-- fields: written by scripts/write_dataset_page.py -->", "<!-- end of fields -->"


def table(fields: dict[str, Field]) -> str:
    lines = ["| array | dtype | shape | unit | frame | range | no data | what |", "|" + "---|" * 8]
    for name, f in fields.items():
        shape = ", ".join(map(str, f.shape))
        frame = "the manifest's `frame`" if f.frame == CLOUD_FRAME else f.frame
        cells = [f"`{name}`", f.dtype, f"({shape})", f.unit, frame, limits(f), f.no_data]
        cells.append(f.description)
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


def limits(f: Field) -> str:
    """What `verify` allows."""
    if f.low is None and f.high is None:
        return "true, false" if f.dtype == "bool" else "any"
    low = "" if f.low is None else f"{f.low:g} <= "
    return f"{low}x" + ("" if f.high is None else f" <= {f.high:g}")


def page(text: str) -> str:
    """`text` with the part between the markers written anew."""
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    body = (
        f"\nSchema version {SCHEMA_VERSION}.\n\n### Clouds: `shards/<split>-NNNNN.zarr`\n\n"
        f"{table(CLOUD_FIELDS)}\n\n### Objects, grasps, labels: `shards/<split>-grasps.zarr`\n\n"
        f"`*` stands for a hand, and for a protocol below `labels/`.\n\n{table(GRASP_FIELDS)}\n\n"
    )
    return head + BEGIN + body + END + tail


if __name__ == "__main__":
    write_or_check(PAGE, page(PAGE.read_text(encoding="utf-8")))
