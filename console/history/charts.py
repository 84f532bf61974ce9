"""SVG charts, drawn on the server. Server-side charts work without JavaScript and have the page's colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from base.units import moment

Values = Sequence[float | None]
SPARK_WIDTH, SPARK_HEIGHT = 120, 24
WIDTH, HEIGHT = 720, 160
LEFT, BOTTOM, TOP = 4, 18, 14


class ChartLine(NamedTuple):
    """One line of a chart: its name, its CSS class, and a value for each point of time (None: unknown)."""

    name: str
    style: str
    values: Values


class Mark(NamedTuple):
    """A change that a chart shows at its time."""

    ts: int
    words: str


def short(value: float) -> str:
    """Returns a number for an axis: three digits and a unit."""
    for unit in ("", "k", "M", "G"):
        if abs(value) < 1000 or unit == "G":
            return f"{value:.0f}{unit}" if value >= 100 or value == int(value) else f"{value:.1f}{unit}"
        value /= 1000
    return ""


def per_second(value: float) -> str:
    return f"{short(value)}/s"


def path(values: Values, most: float, left: float, width: float, top: float, height: float) -> str:
    """Returns the SVG path of a line, with gaps where values are unknown."""
    step = width / max(len(values) - 1, 1)
    parts, pen = [], "M"
    for place, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        parts.append(f"{pen}{left + place * step:.1f} {top + height - height * min(value / most, 1):.1f}")
        pen = "L"
    return "".join(parts)


def sparkline(values: Values, label: str) -> SafeString:
    """Returns a small line without axes. If all values are zero, the line is at the bottom. `label` is for screen readers."""
    known = [value for value in values if value is not None]
    if not known:
        return mark_safe('<span class="quiet" title="no samples yet">–</span>')
    most = max(known) or 1
    line = path(values, most, 1, SPARK_WIDTH - 2, 2, SPARK_HEIGHT - 4)
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}: at most {}">'
        '<path d="{}"/></svg>',
        SPARK_WIDTH,
        SPARK_HEIGHT,
        SPARK_WIDTH,
        SPARK_HEIGHT,
        label,
        short(max(known)),
        line,
    )


def chart(
    title: str,
    times: Sequence[int],
    lines: Sequence[ChartLine],
    unit: Callable[[float], str] = short,
    marks: Sequence[Mark] = (),
) -> SafeString:
    """Returns lines over time, each with its latest value beside its name. Each point of time has all its values in words, which
    console.js shows at the cross in each chart of the page."""
    known = [value for line in lines for value in line.values if value is not None]
    if not known:
        return mark_safe('<p class="empty">No samples yet. The first sample comes within two minutes.</p>')
    most = max(known) or 1
    height, middle = HEIGHT - BOTTOM - TOP, TOP + (HEIGHT - BOTTOM - TOP) // 2
    step = (WIDTH - 2 * LEFT) / max(len(times) - 1, 1)
    drawn = format_html_join(
        "",
        '<path class="line {}" d="{}"/>',
        ((line.style, path(line.values, most, LEFT, WIDTH - 2 * LEFT, TOP, height)) for line in lines),
    )
    points = format_html_join(
        "",
        '<rect x="{}" y="0" width="{}" height="{}"><title>{}</title></rect>',
        (
            (
                f"{LEFT + (place - 0.5) * step:.1f}",
                f"{step:.1f}",
                HEIGHT - BOTTOM,
                told(ts, place, lines, unit, between(marks, times, place)),
            )
            for place, ts in enumerate(times)
        ),
    )
    changes = format_html_join(
        "",
        '<path class="mark" d="M{} 0V{}"/>',
        (
            (f"{LEFT + (mark.ts - times[0]) / (times[-1] - times[0]) * (WIDTH - 2 * LEFT):.1f}", HEIGHT - BOTTOM)
            for mark in marks
        ),
    )
    legend = format_html_join(
        "",
        '<li class="{}">{} <b>{}</b></li>',
        ((line.style, line.name, latest(line.values, unit)) for line in lines),
    )
    return format_html(
        '<figure class="chart"><figcaption>{}</figcaption><ul class="legend">{}</ul>'
        '<div class="plot"><svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}: at most {}">'
        '<path class="grid" d="M0 {}H{}M0 {}H{}M0 {}H{}"/>{}{}<line class="cross" y1="0" y2="{}"/><g class="points">{}</g></svg>'
        '<span class="most">{}</span><span class="half">{}</span></div>'
        '<div class="axis"><span>{}</span><output></output><span>{} UTC</span></div></figure>',
        title,
        legend,
        WIDTH,
        HEIGHT - BOTTOM + 2,
        title,
        unit(most),
        TOP,
        WIDTH,
        middle,
        WIDTH,
        HEIGHT - BOTTOM,
        WIDTH,
        drawn,
        changes,
        HEIGHT - BOTTOM,
        points,
        unit(most),
        unit(most / 2),
        clock(times[0]),
        clock(times[-1]),
    )


def told(ts: int, place: int, lines: Sequence[ChartLine], unit: Callable[[float], str], marks: Sequence[Mark]) -> str:
    values = [f"{line.name} {'unknown' if (v := line.values[place]) is None else unit(v)}" for line in lines]
    return f"{clock(ts)}: {', '.join([*values, *(mark.words for mark in marks)])}"


def between(marks: Sequence[Mark], times: Sequence[int], place: int) -> list[Mark]:
    """Returns the marks that are nearer to this point of time than to the others."""
    half = (times[1] - times[0]) / 2
    return [mark for mark in marks if -half <= mark.ts - times[place] < half]


def last(values: Values) -> float | None:
    """Returns the last value that is known."""
    return next((each for each in reversed(values) if each is not None), None)


def latest(values: Values, unit: Callable[[float], str]) -> str:
    value = last(values)
    return "–" if value is None else unit(value)


def clock(ts: int) -> str:
    return (moment(ts) or "")[5:16]
