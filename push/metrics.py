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
from push.batches import due_within
from push.health import cpu_ms
from push.topics import list_topics
from store.script import Script, Statement
from wire.keys import Key

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
        family = made.setdefault(
            name, kind(f"push_{name.replace('.', '_')}", f"{name} of Routemaster's page", labels=tuple(tags))
        )
        family.add_metric(tuple(tags.values()), value)  # type: ignore[attr-defined]
    return list(made.values())
