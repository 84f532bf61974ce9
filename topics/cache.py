"""What a process remembers of a topic between requests: its id and config.

A memory may be old, so each statement that goes by one names the `version` it was made for and matches no row when
the topic has since been configured anew, routed, deleted or recreated. The caller then looks it up again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import NamedTuple, TypeVar

from base.errors import TopicNotFound
from base.names import check_topic_name
from store.script import Script, Statement

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
    """Remember it. Where there is no room, the half that has been remembered for longest is forgotten."""
    if len(_topics) >= MOST:
        for name in list(islice(_topics, MOST // 2)):
            del _topics[name]
    _topics[topic.name] = topic
    return topic


def forget(name: str) -> None:
    _topics.pop(name, None)


def forget_all() -> None:
    _topics.clear()


def load_topic(name: str) -> Script[CachedTopic | None]:
    """The topic as it is now; None when there is none."""
    rows = yield Statement(LOOKUP, (name,), quick=True)
    if not rows:
        forget(name)
        return None
    return keep(CachedTopic(*rows[0]))


def topic_called(name: str) -> Script[CachedTopic]:
    """The topic as remembered, else as it is now. Raises TopicNotFound."""
    topic = cached(name) or (yield from load_topic(name))
    if topic is None:
        raise absent(name)
    return topic


def as_known(name: str, work: Callable[[CachedTopic], Script[T | None]]) -> Script[T]:
    """What comes of `work` on the topic as we know it. None says that it is another by now (configured anew, deleted or created
    since we looked): then it is looked up, and the work done again. Raises TopicNotFound."""
    while True:
        done = yield from work(cached(name) or (yield from topic_called(name)))
        if done is not None:
            return done
        forget(name)


def absent(name: str) -> TopicNotFound:
    """The error for a topic that is not there. Raises InvalidRequest where none can ever be."""
    check_topic_name(name)
    return TopicNotFound(f"topic {name!r} does not exist", topic=name)
