"""Histograms and bars as SVG text: sharp on any screen, no script, no library."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 320, 150
_LEFT, _TOP, _BASE = 6, 24, 122  # plot area, pixels of the view box
BLUE, ORANGE = "#0072b2", "#d55e00"  # Okabe and Ito


def number(value: float) -> str:
    """Three digits, no exponent for what people read."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def histogram(title: str, values: NDArray[Any], unit: str = "", bins: int = 24) -> str:
    """A figure of one distribution, its least, median and largest value below it."""
    values = np.asarray(values, np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return _figure(title, [_text(_LEFT, 80, "nothing to show", "start")], "no values")
    low, high = float(values.min()), float(values.max())
    counts, _ = np.histogram(values, bins=bins, range=(low, high if high > low else low + 1e-9))
    step = (WIDTH - 2 * _LEFT) / bins
    marks: list[str] = []
    for i, count in enumerate(counts.tolist()):
        if count:
            tall = max(1.5, (_BASE - _TOP) * count / counts.max())
            marks.append(
                f'<rect x="{_LEFT + i * step:.1f}" y="{_BASE - tall:.1f}" width="{step - 1:.1f}" '
                f'height="{tall:.1f}" fill="{BLUE}"/>'
            )
    median = float(np.median(values))
    at = _LEFT + (WIDTH - 2 * _LEFT) * ((median - low) / (high - low) if high > low else 0.5)
    marks += [
        f'<line x1="{_LEFT}" y1="{_BASE}" x2="{WIDTH - _LEFT}" y2="{_BASE}" class="axis"/>',
        f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{_BASE}" stroke="{ORANGE}"/>',
        _text(_LEFT, _BASE + 18, number(low), "start"),
        _text(WIDTH / 2, _BASE + 18, f"median {number(median)} {unit}".strip(), "middle"),
        _text(WIDTH - _LEFT, _BASE + 18, number(high), "end"),
    ]
    told = f"{len(values)} values from {number(low)} to {number(high)} {unit}".strip()
    return _figure(title, marks, told)


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars of shares: (name, 0 to 1, what stands at the right)."""
    line = 20
    marks: list[str] = []
    for i, (name, share, note) in enumerate(rows):
        y = _TOP + i * line
        marks += [
            f'<rect x="118" y="{y}" width="130" height="13" class="empty"/>',
            f'<rect x="118" y="{y}" width="{130 * min(max(share, 0), 1):.1f}" height="13" '
            f'fill="{BLUE}"/>',
            _text(114, y + 11, name if len(name) < 19 else name[:17] + "…", "end"),
            _text(252, y + 11, note, "start"),
        ]
    return _figure(title, marks, f"{len(rows)} rows", height=_TOP + line * len(rows) + 4)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'


def _figure(title: str, marks: Sequence[str], told: str, height: int = HEIGHT) -> str:
    label = escape(f"{title}: {told}", quote=True)
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 {_TOP - 4} {WIDTH} {height - _TOP + 4}" role="img" aria-label="{label}">'
        + "".join(marks)
        + "</svg></figure>"
    )
