"""A dataset card (README.md with YAML front matter, as dataset hubs read it) from the manifest."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from stages.shard.layout import SHARDS, marker_of, unseal
from stages.shard.open import load_commit, load_manifest

MARK = "<!-- written by `python -m pipeline card` -->"
SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"),
         (10**7, "1M<n<10M"))  # fmt: skip
LICENCES = {
    "apache-2.0", "mit", "cc0-1.0", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0",
    "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0", "cc-by-nc-nd-4.0",
}  # fmt: skip
"""Names that hubs know; anything else is `other` with its own name."""


def card_text(out: Path) -> str:
    """The card of the dataset at `out`, the same bytes for the same dataset."""
    manifest, commit = load_manifest(out), load_commit(out)
    licences = Counter(o["licence"] or "not stated" for o in manifest["objects"].values())
    sizes = {
        split: sum(
            size
            for name in commit["shards"]
            if name.rpartition("-")[0] == split
            for size, _ in unseal(marker_of(out / SHARDS / name))["files"].values()
        )
        for split in manifest["splits"]
    }
    head = _front_matter(manifest, sorted(licences), sizes)
    return "\n".join(["---", *head, "---", MARK, *_body(manifest, licences, sizes)]) + "\n"


def _front_matter(
    manifest: dict[str, Any], licences: list[str], sizes: dict[str, int]
) -> list[str]:
    """Lines of YAML; a JSON value is one."""
    ids = {name.lower().replace(" ", "-") for name in licences}
    clouds = {split: manifest["statistics"][split]["clouds"] for split in sizes}
    total = sum(clouds.values())
    known = ids.pop() if len(ids) == 1 and ids <= LICENCES else None
    lines = [f"license: {known or 'other'}"]
    if known is None:
        lines.append(f"license_name: {json.dumps('; '.join(licences))}")
    lines += ["task_categories: [robotics]", "tags: [point-cloud, grasping, zarr]"]
    size = next((label for most, label in SIZES if total < most), "n>10M")
    lines += [f"size_categories: [{json.dumps(size)}]", "dataset_info:", "  splits:"]
    for split, count in clouds.items():
        lines += [
            f"  - name: {split}",
            f"    num_examples: {count}",
            f"    num_bytes: {sizes[split]}",
        ]
    lines += [f"  dataset_size: {sum(sizes.values())}", "features:"]
    for name, field in sorted(manifest["fields"].items()):
        row = {"name": name, "dtype": field["dtype"], "unit": field["unit"]}
        lines.append(f"- {json.dumps(row)}")
    return lines


def _body(manifest: dict[str, Any], licences: Counter[str], sizes: dict[str, int]) -> list[str]:
    crop = manifest.get("crop_digest", "not stated")
    lines = [
        "", "# Labelled point clouds for robotic grasping", "",
        f"Points in metres in the {manifest['frame']} frame, quaternions "
        f"{manifest['quaternion_order']}. Crop `{crop}`, seed {manifest.get('seed')}, "
        f"schema version {manifest['schema_version']}. Splits are by object.", "",
        "## Splits", "",
        "| split | objects | scenes | clouds | points a cloud (least, median, most) | bytes |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for split, size in sizes.items():
        of = manifest["statistics"][split]
        least, median, most = of["points_per_cloud"]
        lines.append(
            f"| {split} | {len(manifest['splits'][split])} | {sum(of['scenes'].values())} | "
            f"{of['clouds']} | {least}, {median:g}, {most} | {size} |"
        )
    lines += ["", "## Grasps and labels", "",
              "| split | hand | grasps | protocol | labelled | successes |",
              "|---|---|---|---|---|---|"]  # fmt: skip
    for split in sizes:
        for hand, of in sorted(manifest["statistics"][split].get("grasps", {}).items()):
            for protocol, label in sorted(of["labels"].items()) or [("", {})]:
                lines.append(
                    f"| {split} | {hand} | {of['grasps']} | {protocol} | "
                    f"{label.get('labelled', '')} | {label.get('successes', '')} |"
                )
    lines += ["", "## Objects", "", "| licence of the meshes | objects |", "|---|---|"]
    lines += [f"| {name} | {count} |" for name, count in sorted(licences.items())]
    lines += ["", "## Fields", "", "| array | dtype | unit | frame | no data | what |",
              "|---|---|---|---|---|---|"]  # fmt: skip
    for name, field in sorted(manifest["fields"].items()):
        frame = manifest["frame"] if field["frame"] == "see frame" else field["frame"]
        lines.append(
            f"| `{name}` | {field['dtype']} | {field['unit']} | {frame} | {field['no_data']} | "
            f"{field['description']} |"
        )
    engines = ", ".join(manifest.get("engines", [])) or "not stated"
    return [*lines, "", f"Labelled with {engines}."]
