"""Reads one record by topic and seq, with its lineage (docs/wire.md): home and routers."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from base.errors import RecordNotFound
from store.script import Script, Statement
from topics.cache import absent, load_topic
from topics.hooks import hooks
from topics.sealed import marked

# The topic's own record by the primary key, or else the span of the seq, by its key, and then the home's row. The record is
# NULL if the topic does not show the seq: it is below the floor, expired or deleted.
RECORD = """
WITH topic AS (
    SELECT t.id, t.name, t.sealed, h.floor_seq, CASE WHEN t.ttl_ms > 0 THEN %(now)s - t.ttl_ms ELSE 0 END AS expired_ts
      FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id WHERE t.name = %(name)s),
shown AS (
    SELECT r.seq, r.ts, r.node, r.tag, r.meta::text AS meta, r.data, topic.id AS home_id, r.seq AS home_seq,
           '{}'::text[] AS routers
      FROM topic JOIN topics_record r ON r.topic_id = topic.id AND r.seq = %(seq)s
     WHERE NOT r.deleted
    UNION ALL
    SELECT f.seq, f.ts, f.node, f.tag, f.meta, f.data, f.home_id, f.home_seq, f.path
      FROM topic CROSS JOIN LATERAL topic_forwarded(topic.id, %(seq)s, %(seq)s) f)
SELECT record_json(shown.seq, shown.ts, shown.node, shown.tag, shown.meta, shown.data, true, true),
       coalesce((SELECT name FROM topics_topic WHERE id = shown.home_id),
                (SELECT name FROM topics_deletedtopic WHERE id = shown.home_id)),
       shown.home_seq, array_to_json(shown.routers), topic.sealed
  FROM topic
  LEFT JOIN shown ON shown.seq > topic.floor_seq AND shown.ts >= topic.expired_ts
"""


# A span is as long as what a router forwards at once, so the spans of a record end at it or soon after, and are among the first
# PIECES from there. LIMIT comes before the filter: otherwise the search would continue to the end of the home.
ELSEWHERE = """
SELECT t.name, span.first_seq + (%(seq)s::bigint - span.home_first_seq)
  FROM (SELECT topic_id, first_seq, home_first_seq, shown FROM topics_span
         WHERE home_id = (SELECT id FROM topics_topic WHERE name = %(home)s) AND home_last_seq >= %(seq)s
         ORDER BY home_last_seq LIMIT %(pieces)s) span
 CROSS JOIN LATERAL (SELECT name FROM topics_topic WHERE id = span.topic_id LIMIT 1) t
 CROSS JOIN LATERAL (SELECT floor_seq FROM topics_topichead WHERE topic_id = span.topic_id LIMIT 1) h
 WHERE span.shown AND span.home_first_seq <= %(seq)s AND span.first_seq + (%(seq)s - span.home_first_seq) > h.floor_seq
 ORDER BY t.name LIMIT %(most)s
"""
PIECES = 1_000


class TracedRecord(NamedTuple):
    """A record as the API shows it, with its lineage: home, seq in the home, and the routers since.

    `sealed`: whether the topic that shows the record is sealed.
    """

    record: str
    home: str
    home_seq: int
    routers: list[str]
    sealed: bool


def record(name: str, seq: int, now: int) -> Script[TracedRecord]:
    """Returns a record. Raises TopicNotFound, or RecordNotFound if the topic does not show this seq."""
    look = Statement(RECORD, {"name": name, "seq": seq, "now": now}, quick=True)
    rows = yield look
    if not rows:
        raise absent(name)
    if rows[0][0] is None:
        topic = yield from load_topic(name)
        if topic is not None and topic.derived:
            yield from hooks.value.before_read(topic, now)  # a router may not have forwarded the record yet
            rows = (yield look) or rows
    if rows[0][0] is None:
        raise marked(RecordNotFound.of(topic=name, seq=seq), rows[0][-1])
    text, home, home_seq, routers, is_sealed = rows[0]
    return TracedRecord(text, home, home_seq, msgspec.json.decode(routers), is_sealed)


def elsewhere(home: str, home_seq: int, most: int) -> Script[list[tuple[str, int]]]:
    """Returns the topics that got this record by routers, each with its seq there, at most `most` of them."""
    wanted = {"home": home, "seq": home_seq, "pieces": PIECES, "most": most}
    return [(name, seq) for name, seq in (yield Statement(ELSEWHERE, wanted))]
