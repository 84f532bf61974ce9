"""The log of a webhook's calls, and records that an operator sends again."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from base.errors import Incompatible, InvalidRequest, NotFound
from push.webhooks.lanes import MOST_SPAN
from push.webhooks.sources import TEST_TOPIC, Head, JoinedTopic, topics_of
from push.webhooks.webhooks import Stored, find, tell
from store.script import Script, Statement, atomically
from topics import audit
from topics.read.diff import Diff, read_window, seq_before

MOST_REPLAYED = 10_000  # records of one call
MOST_SEQ = 2**63 - 1  # of PostgreSQL

PAGE = """
SELECT id, ts, topic, first_seq, last_seq, records, message, attempt, state, status, ms, error, answer, next_ts
  FROM push_webhooklog
 WHERE webhook_id = %(webhook)s AND id < %(before)s {conditions}
 ORDER BY id DESC LIMIT %(limit)s
"""
CONDITIONS = {
    "topic": "AND topic = %(topic)s",
    # Calls are found by the range of their last seqs, which MOST_SPAN bounds. Losses have no bound, and are few.
    "seq": """
   AND id IN (SELECT id FROM push_webhooklog
               WHERE webhook_id = %(webhook)s AND topic = %(topic)s AND last_seq BETWEEN %(seq)s AND %(most_seq)s
                 AND first_seq <= %(seq)s AND (seqs IS NULL OR %(seq)s = ANY (seqs))
               UNION ALL
              SELECT id FROM push_webhooklog
               WHERE webhook_id = %(webhook)s AND state = 'lost' AND topic = %(topic)s
                 AND %(seq)s BETWEEN first_seq AND last_seq)""",
    "state": "AND state = %(state)s",
    "from_ts": "AND ts >= %(from_ts)s",
    "to_ts": "AND ts <= %(to_ts)s",
    "prefixes": f"AND (topic = '{TEST_TOPIC}' OR topic ^@ ANY (%(prefixes)s::text[]))",
}
# Records of the topics of today that were given up, by the primary key.
FAILED = """
SELECT name, seq FROM unnest(%(topic_ids)s::bigint[], %(names)s::text[]) AS topic (topic_id, name)
  JOIN push_webhookfailed USING (topic_id)
 WHERE webhook_id = %(webhook)s AND (name COLLATE "C", seq) > (%(topic)s, %(after)s) AND ts BETWEEN %(from_ts)s AND %(to_ts)s
   AND (%(to_seq)s::bigint IS NULL OR name = %(topic)s AND seq <= %(to_seq)s)
 ORDER BY name COLLATE "C", seq LIMIT %(limit)s
"""
# A record that waits is due now. The others wait for no other record: their turn is over.
AGAIN = """
INSERT INTO push_webhookwaiting AS kept (webhook_id, topic_id, seq, topic, line, attempts, first_ts, next_ts, set_ts)
SELECT %(webhook)s, topic_id, seq, topic, NULL, 0, 0, now.ts, now.ts
  FROM unnest(%(topic_ids)s::bigint[], %(seqs)s::bigint[], %(topics)s::text[]) AS again (topic_id, seq, topic),
       (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ts) now
ON CONFLICT (webhook_id, topic_id, seq) DO UPDATE SET next_ts = excluded.next_ts, set_ts = excluded.set_ts
 WHERE kept.next_ts IS NOT NULL
