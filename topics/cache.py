"""What a process remembers of a topic between requests: its id and config.

A memory may be old, so each statement that goes by one names the `version` it was made for and matches no row when
the topic has since been reconfigured, routed, deleted or recreated. The caller then looks it up again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import NamedTuple, TypeVar

from base.errors import TopicNotFound
from base.names import check_topic_name
from store.codec import Rows
from store.loop import here
from store.script import Script, Shared, Statement

# By the unique index on name. Whether routers lead out or in tells what to wake, and what to advance before a read.
LOOKUP = """
SELECT t.id, t.name, h.version, t.type, t.durability, t.ttl_ms, t.cap_records, t.cap_bytes, t.discard,
       t.idempotency_window_ms, t.dedupe_node, h.routed, h.derived,
       t.created_ts, t.priority, t.auto_priority, t.auto_create, t.lease_ms, t.claim_jitter_ms, t.max_deliveries, t.dead_letter,
       t.leases_durable, t.sealed
  FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id
 WHERE t.name = %s
"""
MOST = 50_000  # topics remembered, at 400 bytes each

T = TypeVar("T")


class CachedTopic(NamedTuple):
    """A topic's id and config as of `version`."""

    id: int
    name: str
    version: int
    type: str
    durability: str
    ttl_ms: int
    cap_records: int
    cap_bytes: int
    discard: str
    idempotency_window_ms: int
    dedupe_node: bool
    routed: bool
    derived: bool
    created_ts: int
    priority: int | None
    auto_priority: bool
    auto_create: bool
    lease_ms: int
    claim_jitter_ms: int
    max_deliveries: int
    dead_letter: str | None
    leases_durable: bool
    sealed: bool

    @property
    def volatile(self) -> bool:
        return self.durability in ("memory", "ephemeral")

    @property
    def evicts(self) -> bool:
        """Whether an append may push out the oldest records."""
        return self.discard == "old" and (self.cap_records > 0 or self.cap_bytes > 0)

    @property
    def rejects(self) -> bool:
        """Whether an append may find the topic full."""
        return self.discard == "reject" and (self.cap_records > 0 or self.cap_bytes > 0)

    @property
    def judges(self) -> bool:
        """Whether the topic may refuse an append that has no conditions."""
        return self.sealed or self.rejects

    def expired_ts(self, now: int) -> int | None:
        """Records with a lower $ts are gone; None when the topic has no ttl."""
        return now - self.ttl_ms if self.ttl_ms else None


_topics: dict[str, CachedTopic] = {}


def cached(name: str) -> CachedTopic | None:
    """The topic as this process remembers it, if it does."""
    return _topics.get(name)


def lock_of(name: str) -> int | str:
    """What an event loop calls the lock of a topic's head (store/held.py): by its id, or its name where the id is not known."""
    topic = cached(name)
    return name if topic is None else topic.id


def keep(topic: CachedTopic) -> CachedTopic:
    """Remember it, unless this version or a newer one is remembered. Returns the remembered object.

    A full memory forgets the older half of its topics.
    """
    known = _topics.get(topic.name)
    if known is not None and known.id == topic.id and known.version >= topic.version:
        return known
    if len(_topics) >= MOST:
        for name in list(islice(_topics, MOST // 2)):
            del _topics[name]
    _topics[topic.name] = topic
    return topic


def forget(name: str) -> None:
    _topics.pop(name, None)


def forget_known(topic: CachedTopic | None) -> None:
    """Forget this very object, which is outdated. Many requests can find this out at the same time. The first of them causes a
    look-up, and the others must not throw away its result."""
    if topic is not None and _topics.get(topic.name) is topic:
        del _topics[topic.name]


def forget_all() -> None:
    _topics.clear()


class LookUp(Shared):
    """A look-up of a topic by its name. Requests of an event loop that arrive during a look-up share it.

    A topic that it finds may be outdated by then, like every remembered topic. But no later statement verifies its absence.
    So without a topic a request that arrived after the statement was sent looks again: somebody may have made one since.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.early: list[asyncio.Future[CachedTopic | None]] = []  # requests that arrived before the statement was sent
        self.late: list[asyncio.Future[CachedTopic | None]] = []

    def alone(self) -> Script[CachedTopic | None]:
        rows = yield Statement(LOOKUP, (self.name,), quick=True)
        return self.found(rows)

    def together(self) -> Awaitable[CachedTopic | None]:
        loop = here()
        done: asyncio.Future[CachedTopic | None] = loop.loop.create_future()
        other: LookUp | None = loop.look_ups.get(self.name)
        if other is None:
            self.send([done])
        elif loop.reads.is_waiting(LOOKUP, (self.name,)):
            other.early.append(done)
        else:
            other.late.append(done)
        return done

    def send(self, requests: list[asyncio.Future[CachedTopic | None]]) -> None:
        loop = here()
        self.early, loop.look_ups[self.name] = requests, self
        # Not awaited here: the look-up must not end with the request that began it.
        loop.reads.execute(LOOKUP, (self.name,)).add_done_callback(self.answer)

    def answer(self, read: asyncio.Future[Rows]) -> None:
        # The topic is remembered before the look-up leaves the list: no request finds neither, and looks once more.
        topic = None
        error = read.exception()
        if error is None:
            topic = self.found(read.result())
        del here().look_ups[self.name]
        if error is None and topic is None and self.late:
            LookUp(self.name).send(self.late)
            self.late = []
        for done in (*self.early, *self.late):
            if done.done():  # its client has gone
                continue
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(topic)

    def found(self, rows: Rows) -> CachedTopic | None:
        # Without rows: an append of this process may have made the topic meanwhile, and remembered it.
        return keep(CachedTopic(*rows[0])) if rows else cached(self.name)


def load_topic(name: str) -> Script[CachedTopic | None]:
    """Returns the topic as it is now, or None where there is none."""
    return LookUp(name).alone()


def known_topic(name: str) -> Script[CachedTopic | None]:
    """Returns the topic as remembered, else as a look-up finds it, or None. The caller's statements verify its version."""
    topic: CachedTopic | None = cached(name) or (yield LookUp(name))
    return topic


def topic_called(name: str) -> Script[CachedTopic]:
    """Returns the topic as known_topic() does. Raises TopicNotFound."""
    topic = yield from known_topic(name)
    if topic is None:
        raise absent(name)
    return topic


def as_known(name: str, work: Callable[[CachedTopic], Script[T | None]]) -> Script[T]:
    """What comes of `work` on the topic as we know it. None says that it is another by now (reconfigured, deleted or created
    since we looked): then it is looked up, and the work done again. Raises TopicNotFound."""
    while True:
        topic = yield from topic_called(name)
        done = yield from work(topic)
        if done is not None:
            return done
        forget_known(topic)


def absent(name: str) -> TopicNotFound:
    """The error for a topic that is not there. Raises InvalidRequest where none can ever be."""
    check_topic_name(name)
    return TopicNotFound(f"topic {name!r} does not exist", topic=name)
