"""The metrics of Routemaster's page, with its names and tags, and two more: `events.unreadable` and `events.passed_over`.

Some values are read from the tables. The others were counted (counters.py). Prometheus gets the same metrics, with underscores
instead of dots and with the prefix `push_`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from base.clock import now_ms
from push.autodrop import HIGH_MARK, LOW_MARK, MOST
from push.bus.health import cpu_ms
from push.bus.topics import list_topics
from push.delivery.batches import due_within
from store.script import Script, Statement
from wire.access.keys import Key

# By subscriber, as on the page. The id follows the name, because several clients can have the same name.
QUEUES = """
SELECT s.client_id, c.name || '.' || c.id, q.records, (q.records + s.max_events - 1) / s.max_events, q.bytes,
       s.sent_total + s.dropped_total + s.unreadable_total + s.passed_total + q.records,
       s.sent_total, s.dropped_total, s.unreadable_total, s.passed_total
  FROM push_queues q JOIN push_subscriber s ON s.client_id = q.client_id JOIN push_busclient c ON c.id = s.client_id
 ORDER BY c.id
"""
KINDS = ("added", "removed", "autodropped", "unreadable", "passed_over")  # the totals of QUEUES
COUNTED = "SELECT name, tags, total::text FROM push_counter WHERE name NOT LIKE 'events.%' ORDER BY name, tags"


# The labels and the sentence of each metric of the page.
SAID = {
    "subscriber.queue.events": (("subscriber",), "Queued events"),
    "subscriber.queue.batches": (("subscriber",), "Queued batches"),
    "jobs.count": (("queue", "status"), "Batches that are due (`instant`) and batches that wait (`scheduled`)"),
    "redis.bytes_used": ((), "Bytes of queued events, in PostgreSQL"),
    "redis.max_mem": ((), "Mark of [autodrop](push.md#autodrop), in bytes"),
    "redis.low_mark": ((), "Mark of autodrop, in bytes"),
    "redis.high_mark": ((), "Mark of autodrop, in bytes"),
    "redis.used_cpu_user": ((), "CPU time of Redis, in ms"),
    "redis.used_cpu_sys": ((), "CPU time of Redis, in ms"),
    "events.published": (("topic",), "Published events"),
    "events.added": (("subscriber",), "Events that entered the queue"),
    "events.removed": (("subscriber",), "Events that were acknowledged"),
    "events.autodropped": (("subscriber",), "Events that autodrop dropped"),
    "events.unreadable": (("subscriber",), "Records that were put aside"),
    "events.passed_over": (("subscriber",), "Records that are not events"),
    "delivery.batches": (("status", "subscriber"), "Attempts. `status` is `success` or `failure`"),
    "delivery.events": (("status", "subscriber"), "Events of the attempts"),
    "delivery.time": (("status", "subscriber"), "Sum of the durations in ms"),
    "delivery.time2": (("status", "subscriber"), "Sum of the squares of the durations"),
    "latency.batches.count": (("subscriber",), "Batches that were tried a first time"),
    "latency.batches.first_attempt": (("subscriber",), "Sum of the ages in ms at the first attempt"),
    "latency.batches.last_attempt": (("subscriber",), "Sum of the ages in ms at the acknowledgement"),
    "process": (("status", "type"), "Starts and stops (`status`) of processes"),
}
COUNTERS = ("events.", "delivery.", "latency.", "process")  # the others are gauges


class Sample(NamedTuple):
    """A value of a metric. `tags`: tag values by tag name. `counted`: the tags in push_counter, if the value was counted."""

    name: str
    value: float
    tags: dict[str, str]
    counted: str | None = None

    @property
    def key(self) -> str:
        """Returns the tags as one string, as in push_counter."""
        return (
            ",".join(f"{name}:{value}" for name, value in self.tags.items()) if self.counted is None else self.counted
        )


class Samples(NamedTuple):
    gauges: list[Sample]
    counters: list[Sample]


def samples(now: int) -> Script[Samples]:
    """Returns the current values of all metrics."""
    gauges: list[Sample] = []
    counters = [Sample("events.published", events, {"topic": name}) for name, _, events in (yield from list_topics())]
    used, batches, names = 0, 0, dict[str, str]()
    for id, name, records, queued_batches, bytes, *totals in (yield Statement(QUEUES)):
        names[str(id)] = name
        used += bytes
        batches += queued_batches
        gauges.append(Sample("subscriber.queue.batches", queued_batches, {"subscriber": name}))
        gauges.append(Sample("subscriber.queue.events", records, {"subscriber": name}))
        counters += [
            Sample(f"events.{kind}", total, {"subscriber": name}) for kind, total in zip(KINDS, totals, strict=True)
        ]
    due = yield from due_within(0, now)
    gauges.append(Sample("jobs.count", due, {"queue": "push", "status": "instant"}))
    gauges.append(Sample("jobs.count", max(batches - due, 0), {"queue": "push", "status": "scheduled"}))
    marks = {"bytes_used": used, "max_mem": MOST, "low_mark": LOW_MARK, "high_mark": HIGH_MARK, **cpu_ms()}
    gauges += [Sample(f"redis.{name}", value, {}) for name, value in marks.items()]
    for name, tags, total in (yield Statement(COUNTED)):
        counters.append(Sample(name, float(total), tagged(tags, names), tags))
    return Samples(gauges, counters)


def tagged(tags: str, names: dict[str, str]) -> dict[str, str]:
    """Parses the tags of a count. The tag `queue` with a subscriber's id becomes `subscriber` with the name."""
    found = dict(tag.split(":", 1) for tag in tags.split(",")) if tags else {}
    if "queue" in found:
        found["subscriber"] = names.get(found["queue"], found["queue"])
        del found["queue"]
    return found


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the metrics for Prometheus. Empty if the key may not see the whole server."""
    if not key.sees_all:
        return []
    found = yield from samples(now_ms())
    return [*families(found.gauges, GaugeMetricFamily), *families(found.counters, CounterMetricFamily)]


def families(samples: Iterable[Sample], kind: type[GaugeMetricFamily] | type[CounterMetricFamily]) -> list[Metric]:
    """Groups samples into metrics, each with all its values."""
    made: dict[str, Metric] = {}
    for name, value, tags, _ in samples:
        family = made.setdefault(name, kind(f"push_{name.replace('.', '_')}", SAID[name][1], labels=tuple(tags)))
        family.add_metric(tuple(tags.values()), value)  # type: ignore[attr-defined]
    return list(made.values())
