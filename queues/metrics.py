"""The metrics of queues for Prometheus: one query at each scrape."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from base.clock import now_ms
from queues.figures import largest
from store.script import Script
from wire.access.keys import Key

MOST_QUEUES = 1000  # the queues with the most jobs


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the figures of the queues that this key may see."""
    labels = ("queue",)
    ready = GaugeMetricFamily(
        "topics_queue_ready_jobs", "Jobs that a worker can claim, of the 1,000 queues with the most jobs", labels=labels
    )
    oldest = GaugeMetricFamily(
        "topics_queue_oldest_ready_seconds", "For how long the oldest ready job has been ready", labels=labels
    )
    flying = GaugeMetricFamily("topics_queue_in_flight_jobs", "Jobs that a worker holds", labels=labels)
    delayed = GaugeMetricFamily("topics_queue_delayed_jobs", "Jobs that came back and wait", labels=labels)
    dead = CounterMetricFamily(
        "topics_queue_dead_lettered", "Jobs that the queue moved to its dead letter topic", labels=labels
    )
    letters = GaugeMetricFamily("topics_queue_dead_letters", "Records of the dead letter topic", labels=labels)
    for each in (yield from largest(MOST_QUEUES, now_ms(), list(key.prefixes) or None)):
        name = (each.name,)
        ready.add_metric(name, each.ready)
        oldest.add_metric(name, (each.oldest_ready_ms or 0) / 1000)
        flying.add_metric(name, each.in_flight)
        delayed.add_metric(name, each.delayed)
        dead.add_metric(name, each.dead_lettered)
        if each.dead_letter is not None:
            letters.add_metric(name, each.letters)
    return [ready, oldest, flying, delayed, dead, letters]
