"""Write docs/protocols.md from the configs of the protocols; `--check` only compares.

A number's unit and source are the comment beside it in stages/envs/config.py.
"""

import ast
import tokenize
from pathlib import Path

from pages import write_or_check

ROOT = Path(__file__).resolve().parents[1]
SOURCE, PAGE = ROOT / "stages" / "envs" / "config.py", ROOT / "docs" / "protocols.md"
SECTIONS = {
    "PhysicsConfig": "label.physics",
    "ClosingConfig": "label.fc.closing, label.tabletop.closing",
    "FcConfig": "label.fc",
    "TabletopConfig": "label.tabletop",
    "DexGraspBenchConfig": "label.dexgraspbench",
    "RolloutConfig": "label.rollout",
    "MetricsConfig": "label.metrics",
    "ConfidenceConfig": "label.confidence",
}
HEAD = """\
# Protocols in numbers

<!-- written by scripts/write_protocols_page.py -->

What happens in each protocol is told in [labels.md](labels.md); here is every number, by the name
under which a config sets it. DGB marks a number as published with DexGraspBench's evaluation (Chen
et al., BODex, 2024); the others are this project's. All but `label.confidence` are part of the hash
of the protocol, which is stored with its labels.
"""


def comments() -> dict[int, str]:
    """Comment text by line; a comment alone on its line belongs to the line before."""
    found: dict[int, str] = {}
    with tokenize.open(SOURCE) as file:
        tokens = list(tokenize.generate_tokens(file.readline))
    owner = 0
    for token in tokens:
        if token.type != tokenize.COMMENT:
            continue
        line, text = token.start[0], token.string.lstrip("# ")
        alone = token.line.strip().startswith("#")
        owner = owner if alone and owner else line
        if not alone:
            owner = line
        found[owner] = f"{found[owner]} {text}" if owner in found else text
    return found


def rows(classes: dict[str, ast.ClassDef], name: str, said: dict[int, str]) -> list[str]:
    """Table rows of a class, those that it inherits first; its own replace them."""
    node = classes[name]
    fields: dict[str, str] = {}
    for base in node.bases:
        if isinstance(base, ast.Name):
            fields |= dict(zip_rows(classes[base.id], said, classes))
    return list((fields | dict(zip_rows(node, said, classes))).values())


def zip_rows(
    node: ast.ClassDef, said: dict[int, str], classes: dict[str, ast.ClassDef]
) -> list[tuple[str, str]]:
    out: list[tuple[str, str]] = []
    for base in node.bases:
        if isinstance(base, ast.Name):
            out += zip_rows(classes[base.id], said, classes)
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            value = ast.unparse(item.value) if item.value else ""
            if value.startswith("field("):
                continue  # a part with a table of its own
            lines = range(item.lineno, (item.end_lineno or item.lineno) + 1)
            comment = " ".join(said[line] for line in lines if line in said).replace("|", "/")
            out.append((item.target.id, f"| `{item.target.id}` | `{value}` | {comment} |"))
    return out


def page() -> str:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    said, parts = comments(), [HEAD]
    for name, place in SECTIONS.items():
        told = (ast.get_docstring(classes[name]) or "").replace("\n", " ")
        table = "\n".join(rows(classes, name, said))
        parts.append(f"## `{place}`\n\n{told}\n\n| number | default | unit and source |\n"
                     f"|---|---|---|\n{table}\n")  # fmt: skip
    return "\n".join(parts)


if __name__ == "__main__":
    write_or_check(PAGE, page())
