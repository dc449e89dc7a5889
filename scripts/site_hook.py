"""mkdocs hooks: pages for the examples, a shorter menu where pages are missing, no dead links."""

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]


def on_config(config: Any) -> Any:
    """The menu without pages that do not exist, and with all examples and decisions."""
    docs = Path(config.docs_dir)
    menu = [{title: [page for page in pages if (docs / page).exists()]}
            for entry in config.nav for title, pages in entry.items()]  # fmt: skip
    menu.append({"Examples": [{p.stem.replace("_", " "): f"examples/{p.stem}.md"}
                              for p in examples()]})  # fmt: skip
    pages = sorted(p.relative_to(docs).as_posix() for p in (docs / "decisions").glob("*.md"))
    config.nav = [*menu, {"Decisions": pages}]
    return config


def examples() -> list[Path]:
    return sorted((ROOT / "examples").glob("[0-9]*.py"))


def on_files(files: Files, config: Any) -> Files:
    """An example's docstring is its page, with the code below."""
    for path in examples():
        code = path.read_text(encoding="utf-8")
        told = (ast.get_docstring(ast.parse(code)) or "").split("\n", 1)
        text = f"# {told[0]}\n{told[1] if len(told) > 1 else ''}\n\n```python\n{code}```\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """A link to a file outside docs/ becomes the file's name: the site has the pages only."""
    folder = Path(config.docs_dir, page.file.src_uri).parent

    def shown(match: re.Match[str]) -> str:
        text, target = match[1], match[2].split("#")[0]
        if "://" in target or not target:
            return match[0]
        place = (folder / target).resolve()
        if place.is_relative_to(Path(config.docs_dir).resolve()) and not place.is_dir():
            return match[0]
        name = place.relative_to(ROOT).as_posix()
        return text if text.strip("`") == name else f"{text} (`{name}`)"

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)]+)\)", shown, markdown)
