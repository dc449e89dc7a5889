"""YAML of users: `safe_load` within limits of size, depth and what aliases unfold to."""

from pathlib import Path
from typing import Any

from schemas.errors import ForeignFileError
from schemas.files import read_limited

SIZE = 2**20  # bytes
NODES = 100_000  # values, counted as often as aliases repeat them
DEPTH = 40
SUFFIXES = (".yaml", ".yml")


def read_yaml_file(path: Path) -> Any:
    """Plain values of a YAML file.

    Raises ForeignFileError, with the parser's own words when it is not YAML. FileNotFoundError
    and other errors of the disk are passed on.
    """
    data = read_limited(path, SIZE)
    try:
        return parse_yaml(data.decode())
    except ValueError as error:
        raise ForeignFileError(path, str(error)) from error


def parse_yaml(text: str) -> Any:
    """Plain values; ValueError when the text is not YAML or breaks a limit."""
    import yaml

    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, OverflowError) as error:
        raise ValueError(f"not valid YAML: {error}") from error
    stack = [(value, 0)]
    count = 0
    while stack:
        node, depth = stack.pop()
        count += 1
        if count > NODES or depth > DEPTH:
            raise ValueError(
                f"not valid YAML here: more than {NODES} values once its aliases are unfolded, or "
                f"nested deeper than {DEPTH}"
            )
        if isinstance(node, dict):
            stack += [(child, depth + 1) for pair in node.items() for child in pair]
        elif isinstance(node, list | tuple | set):
            stack += [(child, depth + 1) for child in node]
    return value
