"""The record browser's queries: pages by seq, time or tag, newest first. They read bounded index ranges and count no rows.

A page is found downwards or upwards from a seq. If filters leave few records, a query stops after some ten thousand seqs and
returns how far it looked. The next click continues there.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from store.database import prepared
from topics.read.tagged import TAGGED

LIMIT = 50  # records of a page
FIRST_LOOK, MOST_LOOKED = 100, 12_800  # seqs of the first range, and of one page
SEARCH_SECONDS = 1.0  # a page that searches in the data begins no other range after this time
MOST_SPANS = 2_000  # forwarded pieces in which one page looks for a tag
MOST_SHOWN = 2_000  # characters of a record in a list; the record's own page shows all
SHOWN_OF_LONGER = 1_000  # of a longer record, because indenting cut JSON takes longer than the query

# A list cuts long values. JSON is verbatim text, so a cut value is only for people.
CUT = f"""
left(meta::text, {MOST_SHOWN}),
CASE WHEN length(data::text) > {MOST_SHOWN} THEN left(data::text, {SHOWN_OF_LONGER}) ELSE data::text END,
length(data::text) > {MOST_SHOWN} OR coalesce(length(meta::text) > {MOST_SHOWN}, false)
"""
WHOLE = "meta::text, data::text, false"
# The columns of a record here (ShownRecord), and how a statement makes them of a record of the log. `texts`: CUT or WHOLE.
COLUMNS = "seq, ts, node, tag, meta, data, cut, home_topic, home_seq, path"
MADE = "seq, ts, node, tag, {texts}, home_topic, home_seq, path"
# The first rows of a statement, until their text has at least `budget` bytes. octet_length of a stored text reads only its
# length.
WITHIN = f"""
SELECT {COLUMNS}
  FROM (SELECT *, sum(octet_length(data) + coalesce(octet_length(meta), 0))
                  OVER (ORDER BY seq {{order}} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
          FROM ({{statement}}) found ({COLUMNS})) summed
 WHERE before IS NULL OR before < %(budget)s
 ORDER BY seq {{order}}
"""
RANGE = f"""
SELECT {MADE}
  FROM topic_log_range(%(name)s, %(first)s, %(last)s)
 WHERE (%(node)s::text IS NULL OR node = %(node)s) AND (%(tag)s::text IS NULL OR starts_with(tag, %(tag)s))
   AND (%(data)s::text IS NULL OR data::text ~ %(data)s)
 ORDER BY seq {{order}} LIMIT %(limit)s
"""
SOME = f"""
SELECT {MADE}
  FROM unnest(%(seqs)s::bigint[]) wanted CROSS JOIN LATERAL topic_log_range(%(name)s, wanted, wanted)
 WHERE %(data)s::text IS NULL OR data::text ~ %(data)s
"""
# Looks up the boundaries of time slices, with some 25 probes each.
SLICES = """
SELECT topic_seq_at(h.topic_id, h.floor_seq, h.head_seq, %(since)s::bigint + n * %(step)s::bigint)
  FROM topic_heads h, generate_series(0, %(slices)s::int) n WHERE h.topic_id = %(id)s ORDER BY n
"""
FIRST_TS = "SELECT topic_next_ts(topic_id, floor_seq), last_ts FROM topic_heads WHERE topic_id = %(id)s"
SLICES_SHOWN = 48
SLICES_FRESH_SECONDS = 15.0  # the picture of a large topic takes some ten milliseconds, so paging reuses it
MOST_REMEMBERED = 500


class RecordFilter(NamedTuple):
    """The filter of a page. A tag that ends in * is a prefix. `data`: a pattern of PostgreSQL (pattern_of). None: no filter."""

    tag: str | None = None
    node: str | None = None
    data: str | None = None

    @property
    def exact_tag(self) -> str | None:
        return self.tag if self.tag and not self.tag.endswith("*") else None

    @property
    def prefix(self) -> str | None:
        return self.tag[:-1] if self.tag and self.tag.endswith("*") else None


def pattern_of(text: str) -> str:
    """Returns the pattern of data that contains this text, or of `key=value` also the member with this value, at any depth."""
    key, separator, value = text.partition("=")
    literal = re.escape(text)
    if not separator or not key or not value:
        return literal
    key, value = (re.escape(json.dumps(part, ensure_ascii=False)[1:-1]) for part in (key.strip(), value.strip()))
    return rf'(?:{literal})|(?:"{key}"\s*:\s*(?:"{value}"|{value})\s*[,}}])'


class ShownRecord(NamedTuple):
    """A record in a list. `data` and `meta` are text as sent, and cut if they are long."""

    seq: int
    ts: int
    node: str | None
    tag: str | None
    meta: str | None
    data: str
    is_cut: bool
    home: str
    home_seq: int
    path: list[str]


class RecordsPage(NamedTuple):
    """Records, the highest seq first. The query looked at all seqs from `lowest` to `highest`."""

    rows: list[ShownRecord]
    lowest: int
    highest: int


class Slice(NamedTuple):
    """A slice of a topic's time: its start, its first and last seq, and its size in percent of the largest slice."""

    ts: int
    first_seq: int
    last_seq: int
    height: float

    @property
    def seqs(self) -> int:
        return self.last_seq - self.first_seq + 1


def page(
    topic_id: int,
    name: str,
    floor: int,
    head: int,
    start: int,
    up: bool,
    wanted: RecordFilter,
    limit: int = LIMIT,
    budget: int | None = None,
) -> RecordsPage:
    """Returns the next records from `start` on (inclusive), going up or down.

    With a `budget`, no record is cut, and the page ends with the record that reaches `budget` bytes of text.
    """
    first, last = (max(start, floor + 1), head) if up else (floor + 1, min(start, head))
    if first > last:
        return RecordsPage([], first, last)
    if wanted.exact_tag is not None:
        return tagged(topic_id, name, first, last, up, wanted, limit, budget)
    return walked(name, first, last, up, wanted, limit, budget)


def statement_of(template: str, up: bool, budget: int | None) -> str:
    """Returns a statement that reads records: cut for a list, or whole within a budget."""
    order = "ASC" if up else "DESC"
    statement = template.format(texts=CUT if budget is None else WHOLE, order=order)
    return statement if budget is None else WITHIN.format(statement=statement, order=order)


def is_spent(rows: Sequence[ShownRecord], budget: int | None) -> bool:
    """Returns True if these records reach the budget. Then the statement may have left out further records."""
    return budget is not None and sum(len(row.data.encode()) + len((row.meta or "").encode()) for row in rows) >= budget


def walked(
    name: str, first: int, last: int, up: bool, wanted: RecordFilter, limit: int, budget: int | None
) -> RecordsPage:
    """Reads range after range, each larger than the last."""
    rows: list[ShownRecord] = []
    statement, spent = statement_of(RANGE, up, budget), False
    reach, looked, began = max(FIRST_LOOK, limit), 0, time.monotonic()
    low, high = first, last
    while low <= high and len(rows) < limit and not spent and looked < MOST_LOOKED:
        if wanted.data and looked and time.monotonic() > began + SEARCH_SECONDS:
            break
        bounds = (low, min(low + reach - 1, high)) if up else (max(high - reach + 1, low), high)
        filters = {"node": wanted.node, "tag": wanted.prefix, "data": wanted.data}
        arguments = {"name": name, "first": bounds[0], "last": bounds[1], **filters}
        limits = {"limit": limit - len(rows)} if budget is None else {"limit": limit - len(rows), "budget": budget}
        rows += [shown(row) for row in prepared(statement, {**arguments, **limits})]
        spent = is_spent(rows, budget)
        looked += reach
        low, high = (bounds[1] + 1, high) if up else (low, bounds[0] - 1)
        reach = min(reach * 4, MOST_LOOKED)
    if len(rows) == limit or spent:  # the last range may contain more records
        low, high = (rows[-1].seq + 1, last) if up else (first, rows[-1].seq - 1)
    return RecordsPage(sorted(rows, reverse=True), first if up else high + 1, low - 1 if up else last)


def tagged(
    topic_id: int, name: str, first: int, last: int, up: bool, wanted: RecordFilter, limit: int, budget: int | None
) -> RecordsPage:
    """Reads by the index on the tag."""
    order, edge = ("ASC", "max(last_seq)") if up else ("DESC", "min(first_seq)")
    statement = TAGGED.format(order=order, edge=edge, most_spans=MOST_SPANS)
    arguments = {"id": topic_id, "tag": wanted.exact_tag, "first": first, "last": last, "limit": limit}
    ((seqs, pieces, reached),) = prepared(statement, arguments)
    seqs = sorted(numbers(seqs), reverse=not up)
    if pieces == MOST_SPANS:  # further pieces were not searched, so own records beyond them belong to a later page
        seqs = [seq for seq in seqs if (seq <= reached if up else seq >= reached)]
    limits = {} if budget is None else {"budget": budget}
    chosen: dict[str, Any] = {"name": name, "seqs": seqs, "data": wanted.data, **limits}
    rows = [shown(row) for row in prepared(statement_of(SOME, up, budget), chosen)]
    if is_spent(rows, budget):
        reached = rows[-1].seq
    elif len(seqs) == limit:
        reached = seqs[-1]
    elif pieces < MOST_SPANS:
        reached = last if up else first
    rows = [row for row in rows if wanted.node is None or row.node == wanted.node]
    return RecordsPage(sorted(rows, reverse=True), first if up else reached, reached if up else last)


def shown(row: Any) -> ShownRecord:
    *columns, path = row
    return ShownRecord._make((*columns, names(path)))


def names(array: str) -> list[str]:
    """Returns router names from PostgreSQL's text of an array. No router name contains a character that needs an escape."""
    return [part.strip('"') for part in array[1:-1].split(",") if part]


def numbers(array: str | None) -> list[int]:
    return [int(part) for part in array[1:-1].split(",")] if array else []


_pictures: dict[int, tuple[float, list[Slice]]] = {}  # by topic id; with the time until which each is fresh


def slices(topic_id: int) -> list[Slice]:
    """Returns the distribution of a topic's seqs over time, up to 15 seconds old. Deleted records count, because this is a
    picture."""
    until, picture = _pictures.get(topic_id, (0.0, []))
    if time.monotonic() >= until:
        picture = draw_slices(topic_id)
        if len(_pictures) >= MOST_REMEMBERED:
            _pictures.clear()
        _pictures[topic_id] = (time.monotonic() + SLICES_FRESH_SECONDS, picture)
    return picture


def draw_slices(topic_id: int) -> list[Slice]:
    """Returns no slices of a topic that was deleted meanwhile, before either statement."""
    since, until = next(iter(prepared(FIRST_TS, {"id": topic_id})), (None, None))
    if since is None or until <= since:
        return []
    step = max(-(-(until - since + 1) // SLICES_SHOWN), 1)
    bounds = {"id": topic_id, "since": since, "step": step, "slices": SLICES_SHOWN}
    starts = [start for (start,) in prepared(SLICES, bounds)]
    counts = [after - start for start, after in pairwise(starts)]
    most = max(counts, default=0) or 1
    return [
        Slice(since + place * step, start, start + count - 1, round(100 * count / most, 1))
        for place, (start, count) in enumerate(zip(starts, counts, strict=False))
    ]
