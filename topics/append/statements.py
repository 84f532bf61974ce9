"""The statements that append any number of records to any number of topics.

All records of an append get contiguous seqs, or no record is written. The lock of the head's row makes seq order commit order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import msgspec

from contract.appending import NO_META
from topics.append.records import Rows
from topics.cache import CachedTopic

MOST_RECORDS = 5_000  # per transaction, so that the next append does not wait long

# The statement locks heads in topic order, so two appends cannot deadlock. `ids` are sorted, and the statement looks up each of
# them in this order. The comparison of rows is a range of the primary key: from the newest version of the topic's head to the era
# that the process knows (sql/functions/topic_era.sql). With topic_id = topic_id, PostgreSQL could read all heads instead.
# Each lock is held until the commit, so seq n is visible before an append can get seq n+1. A topic with another version gets no
# row, and the caller looks the topic up again.
# json_array_elements returns elements exactly as they were written. The record functions of json do not promise this. Shorter
# arrays continue with NULL. An array without any value is sent as an empty array.
# An append that expects a head is the only append of its topic in the batch. If the statement waits for a head's lock, the
# statement compares the head after the wait, which is the head that it advances.
# A head that passes its reserved_seq makes the transaction wait for the disk (sql/functions/topic_reserve.sql).
APPEND = """
WITH moved AS (
    UPDATE topics_topichead head
       SET {what_moves}
      FROM unnest(%(ids)s::bigint[], %(eras)s::bigint[], %(versions)s::bigint[], %(counts)s::bigint[], %(bytes)s::bigint[],
                  %(heads)s::bigint[])
               AS batch (topic_id, era, version, count, bytes, expected_head)
     WHERE head.topic_id >= batch.topic_id AND (head.topic_id, head.era) <= (batch.topic_id, batch.era)
       AND head.version = batch.version
       AND (batch.expected_head = head.head_seq) IS NOT FALSE
    RETURNING head.topic_id, head.head_seq - batch.count AS base, head.total - batch.bytes AS base_total, head.last_ts,
              {last_loss} AS lost_seq),
written AS (
    INSERT INTO topics_record_{partition} (topic_id, seq, ts, total, size, volatile, node, tag, meta, data)
    SELECT moved.topic_id, moved.base + new.place, moved.last_ts, moved.base_total + new.run, new.size, {volatile},
           new.node, new.tag, nullif(new.meta::text, 'null')::json, new.data
      FROM ROWS FROM (json_array_elements(%(data)s::json), json_array_elements_text(%(tags)s::json),
                      json_array_elements_text(%(nodes)s::json), json_array_elements(%(metas)s::json),
                      unnest(%(topics)s::bigint[]), unnest(%(places)s::bigint[]),
                      unnest(%(sizes)s::int[]), unnest(%(runs)s::bigint[]))
               AS new (data, tag, node, meta, topic_id, place, size, run)
      JOIN moved USING (topic_id))
SELECT topic_id, base, last_ts, lost_seq FROM moved
"""
# Does the same as APPEND for a single topic, as in most batches. The statement needs no joins, and no arrays to assign records to
# topics. A single record takes a fifth less time.
APPEND_TO_ONE = """
WITH moved AS (
    UPDATE topics_topichead head
       SET {what_moves}
      FROM (SELECT %(count)s::bigint AS count, %(bytes)s::bigint AS bytes) batch
     WHERE head.topic_id = %(id)s::bigint AND head.era <= %(era)s::bigint AND head.version = %(version)s::bigint
    RETURNING head.topic_id, head.head_seq - batch.count AS base, head.total - batch.bytes AS base_total, head.last_ts,
              {last_loss} AS lost_seq),
written AS (
    INSERT INTO topics_record_{partition} (topic_id, seq, ts, total, size, volatile, node, tag, meta, data)
    SELECT moved.topic_id, moved.base + new.place, moved.last_ts, moved.base_total + new.run, new.size, {volatile},
           new.node, new.tag, nullif(new.meta::text, 'null')::json, new.data
      FROM moved
     CROSS JOIN ROWS FROM (json_array_elements(%(data)s::json), json_array_elements_text(%(tags)s::json),
                           json_array_elements_text(%(nodes)s::json), json_array_elements(%(metas)s::json),
                           unnest(%(sizes)s::int[]), unnest(%(runs)s::bigint[]))
                WITH ORDINALITY AS new (data, tag, node, meta, size, run, place))
