"""The topics of a webhook: which they are, its positions in them, and the records that it reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from base.errors import TopicNotFound
from base.names import after_prefix
from push.webhooks.config import Settings, wants
from push.webhooks.lanes import OutgoingRecord
from store.script import Script, Statement
from topics.cursors import owned as owned_cursors
from topics.read.diff import Diff, Window, read_window
from topics.read.stamps import seen

# The logs among these topics, and the position of a webhook: NULL for a topic that is new to it. Without `quiet`, only topics
# that are new or have records after the position. LIMIT makes the planner look up each row: for a join, a plan for all values
# would read all topics.
TOPICS = """
SELECT t.id, t.name, c.id, c.seq, h.head_seq, c.updated_ts
  FROM ({found}) found
 CROSS JOIN LATERAL (SELECT id, name FROM topics_topic WHERE id = found.id AND type = 'log' LIMIT 1) t
 CROSS JOIN LATERAL (SELECT head_seq FROM topic_heads WHERE topic_id = t.id LIMIT 1) h
  LEFT JOIN LATERAL (SELECT id, seq, updated_ts FROM topic_cursors
                      WHERE topic_id = t.id AND name = %(webhook)s AND kind = 'webhook' LIMIT 1) c ON true
 WHERE %(quiet)s::boolean OR c.seq IS NULL OR c.seq < h.head_seq
"""
# Topics with names in a list or in ranges, each by the unique index.
FOUND = """
       SELECT id FROM unnest(%(names)s::text[]) wanted (name)
        CROSS JOIN LATERAL (SELECT id FROM topics_topic WHERE name = wanted.name LIMIT 1) named
        UNION
       SELECT id FROM unnest(%(lows)s::text[], %(highs)s::text[]) AS range (low, high)
         JOIN topics_topic ON name >= low COLLATE "C" AND name < high COLLATE "C"
"""
GIVEN = "SELECT unnest(%(ids)s::bigint[]) AS id"
NAMED = "SELECT id, name FROM topics_topic WHERE id = ANY (%s) AND type = 'log'"
STOPPED = "SELECT DISTINCT topic_id FROM push_webhookwaiting WHERE webhook_id = %s AND line = ''"
STILL_STOPPED = """
SELECT topic_id FROM unnest(%(topic_ids)s::bigint[]) AS asked (topic_id)
 CROSS JOIN LATERAL (SELECT FROM push_webhookwaiting
                      WHERE webhook_id = %(webhook)s AND topic_id = asked.topic_id AND line = '' LIMIT 1) first
"""
# Of a window: the lines of which a record waits, and the records that wait.
WAITING = """
SELECT line, NULL FROM unnest(%(lines)s::text[]) line
 WHERE EXISTS (SELECT FROM push_webhookwaiting w
                WHERE w.webhook_id = %(webhook)s AND w.topic_id = %(topic)s AND w.line = line.line)
 UNION ALL
SELECT NULL, seq FROM push_webhookwaiting
 WHERE webhook_id = %(webhook)s AND topic_id = %(topic)s AND seq > %(after)s AND seq <= %(upto)s
