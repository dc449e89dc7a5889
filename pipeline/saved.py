"""OUT/run.json: the resolved config of the last run, sealed so that a torn one is known."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

from pipeline.config import RunConfig, build_config, resolved
from pipeline.errors import UserError
from pipeline.files import storage_error
from pipeline.registry import Registry
from stages.shard.layout import SEAL, seal
from stages.storage import file_size, read_bytes, write_bytes

SAVED = "run.json"
LIMIT = 2**24  # bytes


def save_config(out: Path, config: RunConfig) -> None:
    """Write the resolved config beside what it makes."""
    try:
        write_bytes(out / SAVED, seal(resolved(config)))
    except OSError as error:
        raise storage_error(out, error) or error from error


def read_saved(out: Path, registry: Registry) -> dict[str, Any]:
    """Values of the saved config; raises UserError when it is missing or torn.

    One without its checksum was written before there was one, and reads when it has no unknown
    key at the top.
    """
    path = out / SAVED
    try:
        if file_size(path) > LIMIT:
            raise UserError(f"{path}: larger than {LIMIT} bytes; it is not one of this program")
        data = read_bytes(path)
        values = json.loads(data)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file; run once with --config and --out") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: torn ({error}); run again with --config") from error
    if not isinstance(values, dict):
        raise UserError(f"{path}: expected keys and values; run again with --config")
    values = cast(dict[str, Any], values)
    sealed = values.pop(SEAL, None) is not None
    known = {f.name for f in fields(RunConfig)} | set(registry.configs)
    if (sealed and seal(values) != data) or (not sealed and set(values) - known):
        raise UserError(f"{path}: torn (its checksum differs); run again with --config")
    return values


def load_saved(out: Path, registry: Registry) -> RunConfig:
    """The config of the last run. Its relative paths start where that run was started."""
    return build_config(read_saved(out, registry), registry=registry, source=str(out / SAVED))
