"""Plain appends. Appends that arrive together share a transaction, even if their topics differ (store/coalesce.py).

Other kinds are appends under conditions (judged.py), and the first append to a topic (first.py).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from base.errors import TopicsError
from store.codec import Rows as Answer
from store.script import Coalesced, Done, PlannedTransaction, Statement
from topics import wake
from topics.append.records import Rows
from topics.append.statements import MAKE_ROOM, MOST_RECORDS, SYNC, Appended, appending, room
from topics.append.written import Written
from topics.cache import CachedTopic

FSYNC = Statement(SYNC, ("on",))
Outcome = Appended | TopicsError | None


class Write(Coalesced[Outcome]):
    """An append to an existing topic that rejects nothing. The answer is None if the topic has another version.

    A transaction has appends of one durability. The commit of `fsync` appends waits for the disk, because no reader may see
    such a record before the record is on disk.
    """

    most = MOST_RECORDS

    def __init__(self, topic: CachedTopic, rows: Rows, now: int) -> None:
        self.topic, self.rows, self.now = topic, rows, now
        self.lock, self.lane, self.weight = topic.id, topic.durability, len(rows.data)

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        return [cls.current(batch)]

    @classmethod
    def current(cls, batch: Sequence[Self]) -> Sequence[Self]:
        """Returns the appends that know the latest version of their topic. A topic can be reconfigured between two appends."""
        if len(batch) == 1:
            return batch
        latest: dict[int, int] = {}
        for each in batch:
            id, version = each.topic.id, each.topic.version
            if latest.get(id, 0) < version:
                latest[id] = version
        return [each for each in batch if each.topic.version == latest[each.topic.id]]

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        now = batch[-1].now  # of the append that arrived last
        statements = [cls.writes(batch, now)]
        if batch[0].lane == "fsync":
            statements.insert(0, FSYNC)
        evicting: dict[int, list[Self]] = {}
        for each in batch:
            if each.topic.evicts:
                evicting.setdefault(each.topic.id, []).append(each)
        for _, appends in sorted(evicting.items()):
            statements.append(Statement(MAKE_ROOM, room(appends[-1].topic, [each.rows for each in appends], now)))
        return PlannedTransaction(statements, durable=False)

    @classmethod
    def writes(cls, batch: Sequence[Self], now: int) -> Statement:
        """Returns the statement that writes these appends."""
        return Statement(*appending([(each.topic, each.rows) for each in batch], now))

    @classmethod
    def told(cls, batch: Sequence[Self], done: Done, started: float) -> tuple[Answer, tuple[float, float]]:
        """Returns the rows of writes(), and the times (ms) of the statement and of the wait for the disk."""
        is_synced = batch[0].lane == "fsync"
        fsync_ms = (done.committed - done.wrote) * 1000 if is_synced else 0.0
        return done.rows[is_synced], ((done.wrote - started) * 1000, fsync_ms)

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[Outcome]:
        """Wakes the readers that wait for the topics. Returns the outcome of each append."""
        told, times = cls.told(batch, done, started)
        heads = {topic_id: base for topic_id, base, *_ in told}
        rows: dict[int, list[Rows]] = {topic_id: [] for topic_id in heads}
        found: list[Outcome] = []
        for each in batch:
            base = heads.get(each.topic.id)
            if base is None:
                found.append(None)
                continue
            last = heads[each.topic.id] = base + each.weight
            rows[each.topic.id].append(each.rows)
            found.append(Appended(base + 1, last, last, False, False, *times))
        sent = time.monotonic() - (time.perf_counter() - started)  # before the commit
        topics = {each.topic.id: each.topic for each in batch}
        for topic_id, base, ts, lost_seq in told:
            topic = topics[topic_id]
            # A topic with caps may have evicted some of the records at once. A reader at a loss gets a tombstone. Both read.
            is_plain = lost_seq < base and not topic.evicts
            wake.moved(topic, heads[topic_id], Written(topic, base, rows[topic_id], ts, sent) if is_plain else None)
        return found
