"""Describes topics as they are now (docs/wire.md): counts are exact, also under a ttl, and the call writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from store.script import Script, Statement
from topics import config
from topics.cache import CachedTopic, as_known
from topics.hooks import JobCounts, hooks
from topics.models import Topic
from topics.read.recency import effective_priority, last_read

COLUMNS = "h.head_seq, s.earliest_seq, s.records, s.payload, h.last_ts, h.last_read_ts"
# Describes one cached topic. Simultaneous calls for a topic share the statement.
ONE = f"""
SELECT {COLUMNS} FROM topics_topichead h CROSS JOIN LATERAL topic_stat(h, %s) s WHERE h.topic_id = %s AND h.version = %s
 LIMIT 1
"""
# Reads a range of the unique index for each prefix, in order of name. So a page costs as much as it shows, however many
# topics exist. No character of a name sorts behind "~".
PAGE = f"""
SELECT t.id, t.name, t.durability, t.priority, t.auto_priority, t.created_ts, {COLUMNS}
  FROM (SELECT page.* FROM unnest(%(prefixes)s::text[]) prefix CROSS JOIN LATERAL (
            SELECT * FROM topics_topic
             WHERE name >= prefix AND name < prefix || '~'
               AND name > %(after)s
             ORDER BY name LIMIT %(limit)s) page
         ORDER BY name LIMIT %(limit)s) t
  JOIN topics_topichead h ON h.topic_id = t.id
 CROSS JOIN LATERAL topic_stat(h, CASE WHEN t.ttl_ms > 0 THEN %(now)s - t.ttl_ms END) s
 ORDER BY t.name
"""


class TopicFigures(NamedTuple):
    """A topic at one moment. A time is 0 if the event never happened."""

    id: int
    name: str
    durability: str
    head_seq: int
    earliest_seq: int
    records: int
    bytes: int
    effective_priority: int
    last_write_ts: int
    last_read_ts: int

    @property
    def durable(self) -> bool:
        return self.durability == Topic.Durability.FSYNC


class Held(NamedTuple):
    """A topic with its whole config. `jobs`: the figures of a queue, None for a log."""

    state: TopicFigures
    config: config.WholeConfig
    jobs: JobCounts | None


def held(name: str, now: int) -> Script[Held]:
    """Returns a topic with its config. Raises TopicNotFound."""

    def look(topic: CachedTopic) -> Script[Held | None]:
        if topic.derived:
            yield from hooks.value.before_read(topic, now)
        rows = yield Statement(ONE, (topic.expired_ts(now), topic.id, topic.version), quick=True)
        if not rows:
            return None
        jobs = None
        if topic.type == Topic.Type.QUEUE:
            jobs = yield from hooks.value.count_jobs(topic, now)
            if jobs is None:
                return None
        known = (topic.id, name, topic.durability, topic.priority, topic.auto_priority, topic.created_ts)
        return Held(from_row((*known, *rows[0]), now), config.remembered(topic), jobs)

    return as_known(name, look)


def page_of_topics(prefix: str, allowed: Iterable[str], after: str, limit: int, now: int) -> Script[list[TopicFigures]]:
    """Returns the next topics by name that start with `prefix`. If `allowed` is not empty, a name must also start with a
    prefix of `allowed`."""
    prefixes = intersection(prefix, allowed)
    rows = yield Statement(PAGE, {"prefixes": prefixes, "after": after, "limit": limit, "now": now})
    return [from_row(row, now) for row in rows]


def intersection(prefix: str, allowed: Iterable[str]) -> list[str]:
    """Returns prefixes that together cover all names that start with `prefix` and with one of `allowed`. No prefix covers
    another."""
    if not allowed:
        return [prefix]
    meeting = [each for each in allowed if each.startswith(prefix) or prefix.startswith(each)]
    kept: list[str] = []
    for each in sorted({max(prefix, each, key=len) for each in meeting}):
        if not kept or not each.startswith(kept[-1]):
            kept.append(each)
    return kept


def from_row(row: Sequence[Any], now: int) -> TopicFigures:
    id, name, durability, priority, auto, created_ts, head_seq, earliest_seq, records, payload, write_ts, read_ts = row
    read_ts = last_read(id, read_ts)
    touched_ts = max(created_ts, write_ts, read_ts)
    effective = effective_priority(priority, auto, touched_ts, now)
    return TopicFigures(id, name, durability, head_seq, earliest_seq, records, payload, effective, write_ts, read_ts)
