"""The ids and configs of topics that a process remembers between requests.

A remembered topic may be outdated. So each statement for a remembered topic names the topic's `version`. The statement
matches no row if the topic was reconfigured, routed, deleted or recreated since. The caller then looks up the topic again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any, Self, TypeVar

import msgspec

from base.errors import TopicNotFound
from base.names import check_topic_name
from contract.config import StoredConfig
from store.codec import Rows
from store.loop import here
from store.script import Script, Shared, Statement

COLUMNS = StoredConfig.__struct_fields__
# Uses the unique index on name. `routed`: routers lead out, and an append wakes them. `derived`: routers lead in, and a read
# advances them first.
LOOKUP = f"""
SELECT t.id, t.name, h.version, h.routed, h.derived, t.created_ts, h.era, {", ".join(f"t.{column}" for column in COLUMNS)}
  FROM topics_topic t CROSS JOIN LATERAL (SELECT * FROM topics_topichead WHERE topic_id = t.id LIMIT 1) h
 WHERE t.name = %s
"""
ERA_BITS = 8  # as in sql/functions/topic_era.sql
MOST = 50_000  # topics remembered, at 400 bytes each

T = TypeVar("T")


class CachedTopic(StoredConfig, frozen=True):
    """The id and config of a topic at this `version`."""

    id: int
    name: str
    version: int
    routed: bool
    derived: bool
    created_ts: int
    era: int = 0  # an era that the head has reached (sql/functions/topic_era.sql)

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Returns the topic of a row of LOOKUP."""
        return cls(*row[: -len(COLUMNS)], **dict(zip(COLUMNS, row[-len(COLUMNS) :], strict=True)))

    @property
    def volatile(self) -> bool:
        return self.durability in ("memory", "ephemeral")

    @property
    def evicts(self) -> bool:
        """Whether an append can evict the oldest records."""
        return self.discard == "old" and (self.cap_records > 0 or self.cap_bytes > 0)

    @property
    def rejects(self) -> bool:
        """Whether the topic refuses appends when it is full."""
        return self.discard == "reject" and (self.cap_records > 0 or self.cap_bytes > 0)

    @property
    def judges(self) -> bool:
        """Whether the topic can refuse an append that has no conditions, or leave out some of its records."""
        return self.sealed or self.rejects or self.unique_tags

    @property
    def takes_doubles(self) -> bool:
        """Whether the topic refuses numbers that no double holds."""
        return self.numbers == "double"

    def expired_ts(self, now: int) -> int | None:
        """Returns the lowest `$ts` of a record that has not expired, or None if the topic has no TTL."""
        return now - self.ttl_ms if self.ttl_ms else None


_topics: dict[str, CachedTopic] = {}


def cached(name: str) -> CachedTopic | None:
    """Returns the topic as this process remembers it, or None."""
    return _topics.get(name)


def lock_of(name: str) -> int | str:
    """Returns the key of a head's lock in an event loop (store/held.py): the topic's id, or its name if the id is not known."""
    topic = cached(name)
    return name if topic is None else topic.id


def keep(topic: CachedTopic) -> CachedTopic:
    """Remembers the topic, unless this version or a newer version is remembered. Returns the remembered object.

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


def reached(topic: CachedTopic, head_seq: int) -> None:
    """Remembers the era of this head, which the topic has now."""
    known, era = _topics.get(topic.name), -(head_seq >> ERA_BITS)
    if known is not None and known.id == topic.id and era < known.era:
        _topics[topic.name] = msgspec.structs.replace(known, era=era)


def forget(name: str) -> None:
    _topics.pop(name, None)


def forget_known(topic: CachedTopic | None) -> None:
    """Forgets exactly this object, which is outdated.

    Many requests can find an object outdated at the same time. The first request causes a look-up, and the other requests must
    not discard the result of that look-up.
    """
    if topic is not None and _topics.get(topic.name) is topic:
        del _topics[topic.name]


def forget_all() -> None:
    _topics.clear()


class LookUp(Shared):
    """A look-up of a topic by its name. Requests of an event loop share a look-up that is under way.

    A found topic may already be outdated, like every remembered topic, and later statements verify its version. But no later
    statement verifies that a topic is absent. If the look-up finds no topic, requests that arrived after the statement was
    sent cause another look-up. Another client may have created the topic since.
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
        # No `await`: the look-up must continue if the first request is cancelled.
        loop.reads.execute(LOOKUP, (self.name,)).add_done_callback(self.answer)

    def answer(self, read: asyncio.Future[Rows]) -> None:
        # The topic is remembered before the look-up leaves the list. Otherwise a request could find neither, and look up again.
        topic = None
        error = read.exception()
        if error is None:
            topic = self.found(read.result())
        del here().look_ups[self.name]
        if error is None and topic is None and self.late:
            LookUp(self.name).send(self.late)
            self.late = []
        for done in (*self.early, *self.late):
            if done.done():  # the client disconnected
                continue
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(topic)

    def found(self, rows: Rows) -> CachedTopic | None:
        # If no row was found, an append of this process may meanwhile have created and remembered the topic.
        return keep(CachedTopic.of(rows[0])) if rows else cached(self.name)


def load_topic(name: str) -> Script[CachedTopic | None]:
    """Returns the topic as PostgreSQL has it now, or None if it does not exist."""
    return LookUp(name).alone()


def known_topic(name: str) -> Script[CachedTopic | None]:
    """Returns the remembered topic, or looks it up. None if no topic exists. The caller's statements verify the version."""
    topic: CachedTopic | None = cached(name) or (yield LookUp(name))
    return topic


def topic_called(name: str) -> Script[CachedTopic]:
    """Returns the topic like known_topic(). Raises TopicNotFound if the topic does not exist."""
    topic = yield from known_topic(name)
    if topic is None:
        raise absent(name)
    return topic


def as_known(name: str, work: Callable[[CachedTopic], Script[T | None]]) -> Script[T]:
    """Returns the result of `work` on the remembered topic.

    If `work` returns None, the topic has another version: it was reconfigured, deleted or created since the look-up. Then the
    topic is looked up again, and `work` runs again. Raises TopicNotFound.
    """
    while True:
        topic = yield from topic_called(name)
        done = yield from work(topic)
        if done is not None:
            return done
        forget_known(topic)


def absent(name: str) -> TopicNotFound:
    """Returns the error for an absent topic. Raises InvalidRequest if no topic can have this name."""
    check_topic_name(name)
    return TopicNotFound(f"topic {name!r} does not exist", topic=name)
