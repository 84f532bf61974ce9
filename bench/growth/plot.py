"""Draws docs/images/growth.svg: the buffers of each operation at each size of the store, on two logarithmic scales."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 660, 346
LEFT, RIGHT, TOP, BOTTOM = 82, 410, 36, 320
LABELS = 12  # of the operations that read most
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f } .axis { fill: #57606a; text-anchor: end } .below { text-anchor: middle }
path { fill: none; stroke: #4f5bd5; stroke-width: 1; opacity: .35 } .grid { stroke: #d0d7de; opacity: 1 }
.more { stroke: #cf222e; opacity: .8 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .axis { fill: #9da7b1 } path { stroke: #8b95ff } .grid { stroke: #30363d } .more { stroke: #ff7b72 } }
"""


class Line(NamedTuple):
    """An operation, its buffers at each size, and whether it grew more than the logarithm of the store."""

    operation: str
    buffers: Sequence[int]
    is_more: bool


def draw(lines: Sequence[Line], records: Sequence[int]) -> str:
    """Returns the SVG. `records`: of the store at each size."""
    decades = math.ceil(math.log10(max(1, *(max(line.buffers) for line in lines)))) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<title>Buffers of each operation while the store grows</title>\n<style>{STYLE}</style>",
        '<text x="8" y="18">buffers of 8 kB, by the records of the store</text>',
    ]
    for decade in range(decades + 1):
        y = height(10**decade, decades)
        parts.append(f'<path class="grid" d="M{LEFT} {y}H{RIGHT}"/>')
        parts.append(f'<text class="axis" x="{LEFT - 6}" y="{y + 4}">{10**decade:,}</text>')
    places = [LEFT + (RIGHT - LEFT) * n // (len(records) - 1) for n in range(len(records))]
    for x, count in zip(places, records, strict=True):
        parts.append(f'<text class="axis below" x="{x}" y="{BOTTOM + 18}">{count:,}</text>')
    for line in sorted(lines, key=lambda line: line.is_more):
        points = " ".join(f"{x} {height(each, decades)}" for x, each in zip(places, line.buffers, strict=True))
        parts.append(f'<path{" class=" + chr(34) + "more" + chr(34) if line.is_more else ""} d="M{points}"/>')
    return "\n".join([*parts, *labels(lines, decades), "</svg>", ""])


def labels(lines: Sequence[Line], decades: int) -> list[str]:
    """Names the operations that read most, each below the one before it."""
    named, lowest = [], TOP - 14.0
    for line in sorted(lines, key=lambda line: -line.buffers[-1])[:LABELS]:
        lowest = max(lowest + 14, height(line.buffers[-1], decades) + 4)
        named.append(f'<text x="{RIGHT + 8}" y="{lowest}">{escape(line.operation)}</text>')
    return named


def height(buffers: int, decades: int) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * math.log10(max(1, buffers)) / decades, 1)
