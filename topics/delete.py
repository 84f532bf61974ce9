"""Delete what somebody asks to be deleted: records, or a topic with its routers (docs/wire.md).

Silent, and for good: readers move on without a tombstone. Rows and spans go later (upkeep/reclaim.py).
Locks and accepted races: docs/concurrency.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

from msgspec import Meta

from base.errors import InvalidRequest, Outdated, TopicNotEmpty, TopicNotSealed
from store.script import Script, Statement, Whole, atomically
from topics import audit, hooks, sealed, wake
from topics.cache import CachedTopic, as_known, forget, lock_of
from topics.config import LOCK_CONFIG, as_dict, stored
from topics.diff import Match, Seq, check_match
from topics.insert import array
from topics.removal import Deleted, Deletion
from wire.keys import OPEN, Key
from wire.parse import Destruction

EXPIRE = "SELECT topic_expire(%s, %s)"
# By the index on the tag. Takes the head's lock after the records', and only then knows whether it is the topic we knew
# (sql/topic_delete_match.3.sql): where it is not, the transaction undoes itself.
DELETE_MATCH = "SELECT topic_delete_match(%s, %s, %s, %s, %s, %s, %s)"
# Likewise (sql/topic_delete_seqs.sql).
DELETE_SEQS = "SELECT topic_delete_seqs(%s, %s, %s::bigint[], %s)"
MOST_SEQS = 5_000
EXTENT = "SELECT floor_seq + 1, head_seq, count, bytes FROM topics_topichead WHERE topic_id = %s"
TAKE_HEAD = "UPDATE topics_topichead SET version = version + 1 WHERE topic_id = %s RETURNING head_seq"
LOCK_TOPIC = "SELECT FROM topics_topic WHERE id = %s FOR UPDATE"
# A topic that is created later under the name continues above this head. A crash cannot take this back and keep a record of that
# topic: its first append waits for the disk (topic_reserve), and so for everything that was committed before. If a crash takes
# this back, the deleted topic is there again, and continues above its reserved_seq. The row never falls.
DROP_HEAD = """
WITH dropped AS (DELETE FROM topics_topichead WHERE topic_id = %s RETURNING head_seq)
INSERT INTO topics_lasthead AS kept (name, head_seq) SELECT %s, head_seq FROM dropped WHERE head_seq > 0
    ON CONFLICT (name) DO UPDATE SET head_seq = greatest(kept.head_seq, excluded.head_seq)
"""
FORGET_HEAD = "DELETE FROM topics_lasthead WHERE name = %s"
# What else belongs to a topic, and the topic.
DROP = (
    "DELETE FROM topics_clockstep WHERE topic_id = %s",
    "DELETE FROM topics_crashloss WHERE topic_id = %s",
    "DELETE FROM topics_cursor WHERE topic_id = %s",
    "DELETE FROM topics_idempotencykey WHERE topic_id = %s",
    "DELETE FROM topics_topic WHERE id = %s",
)
# Its rows stay until reclaim finds that no span shows them; until then the name is what lineage shows for the id.
KEEP_NAME = "INSERT INTO topics_deletedtopic (id, name, deleted_ts) VALUES (%s, %s, %s)"


class Delete(Destruction):
    """The body of a record delete."""

    before_seq: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    """Records below this seq."""
    match: Match | None = None
    """Records with such a tag, as in a diff. With both, records that are both."""
    seqs: Annotated[list[Seq], Meta(max_length=MOST_SEQS)] | None = None
    """In place of these: records with these seqs, up to 5000 in any order. Others are ignored."""
    copy: bool = False
    """True: the topic has to be sealed. False: it must not be."""


def delete_records(
    name: str, before_seq: int | None, match: Match | None, now: int, *, is_copy: bool = False
) -> Script[Deleted]:
    """Delete what is there now, lies below before_seq and matches.

    Raises TopicNotFound, TopicSealed, TopicNotSealed, InvalidRequest or NotReady.
    """
    if before_seq is None and match is None:
        raise InvalidRequest("say before_seq or match, or both, or seqs")
    op, literal = check_match(match)

    def delete(topic: CachedTopic) -> Script[Deleted | None]:
        return delete_once(topic, before_seq, op, literal, now)

    return deleting(name, delete, now, is_copy)


def delete_seqs(name: str, seqs: list[int], now: int, *, is_copy: bool = False) -> Script[Deleted]:
    """Delete what is there now of these seqs. Raises TopicNotFound, TopicSealed, TopicNotSealed or NotReady."""

    def delete(topic: CachedTopic) -> Script[Deleted | None]:
        wanted = (topic.id, topic.version, array(seqs), topic.expired_ts(now))
        return (yield from delete_alone(topic, Statement(DELETE_SEQS, wanted)))

    return deleting(name, delete, now, is_copy)


def deleting(
    name: str, delete: Callable[[CachedTopic], Script[Deleted | None]], now: int, is_copy: bool
) -> Script[Deleted]:
    """What comes of `delete` on the topic as we know it, where its seal allows that."""

    def work(topic: CachedTopic) -> Script[Deleted | None]:
        if not (yield from sealed.check_seal(topic, is_copy)):
            return None
        if topic.derived:
            yield from hooks.before_read(topic, now)  # what a reader would see now is there to be deleted
        try:
            return (yield from delete(topic))
        except Outdated:
            return None

    return as_known(name, work)


def delete_once(
    topic: CachedTopic, before_seq: int | None, op: str | None, literal: str | None, now: int
) -> Script[Deleted | None]:
    """None, or Outdated is raised, when the topic is another than the one we knew: nothing is deleted then."""
    if op is None or literal is None:
        below: Deleted | None = yield Deletion(topic, before_seq, None, now)
        return below
    if op == "Eq" and not topic.derived:
        tagged: Deleted | None = yield Deletion(topic, before_seq, literal, now)
        if tagged is not None:
            return tagged
    end = after_prefix(literal) if op == "Glob" else None
    wanted = (topic.id, topic.version, before_seq, op, literal, end, topic.expired_ts(now))
    return (yield from delete_alone(topic, Statement(DELETE_MATCH, wanted)))


def delete_alone(topic: CachedTopic, statement: Statement) -> Script[Deleted]:
    """A delete that shares its transaction with no other. Raises Outdated."""
    whole = yield Whole([statement, Statement(EXTENT, (topic.id,))], lock=topic.id)
    ((deleted,),), (extent,) = whole.rows
    return Deleted(deleted, *extent)


def after_prefix(prefix: str) -> str | None:
    """The first string, in byte order, above all that begin with prefix; None when nothing is above them."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code <= 0x10FFFF:
            return prefix[: end - 1] + chr(0xE000 if code == 0xD800 else code)
    return None


