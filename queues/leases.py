"""What all calls on the jobs of a queue share: the step that an event loop does for several requests at once, and its errors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, TypeVar

from base.errors import NotAQueue, Outdated
from store.codec import Rows
from store.script import Coalesced, Done, PlannedTransaction, Script, Statement
from topics import sealed
from topics.append.statements import SYNC
from topics.cache import CachedTopic, as_known, load_topic
from topics.hooks import hooks
from topics.models import Topic

T = TypeVar("T")
MOST_ERROR_BYTES = 2_048  # of the error that a worker sends with a nack


class LeaseStep(Coalesced[T | None], Generic[T]):
    """One call on the leases of a queue. The answer is None if the topic has another version.

    Calls of one kind for a queue share a statement, which locks the queue's row (sql/functions/queue_lock.sql). `now`: the
    time of the leases in ms, or None for PostgreSQL's time, which all processes share. `expired_ts`: older records are expired.
    """

    most = 5_000  # jobs per transaction

    def __init__(self, topic: CachedTopic, now: int | None, expired_ts: int | None) -> None:
        self.topic, self.now, self.expired_ts = topic, now, expired_ts
        self.lock = topic.id
        self.lane = "fsync" if self.is_durable(topic) else ""

    @staticmethod
    def is_durable(topic: CachedTopic) -> bool:
        """Whether the commit waits for the disk."""
        return topic.durability == Topic.Durability.FSYNC and topic.leases_durable

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        """The calls for each queue, if they know the latest version of the topic. A transaction locks one queue."""
        latest: dict[int, int] = {}
        for each in batch:
            latest[each.topic.id] = max(latest.get(each.topic.id, 0), each.topic.version)
        groups: dict[int, list[Self]] = {}
        for each in batch:
            if each.topic.version == latest[each.topic.id]:
                groups.setdefault(each.topic.id, []).append(each)
        return list(groups.values())

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        last = batch[-1]
        topic = last.topic
        known = (topic.id, topic.version, topic.leases_durable, last.now, last.expired_ts)
        statements = [cls.statement(known, batch)]
        if last.lane == "fsync":
            statements.insert(0, Statement(SYNC, ("on",)))
        return PlannedTransaction(statements, durable=False)

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> Sequence[T | None]:
        rows = done.rows[-1]
        return cls.told(batch, rows) if rows else [None] * len(batch)

    @classmethod
    @abstractmethod
    def statement(cls, known: tuple[Any, ...], batch: Sequence[Self]) -> Statement:
        """Returns the statement that does all calls for one queue. `known`: the first arguments of its function."""

    @classmethod
    @abstractmethod
    def told(cls, batch: Sequence[Self], rows: Rows) -> Sequence[T]:
        """Returns the outcome of each call. `rows`: the rows of the statement."""


def in_queue(name: str, now: int, work: Callable[[CachedTopic], Script[T | None]]) -> Script[T]:
    """Returns the result of `work` on the queue as it is cached.

    Raises TopicNotFound, NotAQueue or TopicSealed. A sealed queue takes no deletes, so its jobs cannot be done.
    """

    def check_and_work(topic: CachedTopic) -> Script[T | None]:
        if topic.type != Topic.Type.QUEUE:
            if (yield Statement(sealed.IS_CURRENT, (topic.id, topic.version), quick=True)):
                raise sealed.marked(not_a_queue(name), topic.sealed)
            return None
        if not (yield from sealed.check_seal(topic, False)):
            return None
        if topic.derived:
            yield from hooks.value.before_read(topic, now)  # a claim must find all that was acknowledged upstream
        try:
            return (yield from work(topic))
        except Outdated:
            return None

    return as_known(name, check_and_work)


def refuse_log(name: str) -> Script[None]:
    """Raises NotAQueue if the topic is a log. A client is told so before anything about the fields that it sent."""
    topic = yield from load_topic(name)
    if topic is not None and topic.type != Topic.Type.QUEUE:
        raise sealed.marked(not_a_queue(name), topic.sealed)


def not_a_queue(name: str) -> NotAQueue:
    return NotAQueue(f"topic {name!r} is a log: only a topic of type queue has jobs", topic=name)