SELECT topic_id, base, last_ts, lost_seq FROM moved
"""
# The columns of a head after a batch of appends.
MOVES = {
    "head_seq": "head.head_seq + batch.count",
    "era": "topic_era(head.head_seq + batch.count)",
    "count": "head.count + batch.count",
    "bytes": "head.bytes + batch.bytes",
    "total": "head.total + batch.bytes",
    "last_ts": "greatest(head.last_ts, %(now)s::bigint)",
    "reserved_seq": "topic_reserve(head.head_seq + batch.count, head.reserved_seq)",
    "unsettled": "true",
}
# Volatile records can vanish. Because of these two columns, no code takes their seqs for a plain run of logged records.
VOLATILE_MOVES = MOVES | dict.fromkeys(("holes_seq", "volatile_seq"), MOVES["head_seq"])


def assigned(moves: dict[str, str]) -> str:
    return ", ".join(f"{column} = {value}" for column, value in moves.items())


LOSSES = ("recreated", "restart_lost", "source_lost", "capture_lost", "cap_lost", "ttl_lost")
LAST_LOSS = f"greatest({', '.join(f'head.{loss}_seq' for loss in LOSSES)})"
LOGGED = {"partition": "logged", "volatile": "false", "what_moves": assigned(MOVES), "last_loss": LAST_LOSS}
VOLATILE = LOGGED | {"partition": "volatile", "volatile": "true", "what_moves": assigned(VOLATILE_MOVES)}
# The key says whether the topics are volatile.
TO_MANY, TO_ONE = (
    {False: statement.format(**LOGGED), True: statement.format(**VOLATILE)} for statement in (APPEND, APPEND_TO_ONE)
)
# This setting ends with the transaction.
SYNC = "SELECT set_config('synchronous_commit', %s, true)"


# Runs after an append to a capped topic, under the same lock. The cap is exact: each commit leaves the topic within its caps. A
# topic with another version got no append, and its old caps must not remove records.
MAKE_ROOM = """
SELECT topic_make_room(head, %(expired_ts)s::bigint, %(cap_records)s::bigint, %(cap_bytes)s::bigint,
                       %(records)s::bigint, %(bytes)s::bigint)
  FROM topics_topichead head
 WHERE topic_id = %(id)s::bigint AND version = %(version)s::bigint
   AND (%(cap_records)s::bigint BETWEEN 1 AND count - 1 OR %(cap_bytes)s::bigint BETWEEN 1 AND bytes - 1)
 LIMIT 1
"""


class Appended(NamedTuple):
    """The result of an append: its seqs, the head after it, durations (ms), and whether the topic has been sealed since.

    `known`: if the records had keys, the seq of each record that the topic knew, and None for a written record. first_seq to
    last_seq are then the written records.
    """

    first_seq: int
    last_seq: int
    head_seq: int
    created: bool
    deduped: bool
    wal_append_ms: float
    fsync_ms: float
    sealed: bool = False
    known: Sequence[int | None] = ()

    @property
    def written(self) -> int:
        """Number of new records."""
        return 0 if self.deduped else self.last_seq - self.first_seq + 1

    @property
    def seqs(self) -> list[int]:
        """The seqs of the append's records, in their order."""
        given = range(self.first_seq, self.last_seq + 1)
        if not self.known:
            return list(given)
        new = iter(given)
        return [next(new) if seq is None else seq for seq in self.known]


def appending(batch: Sequence[tuple[CachedTopic, Rows]], now: int) -> tuple[str, dict[str, Any]]:
    """Returns the statement that appends this batch to topics of one partition, and its arguments.

    The statement returns each topic with its last seq before the batch, the time of the records, and the last seq of any loss. A
    topic with another version has no row. Arrays are sent as text: all arrays then have one type, and need one
    prepared statement.
    """
    topic = batch[0][0]
    if len(batch) > 1 and any(other.id != topic.id for other, _ in batch):
        return TO_MANY[topic.volatile], to_many(batch, now)
    return TO_ONE[topic.volatile], to_one(topic, [rows for _, rows in batch], now)


