"""Charts from the pipeline's rollups, on the pages of topics and routers. Without a rollup there is no chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django.utils.safestring import SafeString

from base.units import size
from console.history import charts
from console.history.series import TimeRange
from pipeline import rollups


def volume(topic_id: int, shown: TimeRange) -> SafeString | None:
    """Returns a chart of payload bytes by time of writing, for the records in the topic at the time of the rollup. Returns
    None without a rollup."""
    minutes = rollups.minutes(topic_id, shown.bounds["since"])
    if not minutes:
        return None
    step = (shown.times[1] - shown.times[0]) / 1000
    sizes = spread(shown, ((each.minute_ts, each.bytes / step) for each in minutes), sum)
    return charts.chart(
        "Payload per second (rollup)",
        shown.times,
        [charts.ChartLine("payload", "three", sizes)],
        lambda value: f"{size(int(value))}/s",
    )


def delays(router: str, shown: TimeRange) -> SafeString | None:
    """Returns a chart of the time that records took from source to dest, or None without a rollup. A point shows the worst of
    its minutes."""
    minutes = rollups.delays(router, shown.bounds["since"])
    if not minutes:
        return None
    lines = [
        charts.ChartLine(
            name, style, spread(shown, ((each.minute_ts, getattr(each, field) or 0.0) for each in minutes), max)
        )
        for name, style, field in (("p50", "one", "p50_ms"), ("p95", "three", "p95_ms"), ("p99", "two", "p99_ms"))
    ]
    return charts.chart("Forwarding delay (rollup)", shown.times, lines, lambda ms: f"{charts.short(ms)} ms")


def spread(
    shown: TimeRange, values: Iterable[tuple[int, float]], joined: Callable[[list[float]], float]
) -> list[float | None]:
    """Joins values by minute into one value for each point of time. A point covers the time since the previous point."""
    step = shown.times[1] - shown.times[0]
    found: list[list[float]] = [[] for _ in shown.times]
    for ts, value in values:
        place = -(-(ts - shown.times[0]) // step)
        if 0 <= place < len(found):
            found[place].append(value)
    return [joined(each) if each else None for each in found]
