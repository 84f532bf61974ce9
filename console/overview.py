"""The overview page: problems first, then throughput, busy topics, routers and cursors that are behind, and processes."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from django.template.loader import render_to_string

from base.clock import now_ms
from console import charts, heartbeat, problems, series
from console.live import part
from console.processes import living
from console.samples import DAY_MS
from routers.lag import FROM, LAG, STALLED_MS, lag_of
from store.database import prepared

MOST = 8  # rows of each table
STUCK_MS = 600_000  # a cursor with records to read that has not advanced for so long is stuck
DEFAULT = "3h"

# Compares with a sample that is at least half a minute old. Over a shorter time, rates would jump.
TOTALS = """
SELECT held.topics, held.records, held.bytes, router.routers, router.paused, router.blocked, router.forwarded,
       counted.appended, counted.read, counted.errors, before.ts, before.head_seq, before.reads, before.forwarded,
       coalesce((SELECT errors FROM console_sample WHERE kind = 'all' AND object_id = 0 AND ts > %(day)s ORDER BY ts LIMIT 1), 0),
       (SELECT count(*) FROM console_failure WHERE ts > %(day)s), streams.open
  FROM (SELECT count(*) AS topics, coalesce(sum(count), 0)::bigint AS records, coalesce(sum(bytes), 0)::bigint AS bytes
          FROM topic_heads) held,
       (SELECT count(*) AS routers, count(*) FILTER (WHERE state = 'paused') AS paused,
               count(*) FILTER (WHERE state = 'blocked') AS blocked, coalesce(sum(forwarded_total), 0)::bigint AS forwarded
          FROM routers_router r JOIN topic_cursors c ON c.id = r.cursor_id) router,
       (SELECT coalesce(sum(value) FILTER (WHERE name = 'appended'), 0)::bigint AS appended,
               coalesce(sum(value) FILTER (WHERE name = 'read'), 0)::bigint AS read,
               coalesce(sum(value) FILTER (WHERE name = 'errors'), 0)::bigint AS errors FROM console_count) counted,
       (SELECT coalesce(sum(count), 0)::bigint AS open FROM topics_streamcount WHERE seen_ts > %(now)s::bigint - 10000) streams
  LEFT JOIN (SELECT ts, head_seq, reads, forwarded FROM console_sample
              WHERE kind = 'all' AND object_id = 0 AND ts <= %(now)s::bigint - 30000 ORDER BY ts DESC LIMIT 1) before ON true
"""
# A topic whose head advanced in the last five minutes has a sample. The head itself is the current one.
BUSY = """
SELECT t.id, t.name, h.head_seq, h.head_seq - seen.head_seq, %(now)s::bigint - seen.ts, h.last_ts
  FROM (SELECT DISTINCT ON (object_id) object_id, ts, head_seq FROM console_sample
         WHERE ts > %(now)s::bigint - 300000 AND ts <= %(now)s::bigint - 30000 AND kind = 'topic'
         ORDER BY object_id, ts DESC) seen
  JOIN topics_topic t ON t.id = seen.object_id JOIN topic_heads h ON h.topic_id = t.id
 WHERE h.head_seq > seen.head_seq
 ORDER BY (h.head_seq - seen.head_seq) / (%(now)s::bigint - seen.ts)::float8 DESC, t.id LIMIT %(most)s
"""
# Blocked routers come first, then those that do not advance, with any lag. Paused routers come last.
BEHIND = f"""
SELECT r.id, r.name, source.name, dest.name, r.state, r.last_error, {LAG}
{FROM}
  JOIN topics_topic source ON source.id = r.source_id JOIN topics_topic dest ON dest.id = r.dest_id
 WHERE head.head_seq > c.seq
 ORDER BY r.state = 'blocked' DESC, r.state = 'paused', c.updated_ts < %(now)s::bigint - %(stalled_ms)s DESC,
          head.head_seq - c.seq DESC, r.id LIMIT %(most)s
