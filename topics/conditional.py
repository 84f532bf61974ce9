"""Appends under a condition: once under a key, or with the head where it is expected to be.

Those that arrive while others are under way share a transaction and its statements, whatever their topics. Whether the condition
of each holds is found behind the locks of the heads. One that does not hold writes nothing, and is nothing to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from store.joint import Joined
from store.script import Done, Statement, Whole
from topics import wake
from topics.cache import CachedTopic
from topics.insert import (
    LOCK_HEADS,
    LOGGED,
    MAKE_ROOM,
    MOST_RECORDS,
    SYNC,
    VOLATILE,
    Appended,
    apart,
    array,
    expecting,
    room,
    texts,
)
from topics.records import Append, Rows

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


@dataclass(eq=False)
class Unless(Joined[Appended | None]):
    """An append to a topic that rejects nothing. The answer is None where it was not done, for whatever reason."""

    topic: CachedTopic
    wanted: Append
    rows: Rows
    now: int

    @property
    def kind(self) -> str:
        return self.topic.durability

    @property
    def lock(self) -> int:
        return self.topic.id

    @classmethod
    def chosen(cls, batch: Sequence[Self]) -> list[Self]:
        """Those whose condition no other of the batch decides: the first that names a key, and of those that expect a head the
        one that comes first in its topic. As many as a transaction may carry records, at least one."""
        chosen: list[Self] = []
        named: set[tuple[int, str]] = set()
        topics: set[int] = set()
        records = 0
        for each in batch:
            records += len(each.rows.data)
            if records > MOST_RECORDS and chosen:
                break
            key = each.wanted.idempotency_key
            expects = each.wanted.expected_head is not None
            if (each.topic.id, key) in named or (expects and each.topic.id in topics):
                continue
            if key is not None:
                named.add((each.topic.id, key))
            topics.add(each.topic.id)
            chosen.append(each)
        return chosen

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> Whole:
        """Its last statements make room; the one before them tells."""
        now = max(each.now for each in batch)
        statements = cls.writes(batch, now)
        if batch[0].topic.durability == "fsync":  # nobody is to see it before it is on disk: so its own commit waits
            statements.insert(0, Statement(SYNC, ("on",)))
        statements += [Statement(MAKE_ROOM, room(topic, now)) for topic in evicting(batch)]
        return Whole(statements, durable=False)

    @classmethod
    def writes(cls, batch: Sequence[Self], now: int) -> list[Statement]:
        """What appends them, last of all the statement that tells."""
        ids = array(sorted({each.topic.id for each in batch}))
        write = VOLATILE_IF if batch[0].topic.volatile else LOGGED_IF
        return [Statement(LOCK_HEADS, (ids,)), Statement(write, {**parameters(batch), "ids": ids, "now": now})]

    @classmethod
    def bases(cls, batch: Sequence[Self], told: Sequence[tuple[Any, ...]]) -> dict[int, int]:
        """From what was told: by place in the batch, the seq before its first."""
        return dict(told)

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[Appended | None]:
        """Tells whoever waits for the topics."""
        bases = cls.bases(batch, done.rows[-1 - len(evicting(batch))])
        wal_append_ms = (done.wrote - started) * 1000
        fsync_ms = (done.committed - done.wrote) * 1000 if batch[0].topic.durability == "fsync" else 0.0
        found: list[Appended | None] = []
        heads: dict[CachedTopic, int] = {}
        for place, each in enumerate(batch):
            base = bases.get(place)
            if base is None:
                found.append(None)
                continue
            last = heads[each.topic] = base + len(each.rows.data)
            found.append(Appended(base + 1, last, last, False, False, wal_append_ms, fsync_ms))
        for topic, head in heads.items():
            wake.moved(topic, head)
        return found


class AtHead(Unless):
    """One that expects a head and has no key: the statement that moves the head compares it, and nothing is locked before."""

    @classmethod
    def writes(cls, batch: Sequence[Self], now: int) -> list[Statement]:
        return [Statement(*expecting([(each.topic, each.rows, each.wanted.expected_head) for each in batch], now))]

    @classmethod
    def bases(cls, batch: Sequence[Self], told: Sequence[tuple[Any, ...]]) -> dict[int, int]:
        places = {each.topic.id: place for place, each in enumerate(batch)}
        return {places[topic_id]: base for topic_id, base in told}


def evicting(batch: Sequence[Unless]) -> list[CachedTopic]:
    """The topics that may have to make room, in order."""
    return [topic for _, topic in sorted({each.topic.id: each.topic for each in batch if each.topic.evicts}.items())]


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
