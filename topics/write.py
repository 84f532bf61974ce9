"""Plain appends. Appends that arrive together share a transaction, even if their topics differ (store/coalesce.py).

Other kinds are appends under conditions (judged.py), and the first append to a topic (first.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from base.errors import TopicsError
from store.codec import Rows as Answer
from store.script import Coalesced, Done, PlannedTransaction, Statement
from topics import wake
from topics.cache import CachedTopic
from topics.insert import MAKE_ROOM, MOST_RECORDS, SYNC, Appended, appending, room
from topics.records import Rows

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
        if evicting := {each.topic.id: each.topic for each in batch if each.topic.evicts}:
            statements += [Statement(MAKE_ROOM, room(topic, now)) for _, topic in sorted(evicting.items())]
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
    def bases(cls, batch: Sequence[Self], told: Answer) -> list[int | None]:
        """Returns the seq before the first record of each append, or None for an append that was not done."""
        heads: dict[int, int] = dict(told)
        bases: list[int | None] = []
        for each in batch:
            base = heads.get(each.topic.id)
            bases.append(base)
            if base is not None:
                heads[each.topic.id] = base + each.weight
        return bases

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[Outcome]:
        """Wakes the readers that wait for the topics. Returns the outcome of each append."""
        told, times = cls.told(batch, done, started)
        found: list[Outcome] = []
        moved: dict[int, tuple[CachedTopic, int]] = {}
        for each, base in zip(batch, cls.bases(batch, told), strict=True):
            if base is None:
                found.append(None)
                continue
            last = base + each.weight
            moved[each.topic.id] = each.topic, last
            found.append(Appended(base + 1, last, last, False, False, *times))
        for topic, last in moved.values():
            wake.moved(topic, last)
        return found