"""
TEST = """
INSERT INTO push_webhookwaiting (webhook_id, topic_id, seq, topic, attempts, first_ts, next_ts, set_ts)
SELECT %(webhook)s, 0, ts, %(topic)s, 0, 0, ts, ts FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ts) now
ON CONFLICT (webhook_id, topic_id, seq) DO UPDATE SET next_ts = excluded.next_ts, set_ts = excluded.set_ts
RETURNING seq
"""


class LoggedCall(NamedTuple):
    """A row of the log."""

    id: int
    ts: int
    topic: str
    first_seq: int
    last_seq: int
    records: int
    message: str
    attempt: int
    state: str
    status: int | None
    ms: int
    error: str | None
    answer: str | None
    next_ts: int | None


class LogFilter(NamedTuple):
    """Which rows of the log: those that meet all conditions that are not None.

    `prefixes`: of topics. The log also has the calls with topics that the webhook had before.
    """

    topic: str | None = None
    seq: int | None = None
    state: str | None = None
    from_ts: int | None = None
    to_ts: int | None = None
    prefixes: list[str] | None = None


def page_of_deliveries(webhook_id: int, wanted: LogFilter, before: int, limit: int) -> Script[list[LoggedCall]]:
    """Returns the newest rows with an id below `before`."""
    given: dict[str, Any] = {name: value for name, value in wanted._asdict().items() if value is not None}
    statement = PAGE.format(conditions=" ".join(CONDITIONS[name] for name in given))
    if wanted.seq is not None:
        given["most_seq"] = min(wanted.seq + MOST_SPAN, MOST_SEQ)
    rows = yield Statement(statement, {"webhook": webhook_id, "before": before, "limit": limit, **given})
    return [LoggedCall(*row) for row in rows]


class ReplayPart(NamedTuple):
    """Records to send again. `next_from`: where the next call continues, or None at the end."""

    found: list[tuple[str, int]]
    next_from: tuple[str, int] | None


class ReplayChoice(NamedTuple):
    """Which records to send again: a range of seqs or times of a topic, or (`failed`) all without an attempt left."""

    topic: str | None
    from_seq: int | None
    to_seq: int | None
    from_ts: int | None
    to_ts: int | None
    failed: bool


def replay(name: str, wanted: ReplayChoice, now: int, *, is_dry: bool) -> Script[ReplayPart]:
    """Sends records again, up to MOST_REPLAYED, or only finds them. Raises NotFound, InvalidRequest or Incompatible."""
    webhook = yield from find(name)
    topics = {each.name: each for each in (yield from topics_of(name, webhook.settings, webhook.prefixes))}
    chosen = yield from (failed(webhook, topics, wanted) if wanted.failed else ranged(webhook, topics, wanted, now))
    if not is_dry and chosen.found:
        if webhook.paused:
            raise Incompatible("the webhook is paused: resume it, then replay", webhook=name)
        yield from atomically(again(webhook, chosen.found, topics))
        tell(webhook.id)
    return chosen


def again(webhook: Stored, found: list[tuple[str, int]], topics: dict[str, JoinedTopic]) -> Script[None]:
    rows = {
        "webhook": webhook.id,
        "topic_ids": [topics[topic].id for topic, _ in found],
        "seqs": [seq for _, seq in found],
        "topics": [topic for topic, _ in found],
    }
    yield Statement(AGAIN, rows)
    yield from audit.note("replay", "webhook", webhook.name, after={"records": len(found)})


def failed(webhook: Stored, topics: dict[str, JoinedTopic], wanted: ReplayChoice) -> Script[ReplayPart]:
    """Returns the records that were given up, and not delivered since. Raises InvalidRequest."""
    if wanted.topic is None and (wanted.from_seq is not None or wanted.to_seq is not None):
        raise InvalidRequest("seqs belong to a topic: send topic, too", field="topic")
    given = {
        "webhook": webhook.id,
        "topic_ids": [each.id for each in topics.values()],
        "names": list(topics),
        "topic": wanted.topic or "",
        "after": (wanted.from_seq or 1) - 1,
        "to_seq": wanted.to_seq,
        "from_ts": wanted.from_ts or 0,
        "to_ts": wanted.to_ts if wanted.to_ts is not None else 2**62,
        "limit": MOST_REPLAYED + 1,
    }
    rows = yield Statement(FAILED, given)
    found = [(topic, seq) for topic, seq in rows[:MOST_REPLAYED]]
    return ReplayPart(found, (rows[MOST_REPLAYED][0], rows[MOST_REPLAYED][1]) if len(rows) > MOST_REPLAYED else None)


def ranged(webhook: Stored, topics: dict[str, JoinedTopic], wanted: ReplayChoice, now: int) -> Script[ReplayPart]:
    """Returns the records of a range that the webhook has read, and that its config of today matches."""
    if wanted.topic is None:
        raise InvalidRequest("topic is missing: send topic with seqs or times, or failed: true", field="topic")
    topic = topics.get(wanted.topic)
    if topic is None or topic.seq is None:
        raise NotFound(f"webhook {webhook.name!r} has no topic {wanted.topic[:80]!r}", webhook=webhook.name)
    first = (wanted.from_seq or 1) - 1
    if wanted.from_ts is not None:
        first = max(first, (yield from seq_before(topic.name, wanted.from_ts, now)))
    last = topic.seq if wanted.to_seq is None else min(wanted.to_seq, topic.seq)
    if wanted.to_ts is not None:
        last = min(last, (yield from seq_before(topic.name, wanted.to_ts + 1, now)))
    found: list[tuple[str, int]] = []
    while first < last and len(found) < MOST_REPLAYED:
        diff = Diff(from_seq=first, limit=1_000, match=webhook.settings.match, include_meta=False)
        _, window = yield from read_window(topic.name, diff, now)
        heads = msgspec.json.decode(f"[{window.records or ''}]", type=list[Head])
        found += [(topic.name, head.seq) for head in heads if head.seq <= last]
        first = max(window.next_from_seq, first + 1)
    if len(found) > MOST_REPLAYED:
        return ReplayPart(found[:MOST_REPLAYED], (topic.name, found[MOST_REPLAYED][1]))
    return ReplayPart(found, (topic.name, first + 1) if first < last else None)


def send_test(name: str) -> Script[int]:
    """Sends a test to the endpoint. Returns its seq in the log. Raises NotFound or Incompatible."""
    webhook = yield from find(name)
    if webhook.paused:
        raise Incompatible("the webhook is paused: resume it, then test", webhook=name)
    rows = yield Statement(TEST, {"webhook": webhook.id, "topic": TEST_TOPIC})
    tell(webhook.id)
    return int(rows[0][0])
