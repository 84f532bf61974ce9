"""Deletes records, or a topic with its routers (docs/wire.md).

A delete is silent and permanent: readers continue without a tombstone. Reclaim removes rows and spans later
(upkeep/reclaim.py). Locks and accepted races: docs/concurrency.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

from msgspec import Meta

from base.errors import InvalidRequest, Outdated, TopicNotEmpty, TopicNotSealed
from base.names import after_prefix
from store.script import Script, Statement, atomically
from topics import audit, sealed, wake
from topics.cache import CachedTopic, as_known, forget, lock_of
from topics.config import LOCK_CONFIG, as_dict, stored
from topics.diff import Match, Seq, check_match
from topics.hooks import hooks
from topics.insert import array
from topics.models import Topic
from topics.removal import EXTENT, Deleted, Deletion, SoleDeletion
from wire.keys import OPEN, Key
from wire.parse import Destruction

EXPIRE = "SELECT topic_expire(%s, %s)"
# Uses the index on the tag. The function locks first the records, then the head, and then compares the topic's version
# (sql/functions/topic_delete_match.sql). If the version differs, the transaction rolls back.
DELETE_MATCH = "SELECT topic_delete_match(%s, %s, %s, %s, %s, %s, %s)"
# This works in the same way (sql/functions/topic_delete_seqs.sql).
DELETE_SEQS = "SELECT topic_delete_seqs(%s, %s, %s::bigint[], %s)"
MOST_SEQS = 5_000
TAKE_HEAD = "UPDATE topics_topichead SET version = version + 1 WHERE topic_id = %s RETURNING head_seq"
LOCK_TOPIC = "SELECT FROM topics_topic WHERE id = %s FOR UPDATE"
# A topic that is created later under the name continues above this head. A crash cannot lose this row and keep a record of
# the later topic: the first append to the later topic waits for the disk (topic_reserve), and therefore for every earlier
# commit. If a crash loses the row, the deleted topic exists again, and continues above reserved_seq. The head in the row
# never falls.
DROP_HEAD = """
WITH dropped AS (DELETE FROM topics_topichead WHERE topic_id = %s RETURNING head_seq)
INSERT INTO topics_lasthead AS kept (name, head_seq) SELECT %s, head_seq FROM dropped WHERE head_seq > 0
    ON CONFLICT (name) DO UPDATE SET head_seq = greatest(kept.head_seq, excluded.head_seq)
"""
FORGET_HEAD = "DELETE FROM topics_lasthead WHERE name = %s"
# The other rows of a topic, and then the topic.
DROP = (
    "DELETE FROM topics_clockstep WHERE topic_id = %s",
    "DELETE FROM topics_crashloss WHERE topic_id = %s",
    "DELETE FROM topics_cursor WHERE topic_id = %s",
    "DELETE FROM topics_idempotencykey WHERE topic_id = %s",
    "DELETE FROM topics_topic WHERE id = %s",
)
# The topic's records stay until reclaim finds that no span shows them. Until then, lineage shows this name for the id.
KEEP_NAME = "INSERT INTO topics_deletedtopic (id, name, deleted_ts) VALUES (%s, %s, %s)"


class Delete(Destruction):
    """The body of a record delete."""

    before_seq: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    """Delete records below this seq."""
    match: Match | None = None
    """Delete records with a matching tag, as in a diff. If `before_seq` is also set, a record must meet both conditions."""
    seqs: Annotated[list[Seq], Meta(max_length=MOST_SEQS)] | None = None
    """In place of `before_seq` and `match`: delete records with these seqs, up to 5000 in any order. The server ignores
    seqs without a live record."""
    copy: bool = False
    """True: the topic must be sealed. False: the topic must not be sealed."""


def delete_records(
    name: str, before_seq: int | None, match: Match | None, now: int, *, is_copy: bool = False
) -> Script[Deleted]:
    """Deletes the live records that lie below before_seq and match. Returns their number, and what the topic holds then.

    Raises TopicNotFound, TopicSealed, TopicNotSealed, InvalidRequest or NotReady.
    """
    if before_seq is None and match is None:
        raise InvalidRequest("the condition is missing: send before_seq, match or both, or seqs")
    op, literal = check_match(match)

    def delete(topic: CachedTopic) -> Script[Deleted | None]:
        return delete_once(topic, before_seq, op, literal, now)

    return deleting(name, delete, now, is_copy)


def delete_seqs(name: str, seqs: list[int], now: int, *, is_copy: bool = False) -> Script[Deleted]:
    """Deletes the live records with these seqs. Raises TopicNotFound, TopicSealed, TopicNotSealed or NotReady."""

    def delete(topic: CachedTopic) -> Script[Deleted | None]:
        wanted = (topic.id, topic.version, array(seqs), topic.expired_ts(now))
        return (yield SoleDeletion(topic, Statement(DELETE_SEQS, wanted)))

    return deleting(name, delete, now, is_copy)


def deleting(
    name: str, delete: Callable[[CachedTopic], Script[Deleted | None]], now: int, is_copy: bool
) -> Script[Deleted]:
    """Runs `delete` with the topic as it is cached, if the topic's seal allows the delete. Returns the result of `delete`."""

    def work(topic: CachedTopic) -> Script[Deleted | None]:
        if not (yield from sealed.check_seal(topic, is_copy)):
            return None
        if topic.derived:
            yield from hooks.value.before_read(topic, now)  # the delete must find all that a reader sees
        try:
            deleted = yield from delete(topic)
        except Outdated:
            return None
        if deleted is not None and deleted.deleted and topic.type == Topic.Type.QUEUE:
            yield from hooks.value.after_delete(topic, now)
        return deleted

    return as_known(name, work)