class Gone(NamedTuple):
    """Whether there was a topic to delete, and the names of the routers that went along."""

    deleted: bool
    routers: list[str]


def delete_topic(
    name: str, if_empty: bool, now: int, key: Key = OPEN, *, if_sealed: bool = False, keep_head: bool = True
) -> Script[Gone]:
    """Delete a topic and every router that names it. `keep_head`: a later topic of the name continues the numbering.

    Raises TopicNotEmpty when it holds records and only an empty one was to go, TopicNotSealed when only a sealed one was to go,
    and RouterOutsidePrefixes when a router would go that the key may not delete by itself.
    """
    work = delete_locked(name, if_empty, now, key, if_sealed=if_sealed, keep_head=keep_head)
    topic_id, head_seq, routers = yield from atomically(work, lock_of(name))
    if topic_id is None:
        return Gone(False, [])
    forget(name)
    wake.announce(topic_id, head_seq + 1, routed=False)  # whoever watches it looks, and finds it gone
    return Gone(True, routers)


def delete_locked(
    name: str, if_empty: bool, now: int, key: Key, *, if_sealed: bool = False, keep_head: bool = True
) -> Script[tuple[int | None, int, list[str]]]:
    """Returns the topic's id (None: there is none), its head, and the names of its routers."""
    yield from hooks.before_delete()
    # Nobody configures it from here on. Not FOR UPDATE: who makes a cursor, which refers to this row, need not wait yet.
    found = yield Statement(LOCK_CONFIG, (name,))
    if not found:
        return None, 0, []
    topic_id, *values = found[0]
    config = stored(values)
    if if_sealed and not config.sealed:
        raise TopicNotSealed(f"{name!r} is not sealed", topic=name)
    routers = yield from hooks.with_delete(topic_id, name, key)
    ((head_seq,),) = yield Statement(TAKE_HEAD, (topic_id,))
    if if_empty:
        yield Statement(EXPIRE, (topic_id, now - config.ttl_ms if config.ttl_ms else None))
        ((_, _, count, _),) = yield Statement(EXTENT, (topic_id,))
        if count:
            raise sealed.marked(TopicNotEmpty(f"{name!r} holds {count} records", count=count), config.sealed)
    yield Statement(LOCK_TOPIC, (topic_id,))  # after who is about to make a cursor here: it goes, too
    yield from audit.note("delete", "topic", name, before=as_dict(config))
    yield Statement(DROP_HEAD, (topic_id, name))
    if not keep_head:
        yield Statement(FORGET_HEAD, (name,))
    for statement in DROP:
        yield Statement(statement, (topic_id,))
    yield Statement(KEEP_NAME, (topic_id, name, now))
    return topic_id, head_seq, routers
