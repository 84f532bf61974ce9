"""The outcomes of records since the last settle, and the next settle, which stores them.

A record ends once: it is done, or it waits from then on. A position passes a record only when it has ended. A record that becomes
a dead letter ends only when the position has passed all records before it. Otherwise a crash would send it, and bury it, again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from push.delivery.caller import Outcome
from push.webhooks.lanes import Lane, OutgoingRecord
from push.webhooks.settle import Settling, WaitingRecord, WebhookLetter
from push.webhooks.sources import WebhookSource

REFUSED_MS = 60_000  # until a record is sent again whose dead letter topic takes no records
MOST_STAMP = 2_048  # bytes, as much as a copy of the record to another server allows (base/bounds.py)
STAMP = "_topics_webhook"  # the key of `meta`


class EndedRecord(NamedTuple):
    """The outcome of a record. `delay_ms`: how long it `waits`, or None behind another record."""

    record: OutgoingRecord
    what: Literal["delivered", "skipped", "lost", "dead", "waits"]
    delay_ms: int | None = None
    outcome: Outcome | None = None


class EndpointHealth(NamedTuple):
    """The endpoint: its failures in a row, and how long it gets no call. `pause`: why the webhook is paused from now on."""

    failures: int
    rest_ms: int
    error: str | None
    pause: str | None


class Outcomes:
    """Records that ended since the last settle, and rows of the log."""

    def __init__(self, webhook: str) -> None:
        self.webhook = webhook
        self.ended: list[EndedRecord] = []
        self.log: list[dict[str, Any]] = []

    def next(
        self, sources: Mapping[int, WebhookSource], moved: Collection[int], health: EndpointHealth
    ) -> tuple[Settling, list[EndedRecord]]:
        """Returns the settle of all that ended, and what it settles. Dead letters that must wait stay here.

        `moved`: topics whose position advanced although no record ended.
        """
        ended = self.close(sources)
        log, self.log = self.log, []
        return settling(self.webhook, ended, log, sources, moved, health), ended

    def close(self, sources: Mapping[int, WebhookSource]) -> list[EndedRecord]:
        """Returns the records that end now. The positions of their topics pass them."""
        now: list[EndedRecord] = []
        dead: list[EndedRecord] = []
        for each in self.ended:
            (dead if each.what == "dead" else now).append(each)
        self.ended = []
        for each in now:
            close(each.record, sources)
        for each in sorted(dead, key=lambda one: one.record.seq):
            record, source = each.record, sources.get(each.record.topic_id)
            if source is None or (source.position >= record.seq if record.is_waiting else source.open[0] == record.seq):
                close(record, sources)
                now.append(each)
            else:
                self.ended.append(each)
        return now


def close(record: OutgoingRecord, sources: Mapping[int, WebhookSource]) -> None:
    source = sources.get(record.topic_id)
    if source is not None and not record.is_waiting:
        source.close((record.seq,))


def settling(
    webhook: str,
    ended: Sequence[EndedRecord],
    log: list[dict[str, Any]],
    sources: Mapping[int, WebhookSource],
    moved: Collection[int],
    health: EndpointHealth,
) -> Settling:
    """Returns the settle of these outcomes."""
    done, waiting, letters = [], [], []
    delivered: dict[int, int] = {}
    dead = 0
    for record, what, delay_ms, outcome in ended:
        if what == "waits":
            status, error = (outcome.status, outcome.error) if outcome else (None, None)
            waiting.append(
                WaitingRecord(
                    record.topic_id,
                    record.seq,
                    record.topic,
                    record.line,
                    record.attempts,
                    record.first_ts,
                    delay_ms,
                    status,
                    error,
                )
            )
            continue
        is_failed = what in ("dead", "skipped")
        if record.is_waiting or is_failed:
            # A test is never sent again.
            done.append((record.topic_id, record.seq, record.line, is_failed and record.topic_id != 0))
        if what == "delivered":
            delivered[record.topic_id] = delivered.get(record.topic_id, 0) + 1
        dead += is_failed
        if what == "dead" and outcome is not None:
            letters.append(letter(webhook, record, outcome))
    # Only these: a webhook can have very many topics, and a settle is about few.
    touched = {*moved, *(each.record.topic_id for each in ended)}
    positions = [
        (id, source.position, delivered.get(id, 0))
        for id in sorted(touched)
        if (source := sources.get(id)) is not None and (source.position > source.stored or id in delivered)
    ]
    return Settling(done, waiting, positions, log, letters, *health, records=sum(delivered.values()), dead=dead)


def letter(webhook: str, record: OutgoingRecord, outcome: Outcome) -> WebhookLetter:
    """Returns the dead letter of a record: its data, tag and meta, and a stamp in meta."""
    parts = record.parts()
    stamp: dict[str, Any] = {
        "webhook": webhook,
        "topic": record.topic,
        "seq": record.seq,
        "attempts": record.attempts,
        "status": outcome.status,
        "error": outcome.error,
        "answer": outcome.answer,
    }
    if len(msgspec.json.encode(stamp)) > MOST_STAMP:
        stamp["answer"] = outcome.answer[:200]
    return WebhookLetter(
        parts.data, record.tag, {STAMP: stamp, **{key: value for key, value in parts.meta.items() if key != STAMP}}
    )


def without_letters(ended: Sequence[EndedRecord]) -> list[EndedRecord]:
    """Returns these outcomes for a dead letter topic that takes no records: the records of the letters wait."""
    return [each._replace(what="waits", delay_ms=REFUSED_MS) if each.what == "dead" else each for each in ended]


def lanes_of(ended: Sequence[EndedRecord], *whats: str) -> set[Lane]:
    """Returns the lanes of the records with one of these outcomes."""
    return {each.record.lane for each in ended if each.what in whats}