"""
# By the index on (webhook_id, next_ts). The time is a subquery, because an index cannot serve a volatile function.
DUE = """
SELECT topic_id, seq, topic, line, attempts, first_ts FROM push_webhookwaiting
 WHERE webhook_id = %s AND next_ts <= (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
 ORDER BY next_ts LIMIT %s
"""
NEXT_DUE = """
SELECT next_ts - (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM push_webhookwaiting
 WHERE webhook_id = %s AND next_ts IS NOT NULL ORDER BY next_ts OFFSET %s LIMIT 1
"""
TEST_TOPIC = "webhooks.test"  # in the body of a test, whose row has the topic_id 0


@dataclass(eq=False)
class WebhookSource:
    """A topic of a webhook. Records up to `read` are in memory, wait, or are done. `open`: those of them whose outcome is not
    settled, in order, with `closed` of them settled."""

    id: int
    name: str
    read: int
    head: int
    stored: int = 0  # the position in PostgreSQL
    open: deque[int] = field(default_factory=deque)
    closed: set[int] = field(default_factory=set)

    def close(self, seqs: Sequence[int]) -> None:
        self.closed.update(seqs)
        while self.open and self.open[0] in self.closed:
            self.closed.discard(self.open.popleft())

    @property
    def position(self) -> int:
        """The seq up to which all records are done or wait."""
        return self.open[0] - 1 if self.open else self.read


class JoinedTopic(NamedTuple):
    """A topic that a webhook gets. One that is new to the webhook has no cursor: `cursor_id`, `seq` and `moved_ts` are None."""

    id: int
    name: str
    cursor_id: int | None
    seq: int | None
    head: int
    moved_ts: int | None

    @property
    def lag(self) -> int | None:
        return None if self.seq is None else self.head - self.seq


def topics_of(
    webhook: str,
    settings: Settings,
    prefixes: tuple[str, ...],
    ids: Sequence[int] | None = None,
    *,
    quiet: bool = True,
) -> Script[list[JoinedTopic]]:
    """Returns the topics of a webhook that exist. `ids`: those of these alone. `quiet`: also those without records to read."""
    starts = [each[:-1] for each in settings.topics if each.endswith("*")]
    wanted = {
        "names": [each for each in settings.topics if not each.endswith("*")],
        "lows": starts,
        "highs": [after_prefix(start) or "\U0010ffff" for start in starts],
        "ids": ids,
        "quiet": quiet,
        "webhook": webhook,
    }
    rows = yield Statement(TOPICS.format(found=FOUND if ids is None else GIVEN), wanted)
    return [found for found in map(JoinedTopic._make, rows) if wants(settings.topics, prefixes, found.name)]


def joined(
    webhook: str,
    settings: Settings,
    prefixes: tuple[str, ...],
    now: int,
    ids: Sequence[int] | None = None,
    *,
    quiet: bool = True,
) -> Script[list[WebhookSource]]:
    """Returns topics of a webhook, as topics_of does. A topic that is new to it begins at its first record."""
    found = yield from topics_of(webhook, settings, prefixes, ids, quiet=quiet)
    new = [each.id for each in found if each.seq is None]
    if new:
        cursors = {"topic_ids": new, "kind": "webhook", "name": webhook, "now": now}
        yield Statement(owned_cursors.INSERT_AT_BEGIN, cursors)
        found += yield from topics_of(webhook, settings, prefixes, new)
    return [WebhookSource(each.id, each.name, each.seq, each.head, each.seq) for each in found if each.seq is not None]


def stopped(webhook_id: int) -> Script[set[int]]:
    """Returns the topics of which a record waits that holds up the others."""
    return {id for (id,) in (yield Statement(STOPPED, (webhook_id,)))}


def still_stopped(webhook_id: int, topic_ids: Sequence[int]) -> Script[set[int]]:
    """Returns those of these topics of which such a record waits."""
    wanted = {"webhook": webhook_id, "topic_ids": list(topic_ids)}
    return {id for (id,) in (yield Statement(STILL_STOPPED, wanted, quick=True))}


class Head(msgspec.Struct):
    """The fields of a record, as a read shows it, that a webhook needs."""

    seq: int = msgspec.field(name="$seq")
    ts: int = msgspec.field(name="$ts")
    tag: str | None = msgspec.field(name="$tag", default=None)


RAW, HEADS = msgspec.json.Decoder(list[msgspec.Raw]), msgspec.json.Decoder(list[Head])


def records_of(
    source: WebhookSource, window: Window, settings: Settings, prefixes: tuple[str, ...]
) -> Iterator[OutgoingRecord]:
    """Yields the records of a window."""
    if not window.records:
        return
    text = f"[{seen(window.records, prefixes)}]"
    for record, head in zip(RAW.decode(text), HEADS.decode(text), strict=True):
        line = settings.line(head.tag)
        yield OutgoingRecord(source.id, source.name, head.seq, head.ts, head.tag, line, bytes(record))


def read(source: WebhookSource, settings: Settings, limit: int, now: int) -> Script[Window | None]:
    """Returns the next window of a topic, or None if the topic was deleted, also if another one has its name by now."""
    wanted = Diff(from_seq=source.read, limit=limit, match=settings.match, include_tags=True)
    try:
        topic, window = yield from read_window(source.name, wanted, now)
    except TopicNotFound:
        return None
    return window if topic.id == source.id else None


def waiting_in(
    webhook_id: int, topic_id: int, lines: Sequence[str], after: int, upto: int
) -> Script[tuple[set[str], set[int]]]:
    """Returns which of these lines of a topic have a record that waits, and which records of a range wait."""
    wanted = {"webhook": webhook_id, "topic": topic_id, "lines": list(lines), "after": after, "upto": upto}
    rows = yield Statement(WAITING, wanted, quick=True)
    return {line for line, _ in rows if line is not None}, {seq for _, seq in rows if seq is not None}


class Due(NamedTuple):
    """A record whose next attempt is due."""

    topic_id: int
    seq: int
    topic: str
    line: str | None
    attempts: int
    first_ts: int


def due(webhook_id: int, limit: int) -> Script[list[Due]]:
    rows = yield Statement(DUE, (webhook_id, limit), quick=True)
    return sorted(map(Due._make, rows), key=lambda each: (each.topic_id, each.seq))


def next_due_ms(webhook_id: int, taken: int) -> Script[int | None]:
    """Returns the time until the next record is due, or None if none waits. `taken`: records that are on their way."""
    rows = yield Statement(NEXT_DUE, (webhook_id, taken), quick=True)
    return max(rows[0][0], 0) if rows else None


def load(rows: Sequence[Due], settings: Settings, prefixes: tuple[str, ...], now: int) -> Script[list[OutgoingRecord]]:
    """Returns the records of these rows, in order of topic and seq. Records that no longer exist are missing."""
    found: list[OutgoingRecord] = []
    by_topic: dict[tuple[int, str], dict[int, Due]] = {}
    for row in rows:
        by_topic.setdefault((row.topic_id, row.topic), {})[row.seq] = row
    for (topic_id, topic), wanted in by_topic.items():
        if topic_id == 0:
            found += [test(row, now) for row in wanted.values()]
            continue
        source, left = WebhookSource(topic_id, topic, 0, 0), deque(sorted(wanted))
        while left:
            source.read = left[0] - 1
            # Rows next to each other are one read. `match` is left out: the config can have changed since.
            window = yield from read(source, msgspec.structs.replace(settings, match=None), run_length(left), now)
            if window is None:
                break
            for record in records_of(source, window, settings, prefixes):
                if (due := wanted.get(record.seq)) is not None:
                    record.line, record.attempts, record.first_ts = due.line, due.attempts, due.first_ts
                    record.is_waiting = True
                    found.append(record)
            while left and left[0] <= max(window.next_from_seq, source.read + 1):
                left.popleft()
    return found


def run_length(seqs: Sequence[int]) -> int:
    """Returns how many of these seqs follow each other without a gap."""
    for place, seq in enumerate(seqs):
        if seq != seqs[0] + place:
            return place
    return len(seqs)


def test(row: Due, now: int) -> OutgoingRecord:
    """Returns the record of a test."""
    record: dict[str, Any] = {"$seq": row.seq, "$ts": now, "data": {"test": True}}
    return OutgoingRecord(
        0, TEST_TOPIC, row.seq, now, None, None, msgspec.json.encode(record), 0.0, row.attempts, row.first_ts, True
    )


def names_of(topic_ids: Sequence[int]) -> Script[dict[int, str]]:
    """Returns the names of these topics that are logs."""
    return dict((yield Statement(NAMED, (list(topic_ids),), quick=True)))