def expecting(batch: Sequence[tuple[CachedTopic, Rows, int | None]], now: int) -> tuple[str, dict[str, Any]]:
    """Returns the same as appending() for one append per topic. An append is done if the topic's head is this seq (None: any)."""
    wanted = to_many([(topic, rows) for topic, rows, _ in batch], now)
    heads = {topic.id: head for topic, _, head in batch}
    return TO_MANY[batch[0][0].volatile], wanted | {"heads": array([heads[id] for id in sorted(heads)])}


def to_one(topic: CachedTopic, appends: Sequence[Rows], now: int) -> dict[str, Any]:
    rows = joined(appends)
    return {
        "now": now,
        "id": topic.id,
        "era": topic.era,
        "version": topic.version,
        "count": len(rows.sizes),
        "bytes": rows.bytes,
        "runs": array(list(accumulate(rows.sizes))),
        **records(rows),
    }


def to_many(batch: Sequence[tuple[CachedTopic, Rows]], now: int) -> dict[str, Any]:
    topics: dict[int, CachedTopic] = {}
    counts: dict[int, int] = {}
    totals: dict[int, int] = {}
    ids: list[int] = []
    places: list[int] = []
    runs: list[int] = []
    for topic, rows in batch:
        id, count, total = topic.id, counts.get(topic.id, 0), totals.get(topic.id, 0)
        length = len(rows.data)
        topics[id], counts[id], totals[id] = topic, count + length, total + rows.bytes
        ids += [id] * length
        places += range(count + 1, count + length + 1)
        runs += [total + run for run in accumulate(rows.sizes)]
    in_order = sorted(topics)
    return {
        "now": now,
        "ids": array(in_order),
        "eras": array([topics[id].era for id in in_order]),
        "versions": array([topics[id].version for id in in_order]),
        "counts": array([counts[id] for id in in_order]),
        "bytes": array([totals[id] for id in in_order]),
        "heads": "{}",
        "topics": array(ids),
        "places": array(places),
        "runs": array(runs),
        **records(joined([rows for _, rows in batch])),
    }


def apart(appends: Sequence[Rows]) -> dict[str, str]:
    """Returns the records of several appends as arguments.

    For each record, `ns` has the number of the append (from 1), and `places` the place in the append (from 1). `runs` has the
    total bytes of the append up to the end of the record.
    """
    return {
        "ns": array([n for n, rows in enumerate(appends, 1) for _ in rows.data]),
        "places": array([place for rows in appends for place in range(1, len(rows.data) + 1)]),
        "runs": array([run for rows in appends for run in accumulate(rows.sizes)]),
        **records(joined(appends)),
    }


def joined(appends: Sequence[Rows]) -> Rows:
    """Returns the records of all appends in order."""
    if len(appends) == 1:
        return appends[0]
    data, tags, nodes, metas, sizes, totals = zip(*appends, strict=True)
    chained = chain.from_iterable
    return Rows(
        list(chained(data)),
        list(chained(tags)),
        list(chained(nodes)),
        list(chained(metas)),
        list(chained(sizes)),
        sum(totals),
    )


def records(rows: Rows) -> dict[str, str]:
    """Returns the records as arguments of a statement: JSON arrays, and sizes as an array of PostgreSQL."""
    return {
        "data": (b"[%b]" % b",".join(rows.data)).decode(),
        "tags": texts(rows.tags),
        "nodes": texts(rows.nodes),
        "metas": "[]" if rows.metas.count(NO_META) == len(rows.metas) else (b"[%b]" % b",".join(rows.metas)).decode(),
        "sizes": array(rows.sizes),
    }


def texts(values: list[str | None]) -> str:
    return "[]" if values.count(None) == len(values) else msgspec.json.encode(values).decode()


def array(numbers: Sequence[int | None]) -> str:
    return "{" + msgspec.json.encode(numbers)[1:-1].decode() + "}"


def room(topic: CachedTopic, appended: Sequence[Rows], now: int) -> dict[str, int | None]:
    """Returns the arguments of MAKE_ROOM. `appended`: what the transaction appends, or more if it refuses some of it."""
    return {
        "id": topic.id,
        "version": topic.version,
        "expired_ts": topic.expired_ts(now),
        "cap_records": topic.cap_records,
        "cap_bytes": topic.cap_bytes,
        "records": sum(len(rows.data) for rows in appended),
        "bytes": sum(rows.bytes for rows in appended),
    }
