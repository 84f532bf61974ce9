"""Losses of captured tables: readers of the topic get a tombstone with the reason `capture` where the changes would be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from store.script import Statement
from topics.append.plain import Write
from topics.append.records import Rows
from topics.append.statements import array
from topics.cache import CachedTopic

# The last column is the last seq of a loss, as in the answer of an append. The reader reads, and gets the tombstone.
LOSE = """
SELECT wanted.id, told.before_seq, told.ts, told.before_seq + wanted.lost
  FROM ROWS FROM (unnest(%(ids)s::bigint[]), unnest(%(losses)s::bigint[])) AS wanted (id, lost)
 CROSS JOIN LATERAL topic_lose(wanted.id, wanted.lost, %(now)s::bigint, '{$capture}') told
"""


class Lose(Write):
    """The loss of records that the topic never got. The caller holds the head."""

    def __init__(self, topic: CachedTopic, lost: int, now: int) -> None:
        super().__init__(topic, Rows([], [], [], [], [], 0), now)
        self.weight = lost

    @classmethod
    def writes(cls, batch: Sequence[Self], now: int) -> Statement:
        ids, losses = [each.topic.id for each in batch], [each.weight for each in batch]
        return Statement(LOSE, {"ids": array(ids), "losses": array(losses), "now": now})
