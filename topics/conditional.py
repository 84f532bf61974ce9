"""Appends under a condition: once under a key, or with an expected head. Appends that arrive together share a transaction.

The statement judges each condition behind the locks of the heads. An append whose condition fails writes nothing, and does not
affect the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from store.codec import Rows as Answer
from store.script import Statement
from topics.cache import CachedTopic
from topics.insert import LOCK_HEADS, LOGGED, VOLATILE, apart, array, expecting, texts
from topics.records import Append, Rows
from topics.write import Write

# As APPEND (insert.py), of those appends alone whose condition holds: the topic is the one we knew, its head is where it is
# expected, the key is not kept. The heads are locked before it (LOCK_HEADS). `upto` and `upto_bytes` run through the appends of a
# topic in their order, each included. A key is found by the primary key: `+ 0` keeps a planner that believes there are no keys
# from the index on their age, by which it would read all that are new enough.
APPEND_IF = """
WITH asked AS (
    SELECT * FROM ROWS FROM (unnest(%(of)s::bigint[]), unnest(%(versions)s::bigint[]), unnest(%(counts)s::bigint[]),
                             unnest(%(bytes)s::bigint[]), json_array_elements_text(%(heads)s::json),
                             json_array_elements_text(%(keys)s::json), json_array_elements_text(%(digests)s::json),
                             unnest(%(since)s::bigint[]))
             WITH ORDINALITY AS asked (topic_id, version, count, bytes, expected_head, key, digest, since, n)),
fit AS (
    SELECT asked.*, sum(asked.count) OVER so_far::bigint AS upto, sum(asked.bytes) OVER so_far::bigint AS upto_bytes
      FROM asked
      JOIN topics_topichead head ON head.topic_id = asked.topic_id AND head.version = asked.version
     WHERE head.topic_id = ANY (%(ids)s::bigint[])
       AND (asked.expected_head IS NULL OR asked.expected_head::bigint = head.head_seq)
       AND NOT EXISTS (SELECT FROM topics_idempotencykey kept
                        WHERE kept.topic_id = asked.topic_id AND kept.key = asked.key AND kept.ts + 0 > asked.since)
    WINDOW so_far AS (PARTITION BY asked.topic_id ORDER BY asked.n ROWS UNBOUNDED PRECEDING)),
batch AS (
    SELECT topic_id, sum(count)::bigint AS count, sum(bytes)::bigint AS bytes FROM fit GROUP BY topic_id),
moved AS (
    UPDATE topics_topichead head
       SET {what_moves}
      FROM batch
     WHERE head.topic_id = batch.topic_id AND head.topic_id = ANY (%(ids)s::bigint[])
    RETURNING head.topic_id, head.head_seq - batch.count AS base, head.total - batch.bytes AS base_total, head.last_ts),
written AS (
    INSERT INTO topics_record_{partition} (topic_id, seq, ts, total, size, volatile, node, tag, meta, data)
    SELECT fit.topic_id, moved.base + fit.upto - fit.count + new.place, moved.last_ts,
           moved.base_total + fit.upto_bytes - fit.bytes + new.run, new.size, {volatile},
           new.node, new.tag, nullif(new.meta::text, 'null')::json, new.data
      FROM ROWS FROM (json_array_elements(%(data)s::json), json_array_elements_text(%(tags)s::json),
                      json_array_elements_text(%(nodes)s::json), json_array_elements(%(metas)s::json),
                      unnest(%(places)s::bigint[]), unnest(%(sizes)s::int[]), unnest(%(runs)s::bigint[]),
                      unnest(%(ns)s::bigint[]))
               AS new (data, tag, node, meta, place, size, run, n)
      JOIN fit USING (n)
      JOIN moved ON moved.topic_id = fit.topic_id),
kept AS (
    INSERT INTO topics_idempotencykey (topic_id, key, first_seq, last_seq, ts, digest)
    SELECT fit.topic_id, fit.key, moved.base + fit.upto - fit.count + 1, moved.base + fit.upto, %(now)s, fit.digest::bytea
      FROM fit JOIN moved USING (topic_id)
     WHERE fit.key IS NOT NULL
    ON CONFLICT (topic_id, key) DO UPDATE
       SET first_seq = excluded.first_seq, last_seq = excluded.last_seq, ts = excluded.ts, digest = excluded.digest)
SELECT fit.n - 1, moved.base + fit.upto - fit.count FROM fit JOIN moved USING (topic_id)
"""
LOGGED_IF, VOLATILE_IF = (APPEND_IF.format(**kind) for kind in (LOGGED, VOLATILE))


class AtHead(Write):
    """An append that expects a head and has no key: the statement that moves the head compares it.

    The answer is None if it was not done: the caller looks why.
    """

    def __init__(self, topic: CachedTopic, wanted: Append, rows: Rows, now: int) -> None:
        super().__init__(topic, rows, now)
        self.wanted = wanted

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        """The first append to each topic. Its outcome decides on the others, which look again later."""
        first: dict[int, Self] = {}
        for each in cls.current(batch):
            first.setdefault(each.topic.id, each)
        return [list(first.values())]

    @classmethod
    def writes(cls, batch: Sequence[Self], now: int) -> list[Statement]:
        return [Statement(*expecting([(each.topic, each.rows, each.wanted.expected_head) for each in batch], now))]


class Unless(AtHead):
    """An append under a key that the topic does not remember, and with the head where it is expected if it expects one."""

    telling = 1

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        """The first append under each key. An append that expects a head has to be the first to its topic, too. For the other
        appends the outcome of the first decides: they look again later."""
        chosen: list[Self] = []
        named: set[tuple[int, str | None]] = set()
        topics: set[int] = set()
        for each in cls.current(batch):
            named_as = each.topic.id, each.wanted.idempotency_key
            if named_as in named or (each.wanted.expected_head is not None and each.topic.id in topics):
                continue
            named.add(named_as)
            topics.add(each.topic.id)
            chosen.append(each)
        return [chosen]

    @classmethod
    def writes(cls, batch: Sequence[Self], now: int) -> list[Statement]:
        ids = array(sorted({each.topic.id for each in batch}))
        write = VOLATILE_IF if batch[0].topic.volatile else LOGGED_IF
        return [Statement(LOCK_HEADS, (ids,)), Statement(write, {**parameters(batch), "ids": ids, "now": now})]

    @classmethod
    def bases(cls, batch: Sequence[Self], told: Answer) -> list[int | None]:
        places: dict[int, int] = dict(told)
        return [places.get(place) for place in range(len(batch))]


def parameters(batch: Sequence[Unless]) -> dict[str, Any]:
    """What APPEND_IF wants for these appends."""
    keys = [each.wanted.idempotency_key for each in batch]
    heads = [each.wanted.expected_head for each in batch]
    return {
        "of": array([each.topic.id for each in batch]),
        "versions": array([each.topic.version for each in batch]),
        "counts": array([len(each.rows.data) for each in batch]),
        "bytes": array([each.rows.bytes for each in batch]),
        "heads": texts([None if head is None else str(head) for head in heads]),
        "keys": texts(keys),
        "digests": texts([None if key is None else each.rows.digest() for key, each in zip(keys, batch, strict=True)]),
        "since": array([each.now - each.topic.idempotency_window_ms for each in batch]),
        **apart([each.rows for each in batch]),
    }
