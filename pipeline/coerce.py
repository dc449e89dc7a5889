"""Plain YAML values -> typed frozen dataclasses, collecting every problem with its place."""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pipeline.registry import nearest


def build(cls: type, data: Any, place: str, problems: list[str]) -> Any:
    """An instance of dataclass `cls`, or None when `problems` grew."""
    if isinstance(data, cls):
        return data
    if data is None:
        data = {}
    if not isinstance(data, Mapping):
        problems.append(f"{place or 'config'}: expected keys and values, got {_show(data)}")
        return None
    before = len(problems)
    hints = get_type_hints(cls)
    known = {f.name: f for f in fields(cls) if f.init}
    values: dict[str, Any] = {}
    for key, value in data.items():
        where = f"{place}.{key}" if place else str(key)
        if key not in known:
            problems.append(f"{where}: unknown key; {nearest(str(key), known)}")
        else:
            values[str(key)] = coerce(hints[str(key)], value, where, problems)
    for name, f in known.items():
        if name not in data and f.default is MISSING and f.default_factory is MISSING:
            problems.append(f"{place}.{name}: missing; expected {_name(hints[name])}")
    if len(problems) > before:
        return None
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:
        problems.append(f"{place or 'config'}: {error}")
        return None


def coerce(hint: Any, value: Any, place: str, problems: list[str]) -> Any:
    """`value` as the type `hint`, or None after a problem was added."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        return build(hint, value, place, problems)
    if origin is Literal:
        if value in args and not isinstance(value, bool):
            return value
        choices = [str(a) for a in args]
        problems.append(f"{place}: got {_show(value)}; {nearest(str(value), choices)}")
        return None
    if origin in (Union, types.UnionType):
        return _union(args, value, place, problems)
    if origin is tuple or hint is tuple:
        return _tuple(args, value, place, problems)
    if origin in (list, Sequence):
        return tuple(_tuple((args[0], ...), value, place, problems) or ())
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        if not isinstance(value, Mapping):
            problems.append(f"{place}: expected keys and values, got {_show(value)}")
            return None
        return {str(k): coerce(args[1], v, f"{place}.{k}", problems) for k, v in value.items()}
    if hint in _SCALARS:
        ok, result = _SCALARS[hint](value)
        if not ok:
            problems.append(f"{place}: expected {_name(hint)}, got {_show(value)}")
        return result
    problems.append(f"{place}: fields of type {_name(hint)} cannot be set from a file")
    return None


def _union(args: tuple[Any, ...], value: Any, place: str, problems: list[str]) -> Any:
    if value is None and type(None) in args:
        return None
    attempts: list[list[str]] = []
    for arg in (a for a in args if a is not type(None)):
        found: list[str] = []
        result = coerce(arg, value, place, found)
        if not found:
            return result
        attempts.append(found)
    # The alternative that came nearest says best what is wrong.
    problems.extend(min(attempts, key=len))
    return None


def _tuple(args: tuple[Any, ...], value: Any, place: str, problems: list[str]) -> Any:
    if not isinstance(value, list | tuple):
        problems.append(f"{place}: expected a list, got {_show(value)}")
        return None
    if not args:
        return tuple(value)
    if len(args) == 2 and args[1] is Ellipsis:
        hints: Sequence[Any] = [args[0]] * len(value)
    elif len(args) != len(value):
        problems.append(f"{place}: expected {len(args)} values, got {len(value)}")
        return None
    else:
        hints = args
    return tuple(
        coerce(hint, v, f"{place}[{i}]", problems)
        for i, (hint, v) in enumerate(zip(hints, value, strict=True))
    )


def _float(value: Any) -> tuple[bool, Any]:
    if isinstance(value, bool):
        return False, None
    if isinstance(value, int | float):
        return True, float(value)
    if isinstance(value, str):  # YAML 1.1 reads 1e-3 as a string
        try:
            return True, float(value)
        except ValueError:
            return False, None
    return False, None


def _int(value: Any) -> tuple[bool, Any]:
    if isinstance(value, int) and not isinstance(value, bool):
        return True, value
    if isinstance(value, float) and value.is_integer():
        return True, int(value)
    return False, None


def _path(value: Any) -> tuple[bool, Any]:
    return (True, Path(value)) if isinstance(value, str | Path) else (False, None)


_SCALARS: dict[Any, Callable[[Any], tuple[bool, Any]]] = {
    bool: lambda v: (isinstance(v, bool), v),
    int: _int,
    float: _float,
    str: lambda v: (isinstance(v, str), v),
    Path: _path,
    type(None): lambda v: (v is None, None),
}


def _name(hint: Any) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
