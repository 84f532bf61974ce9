"""Reads history: samples (samples.py) as values at equal distances of time, and as rates."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from console.history.charts import ChartLine, Mark, Values
from console.history.samples import HOUR_MS, MINUTE_MS, SINCE, THINNED
from store.database import prepared
from topics.models import AuditEntry

# The rows of some objects in a range of time, and each object's last row before the range, which holds until the next row.
ROWS = """
SELECT object_id, ts, head_seq, reads, forwarded, count, bytes, lag, oldest_ms, errors FROM console_sample
 WHERE kind = %(kind)s::text AND object_id = ANY (%(ids)s::bigint[]) AND ts >= %(since)s AND ts <= %(until)s
UNION ALL
SELECT before.* FROM unnest(%(ids)s::bigint[]) wanted (id) CROSS JOIN LATERAL (
    SELECT object_id, ts, head_seq, reads, forwarded, count, bytes, lag, oldest_ms, errors FROM console_sample
     WHERE kind = %(kind)s::text AND object_id = wanted.id AND ts < %(since)s ORDER BY ts DESC LIMIT 1) before
 ORDER BY 1, 2
"""
SAMPLED = "SELECT ts FROM console_sample WHERE kind = 'all' AND object_id = 0 AND ts >= %(since)s AND ts <= %(until)s"
MOST_CHANGES = 50
RANGES = {  # length of time on a page, and distance of its points
    "15m": (15 * MINUTE_MS, MINUTE_MS),
    "3h": (3 * HOUR_MS, 2 * MINUTE_MS),
    "24h": (24 * HOUR_MS, 15 * MINUTE_MS),
    "7d": (7 * 24 * HOUR_MS, HOUR_MS),
    "90d": (90 * 24 * HOUR_MS, 12 * HOUR_MS),
}


DEFAULT = "3h"
BESIDE = {"1h": HOUR_MS, "1d": 24 * HOUR_MS, "1w": 7 * 24 * HOUR_MS}  # how long ago the pale line of a chart was


def chosen(asked: str) -> str:
    """Returns the range of RANGES that a page asks for, and after an `@` what to show beside it: `3h`, `24h@1w`."""
    length, _, beside = asked.partition("@")
    length = length if length in RANGES else DEFAULT
    return f"{length}@{beside}" if beside in BESIDE else length


def choices(chosen: str) -> dict[str, Any]:
    """Returns the context of console/ranges.html: each choice as a page asks for it, with its name and whether it is chosen."""
    length, _, beside = chosen.partition("@")
    return {
        "chosen": chosen,
        "ranges": [(f"{each}@{beside}" if beside else each, each, each == length) for each in RANGES],
        "besides": [
            (length if each == beside else f"{length}@{each}", f"{each} ago", each == beside) for each in BESIDE
        ],
    }


class Point(NamedTuple):
    """The state of an object at a time."""

    head_seq: int
    reads: int
    forwarded: int
    records: int
    bytes: int
    lag: int
    oldest_ms: int
    errors: int


class Series(NamedTuple):
    """An object over time: for each of `times` a point, or None if no sample was taken."""

    times: list[int]
    points: list[Point | None]

    def values(self, field: str) -> list[float | None]:
        return [None if point is None else float(getattr(point, field)) for point in self.points]

    def rates(self, field: str) -> list[float | None]:
        """Returns the growth of a field per second, up to each point. If the field shrank (a router was deleted), the rate is
        0."""
        rates: list[float | None] = [None]
        step = (self.times[1] - self.times[0]) / 1000 if len(self.times) > 1 else 1.0
        for before, now in zip(self.points, self.points[1:], strict=False):
            known = before is not None and now is not None
            rates.append(max(getattr(now, field) - getattr(before, field), 0) / step if known else None)
        return rates


class TimeRange(NamedTuple):
    """A range of time on a page: its points, and the indexes of those with samples. `before`: the range that the page shows
    beside it, which ended `ago`.

    `thinned_ts`: the samples before it are an hour apart, although the points are not. `hourly`: the times of these samples, in
    the range and beside it.
    """

    times: list[int]
    sampled: set[int]
    ago: str = ""
    before: TimeRange | None = None
    thinned_ts: int = 0
    hourly: Sequence[int] = ()

    @property
    def bounds(self) -> dict[str, int]:
        return bounds_of(self.times)


def bounds_of(times: list[int], more_ms: int = 0) -> dict[str, int]:
    return {"since": 2 * times[0] - times[1] + 1 - more_ms, "until": times[-1] + more_ms}


def window(chosen: str, now: int) -> TimeRange:
    """Returns a range of RANGES that ends at the last full minute. One query serves any number of series."""
    asked, _, beside = chosen.partition("@")
    length, step = RANGES[asked]
    until = now // MINUTE_MS * MINUTE_MS
    times = list(range(until - length, until + 1, step))
    rows = prepared(SAMPLED, bounds_of(times))
    sampled = {(ts - times[0] + step - 1) // step for (ts,) in rows}
    before = window(asked, until - BESIDE[beside]) if beside else None
    return TimeRange(times, sampled, beside, before, *hours(times))


def hours(times: list[int]) -> tuple[int, list[int]]:
    """Returns until when samples are an hour apart, and the times of these samples. Returns none if the points are no closer."""
    noted = prepared(SINCE, {"name": THINNED})
    if not noted or times[0] >= noted[0][0] or times[1] - times[0] >= HOUR_MS:
        return 0, []
    return noted[0][0], sorted(ts for (ts,) in prepared(SAMPLED, bounds_of(times, 2 * HOUR_MS)))


def read(kind: str, ids: Iterable[int], shown: TimeRange) -> dict[int, Series]:
    """Returns the series of several objects of one kind, with one query."""
    found: dict[int, list[tuple[int, Point]]] = {id: [] for id in ids}
    bounds = bounds_of(shown.times, 2 * HOUR_MS if shown.hourly else 0)
    for id, ts, *fields in prepared(ROWS, {"kind": kind, "ids": list(found), **bounds}):
        found[id].append((ts, Point(*fields)))
    return {id: Series(shown.times, points(shown, rows)) for id, rows in found.items()}


def beside(kind: str, id: int, shown: TimeRange) -> Callable[[Callable[[Series], Values]], list[ChartLine]]:
    """Reads an object in the earlier range. Returns a function from values of that series to the pale line of a chart.

    Without an earlier range, the function returns no line.
    """
    if shown.before is None:
        return lambda values: []
    past = read(kind, [id], shown.before)[id]
    return lambda values: [ChartLine(f"{shown.ago} ago", "ago", values(past))]


def changes(kind: str, name: str, shown: TimeRange) -> list[Mark]:
    """Returns the changes of an object in the range, from the audit log, the newest first."""
    entries = AuditEntry.objects.filter(name=name, kind=kind, ts__gte=shown.times[0]).order_by("-ts")[:MOST_CHANGES]
    return [Mark(each.ts, f"{each.action} by {each.actor_name or each.actor}") for each in entries]


def points(shown: TimeRange, rows: list[tuple[int, Point]]) -> list[Point | None]:
    found = laid_out(shown.times, rows, shown.sampled)
    if not shown.hourly:
        return found
    ends = laid_out(shown.hourly, rows, set(range(len(shown.hourly))))
    return [
        between(time, shown.hourly, ends) if time < shown.thinned_ts else point
        for time, point in zip(shown.times, found, strict=True)
    ]


def between(time: int, hourly: Sequence[int], ends: list[Point | None]) -> Point | None:
    """Returns the point at a time on the straight line between two samples, or None if they are not of neighbouring hours.

    So the rate of each point is that of its hour. `ends`: the points at the samples.
    """
    place = bisect_right(hourly, time)
    if not 0 < place < len(hourly):
        return None
    begin_ts, end_ts, begin, end = hourly[place - 1], hourly[place], ends[place - 1], ends[place]
    if begin is None or end is None or end_ts // HOUR_MS - begin_ts // HOUR_MS > 1:
        return None
    part = (time - begin_ts) / (end_ts - begin_ts)
    return Point(*(round(first + part * (last - first)) for first, last in zip(begin, end, strict=True)))


def laid_out(times: Sequence[int], rows: list[tuple[int, Point]], sampled: set[int]) -> list[Point | None]:
    """Returns the last row up to each time, or None if no sample was taken since the previous time."""
    points: list[Point | None] = []
    held, place = None, 0
    for at, time in enumerate(times):
        while place < len(rows) and rows[place][0] <= time:
            held = rows[place][1]
            place += 1
        points.append(held if at in sampled else None)
    return points
