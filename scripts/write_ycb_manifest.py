"""Write data/ycb.csv: every YCB scan with its licence, sha256 and split; `--check` compares."""

import csv
import io
import sys
from pathlib import Path

from pipeline.config import load_config
from pipeline.registry import Registry
from stages.assets.sources import expand
from stages.assets.split import split_of

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = ROOT / "data" / "ycb.csv"


def manifest() -> str:
    config = load_config(ROOT / "configs" / "ycb.yaml", registry=Registry()).sections["assets"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "source", "licence", "sha256", "split"])
    for source in expand(["ycb://*"], ROOT, ""):
        row = [source.object_id, source.uri, source.licence, source.sha256()]
        writer.writerow([*row, split_of(source.object_id, config)])
    return out.getvalue()


if __name__ == "__main__":
    if "--check" in sys.argv:
        old = MANIFEST.read_text(encoding="utf-8")
        sys.exit("data/ycb.csv is out of date: run this script" if manifest() != old else 0)
    MANIFEST.write_text(manifest(), encoding="utf-8")
