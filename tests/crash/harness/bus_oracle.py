"""The oracle's part about the push bus: at least once, in order, one content for each batch id (docs/push.md)."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from tests.crash.harness.evidence import BusEvidence, Published
from tests.push.receiver import Batch


def faults(bus: BusEvidence) -> Iterator[str]:
    """Everything that is broken, a sentence each."""
    for subscriber, batches in bus.batches.items():
        wanted = {event.url: event for event in bus.published if event.topic in bus.topics[subscriber]}
        for found in (
            unknown(batches, wanted),
            missing(batches, wanted),
            out_of_order(batches, wanted),
            changed(batches),
        ):
            yield from (f"{subscriber}: {what}" for what in found)


def unknown(batches: list[Batch], wanted: dict[str, Published]) -> Iterator[str]:
    """A callback gets events of its topics only, as they were published."""
    for batch in batches:
        for event in batch.events:
            sent = wanted.get(event["url"])
            if event["url"].endswith("/0"):
                continue  # it made the topic
            if sent is None or (sent.topic, sent.data) != (event["topic"], event["data"]):
                yield f"batch {batch.id} holds {event}, which was published as {sent}"


def missing(batches: list[Batch], wanted: dict[str, Published]) -> Iterator[str]:
    """Each event that was acked was acknowledged by the callback, those with POISON too."""
    acknowledged = {event["url"] for batch in batches if batch.status == 200 for event in batch.events}
    lost = [event for event in wanted.values() if event.acked is not None and event.url not in acknowledged]
    if lost:
        yield f"{len(lost)} acked events were never acknowledged, first {lost[0]}"


def out_of_order(batches: list[Batch], wanted: dict[str, Published]) -> Iterator[str]:
    """An event that was acked before another was sent is delivered before it."""
    first = dict.fromkeys(event["url"] for batch in batches for event in batch.events)
    earliest_ack, its_url = inf, ""
    for url in reversed(first):
        event = wanted.get(url)
        if event is None:
            continue
        if earliest_ack < event.sent:
            yield f"{its_url} was acked at {earliest_ack:.3f} s, {url} was sent at {event.sent:.3f} s and came first"
        if event.acked is not None and event.acked < earliest_ack:
            earliest_ack, its_url = event.acked, url


def changed(batches: list[Batch]) -> Iterator[str]:
    """A batch that is sent again holds the same events."""
    contents: dict[str, bytes] = {}
    for batch in batches:
        if contents.setdefault(batch.id, batch.body) != batch.body:
            yield f"batch {batch.id} came with two contents"
