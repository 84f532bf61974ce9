"""Reads history: samples (samples.py) as values at equal distances of time, and as rates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from console.samples import HOUR_MS, MINUTE_MS
from store.database import prepared

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
RANGES = {  # length of time on a page, and distance of its points
    "3h": (3 * HOUR_MS, 2 * MINUTE_MS),
    "24h": (24 * HOUR_MS, 15 * MINUTE_MS),
    "7d": (7 * 24 * HOUR_MS, HOUR_MS),
    "90d": (90 * 24 * HOUR_MS, 12 * HOUR_MS),
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


class Window(NamedTuple):
    """A range of time on a page: its points, and the indexes of the points with samples."""

    times: list[int]
    sampled: set[int]

    @property
    def bounds(self) -> dict[str, int]:
        return bounds_of(self.times)


def bounds_of(times: list[int]) -> dict[str, int]:
    return {"since": 2 * times[0] - times[1] + 1, "until": times[-1]}


def window(chosen: str, now: int) -> Window:
    """Returns a range of RANGES that ends at the last full minute. One query serves any number of series."""
    length, step = RANGES[chosen]
    until = now // MINUTE_MS * MINUTE_MS
    times = list(range(until - length, until + 1, step))
    rows = prepared(SAMPLED, bounds_of(times))
    return Window(times, {(ts - times[0] + step - 1) // step for (ts,) in rows})


def read(kind: str, ids: Iterable[int], shown: Window) -> dict[int, Series]:
    """Returns the series of several objects of one kind, with one query."""
    found: dict[int, list[tuple[int, Point]]] = {id: [] for id in ids}
    for id, ts, *fields in prepared(ROWS, {"kind": kind, "ids": list(found), **shown.bounds}):
        found[id].append((ts, Point(*fields)))
    return {id: Series(shown.times, laid_out(shown.times, rows, shown.sampled)) for id, rows in found.items()}


def laid_out(times: list[int], rows: list[tuple[int, Point]], sampled: set[int]) -> list[Point | None]:
    """Returns the last row up to each time, or None if no sample was taken since the previous time."""
    points: list[Point | None] = []
    held, place = None, 0
    for at, time in enumerate(times):
        while place < len(rows) and rows[place][0] <= time:
            held = rows[place][1]
            place += 1
        points.append(held if at in sampled else None)
    return points
