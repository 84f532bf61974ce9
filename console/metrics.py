"""Prometheus metrics of the instance: heartbeats, open streams, the tasks that wait, and the problems."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily, Metric

from base.clock import now_ms
from console import jobs
from console.health import heartbeat
from console.health.heartbeat import STALE_MS
from store.script import Script, Statement
from wire.access.keys import Key

PROCESSES = f"""
SELECT kind, count(*) FILTER (WHERE seen_ts > %(now)s::bigint - %(stale_ms)s), max(seen_ts) FROM {heartbeat.HEARTBEATS} heartbeat
 GROUP BY kind
"""
STREAMS_FRESH_MS = 10_000  # same age as in the caps of streams
STREAMS = "SELECT coalesce(sum(count), 0) FROM topics_streamcount WHERE seen_ts > %(now)s::bigint - %(fresh_ms)s"
SIGNALS = """
SELECT kind, level, coalesce(silenced_until_ts, 0) > %(now)s AS is_silenced, count(*)::int FROM console_signal
 WHERE closed_ts IS NULL GROUP BY 1, 2, 3
"""


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the metrics, or none for a key that may not see the whole server."""
    if not key.sees_all:
        return []
    now = now_ms()
    rows = yield Statement(PROCESSES, {"now": now, "stale_ms": STALE_MS})
    known = {kind: (alive, seen_ts) for kind, alive, seen_ts in rows}
    alive = GaugeMetricFamily(
        "topics_processes",
        "Processes with a heartbeat in the last 15 s: `web`, `worker`, `beat`, and `push` if it is used",
        labels=("kind",),
    )
    silent = GaugeMetricFamily(
        "topics_process_silent_seconds", "Time since the last heartbeat of this kind", labels=("kind",)
    )
    for kind in ("web", *heartbeat.expected(known)):
        count, seen_ts = known.get(kind, (0, None))
        alive.add_metric((kind,), count)
        if seen_ts:
            silent.add_metric((kind,), max(now - seen_ts, 0) / 1000)
    ((open_streams,),) = yield Statement(STREAMS, {"now": now, "fresh_ms": STREAMS_FRESH_MS})
    streams = GaugeMetricFamily("topics_open_streams", "Open streams, at most 1 s old", value=float(open_streams))
    waiting = GaugeMetricFamily(
        "topics_tasks_waiting",
        "Tasks of this server that wait for a worker process. Absent while Redis does not answer",
        labels=("queue",),
    )
    if (length := heartbeat.waiting_tasks()) is not None:  # otherwise Redis does not answer
        waiting.add_metric((jobs.QUEUE,), length)
    problems = GaugeMetricFamily(
        "topics_signals",
        "Open problems of the console, at most 30 s old. `level`: `bad` or `warn`. `silenced`: 1 if an operator silenced them",
        labels=("kind", "level", "silenced"),
    )
    for kind, level, is_silenced, count in (yield Statement(SIGNALS, {"now": now})):
        problems.add_metric((kind, level, str(int(is_silenced))), count)
    return [alive, silent, streams, waiting, problems]
