"""Delete what somebody asks to be deleted: records, or a topic with its routers (contract.md sections 2 and 5).

Silent, and for good: readers move on without a tombstone. Rows and spans go later (reclaim.py).
Locks and accepted races: docs/concurrency.md.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec
from django.db import connection, transaction
from django.db.models import Q
from msgspec import Meta

from base.errors import InvalidRequest, RouterOutsidePrefixes, TopicNotEmpty
from store.database import translating
from topics import audit, wake
from topics.cache import Known, forget, known
from topics.config import config_of
from topics.diff import Match, catch_up, check_match
from topics.models import Topic, TopicHead
from wire.keys import OPEN, Key

LOCK_HEAD = "SELECT FROM topics_topichead WHERE topic_id = %s AND version = %s FOR UPDATE"
EXPIRE = "SELECT topic_expire(%s, %s)"
# O(1) above ragged_seq: only the floor moves.
TRIM = "SELECT records FROM topic_trim(%s, %s, 'delete')"
# By the index on the tag. Takes the head's lock after the records' (sql/topic_delete_match.sql).
DELETE_MATCH = "SELECT topic_delete_match(%s, %s, %s, %s, %s, %s, %s)"
EXTENT = "SELECT floor_seq + 1, head_seq, count, bytes FROM topics_topichead WHERE topic_id = %s"
# Its rows stay until reclaim finds that no span shows them; until then the name is what lineage shows for the id.
KEEP_NAME = "INSERT INTO topics_deletedtopic (id, name, deleted_ts) VALUES (%s, %s, %s)"


class Delete(msgspec.Struct):
    """The body of a record delete."""

    before_seq: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    match: Match | None = None


class Deleted(NamedTuple):
    """How many records went, and what the topic holds since."""

    deleted: int
    earliest_seq: int
    head_seq: int
    count: int  # type: ignore[assignment]  # not the tuple's method, which nobody misses
    bytes: int


def delete_records(name: str, before_seq: int | None, match: Match | None, now: int) -> Deleted:
    """Delete what is there now, lies below before_seq and matches. Raises TopicNotFound, InvalidRequest or NotReady."""
    if before_seq is None and match is None:
        raise InvalidRequest("say before_seq or match, or both")
    op, literal = check_match(match)
    with translating():
        while True:
            topic = known(name)
            if topic.derived:
                catch_up(topic.id, now)  # what a reader would see now is there to be deleted
            done = delete_once(topic, before_seq, op, literal, now)
            if done is not None:
                return done
            forget(name)  # configured anew, deleted or recreated since we looked


def delete_once(topic: Known, before_seq: int | None, op: str | None, literal: str | None, now: int) -> Deleted | None:
    """None: the topic is another than the one we knew, and nothing was deleted."""
    with transaction.atomic(), connection.cursor() as cursor:
        if op is None or literal is None:
            cursor.execute(LOCK_HEAD, [topic.id, topic.version])
            if cursor.fetchone() is None:
                return None
            cursor.execute(EXPIRE, [topic.id, topic.expired_ts(now)])
            cursor.execute(TRIM, [topic.id, (before_seq or 0) - 1])
        else:
            end = after_prefix(literal) if op == "Glob" else None
            arguments = [topic.id, topic.version, before_seq, op, literal, end, topic.expired_ts(now)]
            cursor.execute(DELETE_MATCH, arguments)
        row = cursor.fetchone()
        if row is None:
            transaction.set_rollback(True)
            return None
        cursor.execute(EXTENT, [topic.id])
        return Deleted(row[0], *cursor.fetchone())


def after_prefix(prefix: str) -> str | None:
    """The first string, in byte order, above all that begin with prefix; None when nothing is above them."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code <= 0x10FFFF:
            return prefix[: end - 1] + chr(0xE000 if code == 0xD800 else code)
    return None


def delete_topic(name: str, if_empty: bool, now: int, key: Key = OPEN) -> tuple[bool, list[str]]:
    """Delete a topic and every router that names it. Answers whether there was one, and those routers' names.

    Raises TopicNotEmpty when it holds records and only an empty one was to go, and RouterOutsidePrefixes when a router
    would go that the key may not delete by itself.
    """
    from routers import graph, routers  # routers builds on topics, not the other way round

    with translating(), transaction.atomic():
        graph.lock_graph()
        # Nobody configures it from here on. Not FOR UPDATE: an append that holds the head may yet have to see this row.
        topic = Topic.objects.select_for_update(no_key=True).filter(name=name).first()
        if topic is None:
            return False, []
        named = routers.Router.objects.filter(Q(source=topic) | Q(dest=topic)).select_related("source", "dest")
        removed = list(named.order_by("name"))
        if hidden := sum(not routers.may_see(router, key) for router in removed):
            message = f"{hidden} routers that this key may not delete lead from or to {name!r}"
            raise RouterOutsidePrefixes(message, count=hidden)
        if removed:
            routers.remove(removed)
        ends = {end.pk: end for router in removed for end in (router.source, router.dest)}
        routers.touch(topic, *(end for id, end in ends.items() if id != topic.pk))
        head = TopicHead.objects.get(pk=topic.pk)
        if if_empty:
            check_empty(topic, now)
        id = topic.pk
        Topic.objects.select_for_update().get(pk=id)  # after who is about to make a cursor here: it goes, too
        audit.note("delete", "topic", name, before=msgspec.to_builtins(config_of(topic)))
        topic.delete()  # with its head, cursors and idempotency keys
        with connection.cursor() as cursor:
            cursor.execute(KEEP_NAME, [id, name, now])
    forget(name)
    wake.announce(id, head.head_seq + 1, routed=False)  # whoever watches it looks, and finds it gone
    return True, [router.name for router in removed]


def check_empty(topic: Topic, now: int) -> None:
    """Raises TopicNotEmpty. The caller holds the head's lock."""
    with connection.cursor() as cursor:
        cursor.execute(EXPIRE, [topic.pk, now - topic.ttl_ms if topic.ttl_ms else None])
        cursor.execute(EXTENT, [topic.pk])
        count = cursor.fetchone()[2]
    if count:
        raise TopicNotEmpty(f"{topic.name!r} holds {count} records", count=count)
