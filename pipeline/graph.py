"""Targets -> the stages they need, in an order where inputs come first."""

from dataclasses import dataclass

from pipeline.errors import TargetError
from pipeline.registry import Registry, nearest


@dataclass(frozen=True, kw_only=True, slots=True)
class Targets:
    """`stages` in order of work; `publish` names the publishers to call at the end."""

    names: tuple[str, ...]
    stages: tuple[str, ...]
    publish: tuple[str, ...]


def parse_targets(text: str, registry: Registry) -> Targets:
    """ "render+label", "shard" or "all" -> everything they imply."""
    choices = [*registry.stages, *registry.publishers, "all"]
    names = tuple(dict.fromkeys(n.strip() for n in text.replace(",", "+").split("+")))
    unknown = [n for n in names if n not in choices]
    if unknown:
        raise TargetError(
            f"target {unknown[0]!r}: unknown; {nearest(unknown[0], choices)}. "
            f"Targets are {', '.join(choices)}; join several with +"
        )
    order = order_stages(registry)
    publish = tuple(p for p in registry.publishers if p in names or "all" in names)
    if publish or "all" in names:
        return Targets(names=names, stages=order, publish=publish)
    wanted: set[str] = set()
    stack = list(names)
    while stack:
        name = stack.pop()
        if name not in wanted:
            wanted.add(name)
            stack.extend(registry.stage(name).needs)
    return Targets(names=names, stages=tuple(s for s in order if s in wanted), publish=())


def order_stages(registry: Registry) -> tuple[str, ...]:
    """All stages, inputs first; the registry's order breaks ties."""
    needs = {name: registry.stage(name).needs for name in registry.stages}
    for name, inputs in needs.items():
        missing = [i for i in inputs if i not in needs]
        if missing:
            raise TargetError(f"stage {name} needs {missing[0]!r}, which is not registered")
    done: list[str] = []
    while len(done) < len(needs):
        ready = [n for n in needs if n not in done and all(i in done for i in needs[n])]
        if not ready:
            raise TargetError(f"stages need each other: {sorted(set(needs) - set(done))}")
        done.append(ready[0])
    return tuple(done)
