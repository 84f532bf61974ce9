"""Packs the parts of a picture, which no edge joins, into the shape of a screen. Otherwise they form one tall column."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

Box = tuple[float, float, float, float]  # left, top, right, bottom
Path = tuple[str, tuple[float, float, float, float]]  # an SVG path, and the direction of its tip
GAP = 30.0  # points between two parts
SHAPE = 1.9  # width by height of a screen's window
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def parts(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns for each node the first node of its part."""
    first = {id: id for id in nodes}

    def root(id: str) -> str:
        while first[id] != id:
            first[id] = id = first[first[id]]
        return id

    for tail, head in edges:
        first[root(head)] = root(tail)
    return {id: root(id) for id in first}


def places(sizes: Sequence[tuple[float, float]], shape: float = SHAPE) -> list[tuple[float, float]]:
    """Returns the top left corner of each box. The highest box is placed first, and each as far up as there is room."""
    padded = [(width + GAP, height + GAP) for width, height in sizes]
    widest = max((width for width, _ in padded), default=0.0)
    most = max(widest, math.sqrt(sum(width * height for width, height in padded) * shape))
    placed: list[Box] = []
    found: dict[int, tuple[float, float]] = {}
    for place in sorted(range(len(padded)), key=lambda place: (-padded[place][1], place)):
        width, height = padded[place]
        lefts = [left for left in {0.0, *(right for _, _, right, _ in placed)} if left + width <= most]
        top, left = min((lowest(placed, left, left + width), left) for left in lefts)
        placed.append((left, top, left + width, top + height))
        found[place] = (left, top)
    return [found[place] for place in range(len(padded))]


def lowest(placed: Iterable[Box], left: float, right: float) -> float:
    """Returns the lower end of the parts between two edges."""
    return max(
        (bottom for other_left, _, other_right, bottom in placed if other_left < right and other_right > left),
        default=0.0,
    )


def points(path: str) -> list[tuple[float, float]]:
    numbers = [float(number) for number in NUMBER.findall(path)]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def moved(path: Path, right: float, down: float) -> Path:
    """Returns a path at another place."""
    shifts = (right, down)
    places = iter(range(len(path[0])))
    curve = NUMBER.sub(lambda found: f"{round(float(found[0]) + shifts[next(places) % 2], 1)}", path[0])
    x, y, to_x, to_y = path[1]
    return curve, (x + right, y + down, to_x + right, to_y + down)
