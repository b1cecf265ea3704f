"""HTML for notebooks: tables, and a small figure as SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_COLOURS = ("#1f6fb4", "#d1622b", "#3c8d40", "#8a4fb0")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 420, 190, 58, 34, 12, 12


def text(value: Any) -> str:
    """A value as a cell shows it: numbers short, None as a dash."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(text(item) for item in value) or "–"
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(item)}" for key, item in value.items()) or "–"
    return str(value)


def table(rows: Iterable[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """Rows of cells; a first row of names where there are some."""
    parts = ["<table>"]
    if head:
        parts.append("<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head) + "</tr>")
    for row in rows:
        cells = "".join(f'<td style="text-align:left">{html.escape(text(cell))}</td>' for cell in row)
        parts.append(f"<tr>{cells}</tr>")
    return "".join([*parts, "</table>"])


@dataclass
class Line:
    """Points of a figure, and what they are."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten, at most five."""
    first, last = math.floor(low), math.ceil(high)
    step = max(1, math.ceil((last - first) / 4))
    return [float(t) for t in range(first, last + 1, step) if low - 1e-9 <= t <= high + 1e-9]


def figure(lines: Sequence[Line], x_label: str, y_label: str, mark: tuple[float, str] | None = None) -> str:
    """Lines over a linear x and a logarithmic y; mark: a horizontal line at a value, with its name."""
    points = [(x, math.log10(y)) for line in lines for x, y in zip(line.x, line.y, strict=True) if 0 < y < math.inf]
    if not points:
        return ""
    heights = [y for _, y in points] + ([math.log10(mark[0])] if mark and mark[0] > 0 else [])
    x0, x1 = min(x for x, _ in points), max(x for x, _ in points)
    y0, y1 = min(heights), max(heights)
    x1 += x1 == x0
    y1 += 1e-9 + (y1 == y0)

    def px(x: float) -> float:
        return _LEFT + (x - x0) / (x1 - x0) * (_WIDTH - _LEFT - _RIGHT)

    def py(y: float) -> float:
        return _TOP + (y1 - y) / (y1 - y0) * (_HEIGHT - _TOP - _BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="11" fill="currentColor">',
        f'<path d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}" fill="none" stroke="currentColor"/>',
    ]
    for tick in _ticks(y0, y1):
        out.append(f'<text x="{_LEFT - 5}" y="{py(tick) + 4:.1f}" text-anchor="end">1e{tick:.0f}</text>')
    for x in (x0, x1):
        out.append(f'<text x="{px(x):.1f}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle">{x:.0f}</text>')
    if mark and mark[0] > 0:
        at = py(math.log10(mark[0]))
        out.append(f'<path d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}" stroke="#888" stroke-dasharray="4 3"/>')
        out.append(f'<text x="{_WIDTH - _RIGHT}" y="{at - 3:.1f}" text-anchor="end">{html.escape(mark[1])}</text>')
    for i, line in enumerate(lines):
        path = " ".join(
            f"{px(x):.1f},{py(math.log10(y)):.1f}" for x, y in zip(line.x, line.y, strict=True) if 0 < y < math.inf
        )
        colour = _COLOURS[i % len(_COLOURS)]
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        if len(lines) > 1:
            where = f'x="{_LEFT + 8}" y="{_TOP + 12 + 13 * i}"'
            out.append(f'<text {where} style="fill:{colour}">{html.escape(line.name)}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    out.append(f'<text x="{middle}" y="{_HEIGHT - 5}" text-anchor="middle">{html.escape(x_label)}</text>')
    turned = f'transform="rotate(-90 12 {_HEIGHT / 2})"'
    out.append(f'<text x="12" y="{_HEIGHT / 2}" text-anchor="middle" {turned}>{html.escape(y_label)}</text>')
    return "".join([*out, "</svg>"])


def page(title: str, *parts: str) -> str:
    """A heading and parts below it."""
    return f"<div><b>{html.escape(title)}</b>{''.join(f'<div>{part}</div>' for part in parts if part)}</div>"
