"""The metrics of the outbox for Prometheus: three queries at each scrape."""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from base.clock import now_ms
from outbox.captures import captured
from outbox.waiting import oldest_ms, stopped
from store.script import Script
from wire.access.keys import Key

MOST_TOPICS = 1000  # the topics whose records have waited longest
MOST_CAPTURES = 1000


def collect(key: Key) -> Script[list[Metric]]:
    """Returns the age of the oldest record in the relay's queue, and by topic that the key may see: what waits, and captures."""
    now = now_ms()
    unmoved = GaugeMetricFamily(
        "topics_outbox_unmoved_seconds",
        "Age of the oldest [emitted](guides/outbox.md) record that no relay has moved yet, from the last look of the relay. "
        "A relay that stops is noticed after 10 s",
    )
    unmoved.add_metric((), (yield from oldest_ms(now)) / 1000)
    records = GaugeMetricFamily(
        "topics_outbox_waiting_records",
        "Emitted records that a topic cannot take yet, with the code of the error",
        labels=("topic", "code"),
    )
    ages = GaugeMetricFamily(
        "topics_outbox_waiting_seconds", "Age of the first of these records", labels=("topic", "code")
    )
    for each in (yield from stopped(key.prefixes, MOST_TOPICS, now)):
        records.add_metric((each.topic, each.code), each.records)
        ages.add_metric((each.topic, each.code), each.age_ms / 1000)
    return [unmoved, records, ages, *(yield from collect_captures(key))]


def collect_captures(key: Key) -> Script[list[Metric]]:
    """Returns the lost changes of each captured table whose topic the key may see, and whether the capture still works."""
    lost = CounterMetricFamily(
        "topics_capture_lost_changes",
        "Changes of a [captured](sql.md#capture-the-changes-of-a-table) table that are a tombstone of its topic",
        labels=("table", "topic"),
    )
    live = GaugeMetricFamily(
        "topics_capture_live",
        "1 while the captured table has its triggers. Without them, its changes are not captured",
        labels=("table", "topic"),
    )
    for each in (yield from captured(key.prefixes, MOST_CAPTURES)):
        lost.add_metric((each.table, each.topic), each.lost)
        live.add_metric((each.table, each.topic), int(each.is_live))
    return [lost, live]
