"""What a run prints: why things are done, what was done, where it is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.ledger import States
from pipeline.runner import StageSummary
from stages.contract import OK


def table(summaries: Sequence[StageSummary]) -> str:
    """Per stage: items, done before and now, failures by code, rate, time."""
    lines = [f"{'stage':<8}{'items':>7}{'before':>8}{'now':>7}{'rate':>10}{'time':>9}  failures"]
    for s in summaries:
        rate = f"{s.done_now / s.seconds:.1f}/s" if s.done_now and s.seconds else "-"
        codes = ", ".join(f"{c} {n}" for c, n in sorted(s.codes.items()) if c != OK) or "none"
        lines.append(
            f"{s.name:<8}{s.items:>7}{s.before:>8}{s.done_now:>7}{rate:>10}"
            f"{s.seconds:>8.1f}s  {codes}"
        )
    return "\n".join(lines)


def counts(states: Mapping[str, States]) -> dict[str, dict[str, Any]]:
    """Per stage {items, done: {code: n}, todo: {reason: n}}; JSON values."""
    out: dict[str, dict[str, Any]] = {}
    for name, found in states.items():
        done, todo = Counter[str](), Counter[str]()
        for (code, reason), n in found.tally.items():
            if code is None:
                todo[reason] += n
            else:
                done[code] += n
        out[name] = {"items": len(found), "done": dict(done), "todo": dict(todo)}
    return out


def explain(states: Mapping[str, States]) -> str:
    """Per stage: what is done, and what would be done and why."""
    lines: list[str] = []
    for name, of in counts(states).items():
        parts = [f"{n} {code}" for code, n in sorted(of["done"].items())]
        parts += [f"{n} to do ({reason})" for reason, n in sorted(of["todo"].items())]
        lines.append(f"{name:<8}{of['items']:>7} items: {', '.join(parts) or 'none'}")
    return "\n".join(lines)


def next_steps(out: Path, *, dataset: bool) -> str:
    """Three commands to try."""
    if dataset:
        return (
            f"The dataset is in {out}; open {out / 'report.html'} in a browser. Try:\n"
            f"  python -m pipeline view {out} --save cloud.png\n"
            f"  python -m pipeline verify {out}\n"
            f"  python examples/03_read_a_shard.py {out}"
        )
    return (
        f"The blocks are in {out}. Try:\n"
        f"  python -m pipeline run shard --out {out}    (with the same --config)\n"
        f"  python -m pipeline status {out}\n"
        f"  python -m pipeline verify {out}"
    )
