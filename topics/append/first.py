"""The first append to a topic. One statement creates the topic with the default config, and writes the records.

First appends that arrive while another first append is under way share the next statement, even if their topics differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from contract.config import DEFAULTS
from store.script import Coalesced, Done, PlannedTransaction, Script, Statement
from topics import wake
from topics.append.records import Rows
from topics.append.statements import MOST_RECORDS, MOVES, Appended, apart, array, texts
from topics.cache import keep
from topics.config import HEAD, MAKE, NEW_HEAD, check_new, literal, new_topic

MAKE_PLAIN = MAKE.format(
    columns=", ".join(DEFAULTS),
    created_ts="%(now)s::bigint",
    values=", ".join(map(literal, DEFAULTS.values())),
    asked="asked",
)
# Combines CREATE (config.py) and APPEND (statements.py). The statement writes a head in its state after the first append. This
# append passes the head's reserved_seq, so the transaction waits for the disk by itself. An existing topic has no row in the
# answer.
APPEND_FIRST = f"""
WITH asked AS (
    SELECT * FROM ROWS FROM (json_array_elements_text(%(names)s::json), unnest(%(counts)s::bigint[]), unnest(%(bytes)s::bigint[]))
             WITH ORDINALITY AS asked (name, count, bytes, n)),
made AS ({MAKE_PLAIN}),
batch AS (
    SELECT made.id AS topic_id, topic_last_head(name) AS last_head, asked.count, asked.bytes, asked.n
      FROM asked JOIN made USING (name)),
headed AS (
    INSERT INTO topics_topichead (topic_id, {", ".join(HEAD)})
    SELECT batch.topic_id, {", ".join(MOVES.get(column, f"head.{column}") for column in HEAD)}
      FROM batch CROSS JOIN LATERAL (SELECT {", ".join(f"{value} AS {column}" for column, value in NEW_HEAD.items())}) head),
written AS (
    INSERT INTO topics_record_logged (topic_id, seq, ts, total, size, volatile, node, tag, meta, data)
    SELECT batch.topic_id, batch.last_head + new.place, %(now)s::bigint, new.run, new.size, false,
           new.node, new.tag, nullif(new.meta::text, 'null')::json, new.data
      FROM ROWS FROM (json_array_elements(%(data)s::json), json_array_elements_text(%(tags)s::json),
                      json_array_elements_text(%(nodes)s::json), json_array_elements(%(metas)s::json),
                      unnest(%(places)s::bigint[]), unnest(%(sizes)s::int[]), unnest(%(runs)s::bigint[]),
                      unnest(%(ns)s::bigint[]))
               AS new (data, tag, node, meta, place, size, run, n)
      JOIN batch USING (n))
SELECT n - 1, topic_id, last_head FROM batch
"""


class First(Coalesced[Appended | None]):
    """The first append to a topic of this name. The answer comes when the append is on disk, or is None if the topic exists."""

    most = MOST_RECORDS

    def __init__(self, name: str, rows: Rows, now: int) -> None:
        self.name, self.rows, self.now = name, rows, now
        self.lock, self.weight = name, len(rows.data)

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        """Returns one group: the first append to each name. The other appends get None, because their topic then exists."""
        first: dict[str, Self] = {}
        for each in batch:
            first.setdefault(each.name, each)
        return [list(first.values())]

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        return PlannedTransaction([Statement(APPEND_FIRST, parameters(batch))], durable=False)

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[Appended | None]:
        """Remembers the topics, and wakes the readers that wait for them. Returns the outcome of each append."""
        made = {place: rest for place, *rest in done.rows[0]}  # by place: the topic's id, and the seq before the append
        wal_append_ms = (done.committed - started) * 1000
        found: list[Appended | None] = []
        for place, each in enumerate(batch):
            if place not in made:
                found.append(None)
                continue
            topic_id, base = made[place]
            last = base + each.weight
            wake.moved(keep(new_topic(topic_id, each.name, {}, batch[-1].now)), last)
            found.append(Appended(base + 1, last, last, True, False, wal_append_ms, 0.0))
        return found


def append_first(name: str, rows: Rows, now: int) -> Script[Appended | None]:
    """Creates the topic and appends to it. Returns None if the topic already exists. Raises Throttled or InvalidRequest."""
    yield from check_new(name, {})
    done: Appended | None = yield First(name, rows, now)
    return done


def parameters(batch: Sequence[First]) -> dict[str, Any]:
    """Returns the arguments of APPEND_FIRST for these appends."""
    return {
        "now": batch[-1].now,
        "names": texts([each.name for each in batch]),
        "counts": array([len(each.rows.data) for each in batch]),
        "bytes": array([each.rows.bytes for each in batch]),
        **apart([each.rows for each in batch]),
    }