"""
# Routers and subscribers of the bus have their own problems (problems.py).
STUCK = """
SELECT t.name, c.name, h.head_seq - c.seq AS lag, c.updated_ts
  FROM topic_cursors c JOIN topics_topic t ON t.id = c.topic_id JOIN topic_heads h ON h.topic_id = c.topic_id
 WHERE c.kind NOT IN ('router', 'subscription') AND h.head_seq > c.seq AND c.updated_ts < %(now)s::bigint - %(stuck)s
 ORDER BY lag DESC, c.id LIMIT %(most)s
"""


class Behind(NamedTuple):
    """A router with records left to forward."""

    id: int
    name: str
    source: str
    dest: str
    state: str
    last_error: str | None
    lag: int
    oldest_ms: int | None  # the age of the oldest record that waits


def overview(chosen: str, now: int) -> dict[str, Any]:
    """Returns the context of the template."""
    began = time.perf_counter()
    (row,) = prepared(TOTALS, {"now": now, "day": now - DAY_MS})
    took_ms = (time.perf_counter() - began) * 1000
    totals = totals_of(row, now)
    routers = behind(now)
    shown = series.window(chosen, now)
    busy = prepared(BUSY, {"now": now, "most": MOST})
    stuck = prepared(STUCK, {"now": now, "stuck": STUCK_MS, "most": MOST})
    of_topics = series.read("topic", [row[0] for row in busy], shown)
    of_routers = series.read("router", [each.id for each in routers], shown)
    processes = living(now, took_ms)
    return {
        "range": chosen,
        "totals": totals,
        "problems": [
            *problems.of_servers(processes),
            *problems.of_gateways(),
            *problems.of_routers(routers, now),
            *problems.of_subscribers(now),
            *problems.of_jobs(now),
            *problems.of_queues(),
            *problems.of_cursors(stuck),
            *problems.of_the_last_day(totals),
        ],
        "processes": processes,
        "chart": chart(shown),
        "busy": [
            (name, head, more * 1000 / ms, ts, charts.sparkline(of_topics[id].rates("head_seq"), "records a second"))
            for id, name, head, more, ms, ts in busy
        ],
        "behind": [(each, charts.sparkline(of_routers[each.id].values("lag"), "records behind")) for each in routers],
        "stuck": stuck,
    }


def totals_of(row: Any, now: int) -> dict[str, Any]:
    names = ("topics", "records", "bytes", "routers", "paused", "blocked", "forwarded", "appended", "read", "errors")
    totals = dict(zip(names, row, strict=False))
    before_ts, appended, read, forwarded, errors_before, failures, streams = row[len(names) :]
    seconds = (now - before_ts) / 1000 if before_ts else None
    for name, before in (("appended", appended), ("read", read), ("forwarded", forwarded)):
        totals[f"{name}_rate"] = max(totals[name] - before, 0) / seconds if seconds else None
    seen = heartbeat.seen()
    queue = seen.queue_length if seen else None
    errors_day = max(totals["errors"] - errors_before, 0)
    return {**totals, "errors_day": errors_day, "failures": failures, "streams": streams, "queue": queue}


def behind(now: int) -> list[Behind]:
    """Returns the routers furthest behind, and blocked routers first."""
    routers = []
    for *row, lag, oldest, still in prepared(BEHIND, {"now": now, "stalled_ms": STALLED_MS, "most": MOST}):
        lagging = lag_of(lag, oldest, still)
        id, name, source, dest, state, error = row
        state = "stalled" if lagging.stalled and state == "running" else state
        routers.append(Behind(id, name, source, dest, state, error, lagging.lag, lagging.oldest_unread_ms))
    return routers


def chart(shown: series.Window) -> Any:
    of_all = series.read("all", [0], shown)[0]
    lines = [
        charts.Line("appended", "one", of_all.rates("head_seq")),
        charts.Line("read", "two", of_all.rates("reads")),
        charts.Line("forwarded", "three", of_all.rates("forwarded")),
    ]
    return charts.chart("Records per second", shown.times, lines, lambda value: f"{charts.short(value)}/s")


@part("overview", "topics.view_topic")
def live(chosen: str) -> str:
    chosen = chosen if chosen in series.RANGES else DEFAULT
    return render_to_string("console/overview_part.html", overview(chosen, now_ms()))
