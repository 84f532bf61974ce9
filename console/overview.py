"""The overview page: problems first, then throughput, busy topics, routers and cursors that are behind, and processes."""

from __future__ import annotations

import time
from typing import Any

from django.template.loader import render_to_string

from base.clock import now_ms
from console.health import heartbeat, signals
from console.health.behind import behind
from console.health.processes import living
from console.history import charts, series
from console.history.samples import DAY_MS
from console.live.live import part
from store.database import prepared

MOST = 8  # rows of each table

# Compares with a sample that is at least half a minute old. Over a shorter time, rates would jump.
TOTALS = """
SELECT held.topics, held.records, held.bytes, router.routers, router.paused, router.blocked, router.forwarded,
       counted.appended, counted.read, before.ts, before.head_seq, before.reads, before.forwarded, streams.open
  FROM topic_totals() held,
       (SELECT count(*) AS routers, count(*) FILTER (WHERE state = 'paused') AS paused,
               count(*) FILTER (WHERE state = 'blocked') AS blocked, coalesce(sum(forwarded_total), 0)::bigint AS forwarded
          FROM routers_router r JOIN topic_cursors c ON c.id = r.cursor_id) router,
       (SELECT coalesce(sum(value) FILTER (WHERE name = 'appended'), 0)::bigint AS appended,
               coalesce(sum(value) FILTER (WHERE name = 'read'), 0)::bigint AS read FROM console_count) counted,
       (SELECT coalesce(sum(count), 0)::bigint AS open FROM topics_streamcount WHERE seen_ts > %(now)s::bigint - 10000) streams
  LEFT JOIN (SELECT ts, head_seq, reads, forwarded FROM console_sample
              WHERE kind = 'all' AND object_id = 0 AND ts <= %(now)s::bigint - 30000 ORDER BY ts DESC LIMIT 1) before ON true
"""
# Ranks the topics that changed in the last five minutes by their samples, and asks for the heads of the first ones only.
BUSY = """
WITH seen AS MATERIALIZED (
    SELECT object_id, max(ts) AS ts, max(head_seq) AS head_seq FROM console_sample
     WHERE ts > %(now)s::bigint - 300000 AND ts <= %(now)s::bigint - 30000 AND kind = 'topic'
     GROUP BY object_id ORDER BY max(head_seq) - min(head_seq) DESC, max(ts) DESC, object_id LIMIT 4 * %(most)s)
SELECT t.id, t.name, h.head_seq, h.head_seq - seen.head_seq, %(now)s::bigint - seen.ts, h.last_ts
  FROM seen CROSS JOIN LATERAL (SELECT id, name FROM topics_topic WHERE id = seen.object_id LIMIT 1) t
 CROSS JOIN LATERAL (SELECT head_seq, last_ts FROM topic_heads WHERE topic_id = seen.object_id LIMIT 1) h
 WHERE h.head_seq > seen.head_seq
 ORDER BY (h.head_seq - seen.head_seq) / (%(now)s::bigint - seen.ts)::float8 DESC, t.id LIMIT %(most)s
"""


def overview(chosen: str, now: int) -> dict[str, Any]:
    """Returns the context of the template."""
    began = time.perf_counter()
    (row,) = prepared(TOTALS, {"now": now})
    processes = living(now, (time.perf_counter() - began) * 1000)
    seen, is_judged = signals.judge(processes, now)
    shown = series.window(chosen, now)
    busy, furthest = prepared(BUSY, {"now": now, "most": MOST + 1}), behind(now, MOST + 1)
    closed = signals.closed_signals(now - DAY_MS)
    further = {"busy": len(busy) > MOST, "behind": len(furthest) > MOST, "stuck": len(seen.stuck) > MOST}
    of_topics = series.read("topic", [row[0] for row in busy[:MOST]], shown)
    of_routers = series.read("router", [each.id for each in furthest[:MOST]], shown)
    causes = signals.by_cause(signals.open_signals())
    return {
        **series.choices(chosen),
        "totals": {**totals_of(row, now), "errors_day": seen.day.errors},
        "causes": [each for each in causes if not each.signal.is_silenced],
        "silenced": [each for each in causes if each.signal.is_silenced],
        "closed": closed[: signals.MOST_CLOSED],
        "more": {**further, "closed": len(closed) > signals.MOST_CLOSED},
        "processes": processes,
        "chart": chart(shown),
        "busy": [
            (name, head, more * 1000 / ms, ts, charts.sparkline(of_topics[id].rates("head_seq"), "records a second"))
            for id, name, head, more, ms, ts in busy[:MOST]
        ],
        "behind": [
            (each, charts.sparkline(of_routers[each.id].values("lag"), "records behind")) for each in furthest[:MOST]
        ],
        "stuck": seen.stuck[:MOST],
        "is_judged": is_judged,
    }


def totals_of(row: Any, now: int) -> dict[str, Any]:
    names = ("topics", "records", "bytes", "routers", "paused", "blocked", "forwarded", "appended", "read")
    totals = dict(zip(names, row, strict=False))
    before_ts, appended, read, forwarded, streams = row[len(names) :]
    seconds = (now - before_ts) / 1000 if before_ts else None
    for name, before in (("appended", appended), ("read", read), ("forwarded", forwarded)):
        totals[f"{name}_rate"] = max(totals[name] - before, 0) / seconds if seconds else None
    heard = heartbeat.seen()
    return {**totals, "streams": streams, "queue": heard.waiting_tasks if heard else None}


def chart(shown: series.TimeRange) -> Any:
    of_all = series.read("all", [0], shown)[0]
    lines = [
        charts.ChartLine("appended", "one", of_all.rates("head_seq")),
        charts.ChartLine("read", "two", of_all.rates("reads")),
        charts.ChartLine("forwarded", "three", of_all.rates("forwarded")),
        *series.beside("all", 0, shown)(lambda past: past.rates("head_seq")),
    ]
    return charts.chart("Records per second", shown.times, lines, charts.per_second)


@part("overview", "topics.view_topic")
def live(chosen: str) -> str:
    return render_to_string("console/overview_part.html", overview(series.chosen(chosen), now_ms()))
