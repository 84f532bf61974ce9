"""Prometheus metrics of the instance's processes: heartbeats, open streams, the length of Celery's queue."""

from __future__ import annotations

from prometheus_client.core import GaugeMetricFamily, Metric

from base.clock import now_ms
from console import heartbeat, jobs
from console.heartbeat import STALE_MS
from store.script import Script, Statement
from wire.keys import Key

PROCESSES = f"""
SELECT kind, count(*) FILTER (WHERE seen_ts > %(now)s::bigint - %(stale_ms)s), max(seen_ts) FROM {heartbeat.HEARTBEATS} heartbeat
 GROUP BY kind
"""
STREAMS_FRESH_MS = 10_000  # same age as in the caps of streams
STREAMS = "SELECT coalesce(sum(count), 0) FROM topics_streamcount WHERE seen_ts > %(now)s::bigint - %(fresh_ms)s"


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the metrics, or none for a key that may not see the whole server."""
    if not key.sees_all:
        return []
    now = now_ms()
    rows = yield Statement(PROCESSES, {"now": now, "stale_ms": STALE_MS})
    known = {kind: (alive, seen_ts) for kind, alive, seen_ts in rows}
    alive = GaugeMetricFamily("topics_processes", "Processes with a heartbeat in the last 15 s", labels=("kind",))
    silent = GaugeMetricFamily(
        "topics_process_silent_seconds", "Seconds since the last heartbeat of any process", labels=("kind",)
    )
    for kind in ("web", *heartbeat.expected(known)):
        count, seen_ts = known.get(kind, (0, None))
        alive.add_metric((kind,), count)
        if seen_ts:
            silent.add_metric((kind,), max(now - seen_ts, 0) / 1000)
    ((open_streams,),) = yield Statement(STREAMS, {"now": now, "fresh_ms": STREAMS_FRESH_MS})
    streams = GaugeMetricFamily("topics_open_streams", "Open SSE connections", value=float(open_streams))
    waiting = GaugeMetricFamily("topics_queue_length", "Messages waiting for a worker", labels=("queue",))
    if (length := heartbeat.queue_length()) is not None:  # otherwise Redis does not answer
        waiting.add_metric((jobs.QUEUE,), length)
    return [alive, silent, streams, waiting]