def delete_once(
    topic: CachedTopic, before_seq: int | None, op: str | None, literal: str | None, now: int
) -> Script[Deleted | None]:
    """Deletes once. Returns None or raises Outdated if the topic's version differs. Then nothing is deleted."""
    if op is None or literal is None:
        below: Deleted | None = yield Deletion(topic, before_seq, None, now)
        return below
    if op == "Eq" and not topic.derived:
        tagged: Deleted | None = yield Deletion(topic, before_seq, literal, now)
        if tagged is not None:
            return tagged
    end = after_prefix(literal) if op == "Glob" else None
    wanted = (topic.id, topic.version, before_seq, op, literal, end, topic.expired_ts(now))
    matching: Deleted = yield SoleDeletion(topic, Statement(DELETE_MATCH, wanted))
    return matching


class Gone(NamedTuple):
    """Whether the topic existed, and the names of the deleted routers."""

    deleted: bool
    routers: list[str]


def delete_topic(
    name: str, if_empty: bool, now: int, key: Key = OPEN, *, if_sealed: bool = False, keep_head: bool = True
) -> Script[Gone]:
    """Deletes a topic and every router that names it. `keep_head`: a later topic with this name continues the numbering.

    Raises TopicNotEmpty if `if_empty` is set and the topic holds records. Raises TopicNotSealed if `if_sealed` is set and
    the topic is not sealed. Raises RouterOutsidePrefixes if a router names the topic and the key may not delete this router
    by itself.
    """
    work = delete_locked(name, if_empty, now, key, if_sealed=if_sealed, keep_head=keep_head)
    topic_id, head_seq, routers = yield from atomically(work, lock_of(name))
    if topic_id is None:
        return Gone(False, [])
    forget(name)
    wake.announce(topic_id, head_seq + 1, routed=False)  # streams of the topic look, and find that it is deleted
    return Gone(True, routers)


def delete_locked(
    name: str, if_empty: bool, now: int, key: Key, *, if_sealed: bool = False, keep_head: bool = True
) -> Script[tuple[int | None, int, list[str]]]:
    """Returns the topic's id (None: the topic does not exist), the head, and the names of the routers."""
    yield from hooks.value.before_delete()
    # This lock keeps the config unchanged. Not FOR UPDATE: making a cursor, which refers to this row, need not wait yet.
    found = yield Statement(LOCK_CONFIG, (name,))
    if not found:
        return None, 0, []
    topic_id, *values = found[0]
    config = stored(values)
    if if_sealed and not config.sealed:
        raise TopicNotSealed(f"topic {name!r} is not sealed: seal the topic first", topic=name)
    routers = yield from hooks.value.with_delete(topic_id, name, key)
    ((head_seq,),) = yield Statement(TAKE_HEAD, (topic_id,))
    if if_empty:
        yield Statement(EXPIRE, (topic_id, now - config.ttl_ms if config.ttl_ms else None))
        ((_, _, count, _),) = yield Statement(EXTENT, (topic_id,))
        if count:
            raise sealed.marked(TopicNotEmpty(f"{name!r} holds {count} records", count=count), config.sealed)
    yield Statement(LOCK_TOPIC, (topic_id,))  # waits for calls that make a cursor here, so that DROP deletes it, too
    yield from audit.note("delete", "topic", name, before=as_dict(config))
    yield Statement(DROP_HEAD, (topic_id, name))
    if not keep_head:
        yield Statement(FORGET_HEAD, (name,))
    for statement in DROP:
        yield Statement(statement, (topic_id,))
    yield Statement(KEEP_NAME, (topic_id, name, now))
    return topic_id, head_seq, routers
