"""Named cursors, and a view of the cursors of routers and other owners (docs/wire.md).

A cursor is the last seq examined. Lag is the topic's head minus the cursor, computed at each call and never stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.conf import settings

from base.errors import AboveHead, CursorMoved, Incompatible, NotFound
from base.names import check_router_name, check_topic_name
from contract.cursors import CursorFields, CursorKind
from store.script import Script, Statement, atomically
from topics import audit
from topics.cache import absent
from topics.cursors.updates import CursorUpdate
from topics.read.diff import seq_before
from topics.sealed import marked
from wire import limits
from wire.access.keys import OPEN, Key

# The unique index (topic_id, name, kind) serves these reads, and has their order. The search for the oldest unread record
# starts at the cursor, the floor or the expiry time, whichever is last. LIMIT 1 makes the planner look up one topic and one head.
CURSORS = """
SELECT c.id, {name}, c.kind, c.seq, h.head_seq - c.seq,
       %(now)s - topic_next_ts(t.id, greatest(c.seq, h.earliest_seq - 1)), c.updated_ts, t.sealed
  FROM (SELECT id, ttl_ms, sealed FROM topics_topic WHERE name = %(topic)s LIMIT 1) t
 CROSS JOIN LATERAL (
     SELECT head.head_seq, stat.earliest_seq
       FROM topics_topichead head
      CROSS JOIN LATERAL topic_stat(head, CASE WHEN t.ttl_ms > 0 THEN %(now)s - t.ttl_ms END) stat
      WHERE head.topic_id = t.id LIMIT 1) h
  JOIN {cursors} c ON c.topic_id = t.id
"""
PLAIN = CURSORS.format(name="c.name", cursors="topics_cursor")
ONE = f"{PLAIN} WHERE c.name = %(cursor)s ORDER BY c.kind <> 'named' LIMIT 1"
# The cursors of the page alone, by the unique index.
NEXT = """LATERAL (
    SELECT * FROM topics_cursor WHERE topic_id = t.id AND (name, kind) > (%(after_name)s, %(after_kind)s)
     ORDER BY name, kind LIMIT %(limit)s)"""
PAGE = f"{CURSORS.format(name='c.name', cursors=NEXT)} ORDER BY c.name, c.kind"
# For a key with prefixes. Named cursors belong to the topic. Other cursors have the names of their owners, such as routers,
# and the key may not see all of these names. A page can continue after a hidden name, so pages follow the order of the
# names as shown. Cursors that look alike are in order of id. PAGE_SEEN sorts all cursors of the topic, which are few.
SEEN = "CASE WHEN c.kind = 'named' OR c.name ^@ ANY (%(prefixes)s::text[]) THEN c.name ELSE '*' END"
PAGE_SEEN = f"""{CURSORS.format(name=SEEN, cursors="topics_cursor")}
 WHERE ({SEEN}, c.kind, c.id) > (%(after_name)s COLLATE "C", %(after_kind)s, %(after_id)s)
 ORDER BY {SEEN}, c.kind, c.id LIMIT %(limit)s
"""

THERE = "SELECT sealed FROM topics_topic WHERE name = %s"
# Locks the topic's row against a delete, because a cursor must not outlive its topic.
LOCK_TOPIC = """
SELECT t.id, t.sealed FROM topics_topic t JOIN topics_topichead h ON h.topic_id = t.id
 WHERE t.name = %s FOR KEY SHARE OF t
"""
# A webhook can have the name of a consumer: each has its own cursor then.
OTHERS = "SELECT kind FROM topics_cursor WHERE topic_id = %s AND name = %s AND kind NOT IN ('named', 'webhook') LIMIT 1"
WHERE_NOW = "SELECT seq FROM topics_cursor WHERE topic_id = %s AND name = %s AND kind = 'named'"
DELETE = "DELETE FROM topics_cursor WHERE topic_id = %s AND name = %s AND kind = 'named' RETURNING seq"


class ShownCursor(NamedTuple):
    """A cursor at one moment.

    `oldest_unread_ms`: the age of the first record above the cursor in ms, or None if there is none. `sealed`: whether the
    topic is sealed.
    """

    id: int
    name: str
    kind: CursorKind
    seq: int
    lag: int
    oldest_unread_ms: int | None
    updated_ts: int
    sealed: bool


class MovedCursor(NamedTuple):
    """The new state of a cursor, and whether the cursor is new."""

    made: bool
    cursor: ShownCursor


class After(NamedTuple):
    """The last cursor of the page before, as the answer showed it."""

    name: str = ""
    kind: str = ""
    id: int = 0


def cursor(topic: str, name: str, now: int, key: Key = OPEN) -> Script[ShownCursor]:
    """Returns a cursor. Raises TopicNotFound, or NotFound, also for a cursor whose name the key may not see."""
    rows = yield from fetch(ONE, topic, cursor=name, now=now)
    if not rows or not visible(rows[0].kind, name, key):
        is_sealed = yield from check_topic(topic)
        check_router_name(name, "cursor")
        raise marked(NotFound(f"topic {topic!r} has no cursor {name!r}", topic=topic, cursor=name), is_sealed)
    return rows[0]


def visible(kind: str, name: str, key: Key) -> bool:
    """Whether a key that may read the topic may see this cursor's name. A named cursor belongs to the topic."""
    return kind == "named" or key.allows(name)


def page_of_cursors(
    topic: str, after: After, limit: int, now: int, key: Key = OPEN
) -> Script[tuple[list[ShownCursor], bool]]:
    """Returns the next cursors of a topic by name and kind, and whether the topic is sealed. Raises TopicNotFound.

    A name that the key may not see is "*".
    """
    wanted = {"after_name": after.name, "after_kind": after.kind, "limit": limit, "now": now}
    if key.prefixes:
        rows = yield from fetch(PAGE_SEEN, topic, after_id=after.id, prefixes=list(key.prefixes), **wanted)
    else:
        rows = yield from fetch(PAGE, topic, **wanted)
    return rows, rows[0].sealed if rows else (yield from check_topic(topic))


def fetch(statement: str, topic: str, **arguments: Any) -> Script[list[ShownCursor]]:
    rows = yield Statement(statement, {"topic": topic, **arguments}, quick=True)
    return [shown(*row) for row in rows]


def shown(*columns: Any) -> ShownCursor:
    """Returns a cursor. Clocks of several machines differ a little, so its age could be negative."""
    found = ShownCursor(*columns)
    age = found.oldest_unread_ms
    return found if age is None else found._replace(oldest_unread_ms=max(age, 0))


def check_topic(name: str) -> Script[bool]:
    """Returns whether the topic is sealed. Raises TopicNotFound."""
    rows = yield Statement(THERE, (name,))
    if not rows:
        raise absent(name)
    return bool(rows[0][0])


def target_seq(topic: str, wanted: CursorFields, now: int) -> Script[int | None]:
    """Returns the seq that a request asks for, or None for the head. Raises InvalidRequest or TopicNotFound."""
    wanted.check()
    if wanted.from_ts is not None or wanted.at == "earliest":
        return (yield from seq_before(topic, wanted.from_ts or 0, now))
    return wanted.seq


def move(
    topic: str, name: str, seq: int | None, expected_seq: int | None, now: int, key: Key = OPEN
) -> Script[MovedCursor]:
    """Sets a named cursor to `seq`, or to the head if `seq` is None. Creates an absent cursor, which counts as being at 0 before.

    Raises TopicNotFound, CursorMoved, AboveHead, Throttled or Incompatible (the cursor is not a named one).
    """
    check_topic_name(name, "cursor")
    # A key that may not see a router's name may have a named cursor with this name.
    found = yield CursorUpdate(topic, name, seq, expected_seq, key.allows(name), now)
    if found is None:
        raise absent(topic)
    topic_id, head_seq, kind, cursor_id, stands, unread_ms, updated_ts, made, is_sealed, is_full = found
    if cursor_id is not None:
        lag = head_seq - stands
        return MovedCursor(bool(made), shown(cursor_id, name, "named", stands, lag, unread_ms, updated_ts, is_sealed))
    if seq is not None and seq > head_seq:
        raise marked(AboveHead.of(seq=seq, head_seq=head_seq), is_sealed)
    if kind is not None:
        raise marked(belongs(name, kind), is_sealed)
    if is_full and not expected_seq:
        most = settings.TOPICS_MAX_CURSORS_PER_TOPIC
        limits.check("cursors_per_topic", most, most, limits.LATER)
    rows = yield Statement(WHERE_NOW, (topic_id, name))
    current = rows[0][0] if rows else 0
    raise marked(CursorMoved.of(seq=current, expected_seq=expected_seq), is_sealed)


def lock_topic(name: str) -> Script[tuple[int, bool]]:
    """Returns the topic's id, and whether the topic is sealed. Raises TopicNotFound. Until the transaction ends, the topic
    cannot be deleted."""
    rows = yield Statement(LOCK_TOPIC, (name,))
    if not rows:
        raise absent(name)
    topic_id, is_sealed = rows[0]
    return topic_id, is_sealed


def check_named(topic_id: int, name: str, is_sealed: bool, key: Key) -> Script[None]:
    """Raises Incompatible if the cursor belongs to a router or another owner, because only an owner may move the cursor.

    A key that may not see a router's name may have a named cursor with this name.
    """
    others = yield Statement(OTHERS, (topic_id, name))
    if others and visible(kind := others[0][0], name, key):
        raise marked(belongs(name, kind), is_sealed)


def belongs(name: str, kind: str) -> Incompatible:
    return Incompatible(f"cursor {name!r} belongs to a {kind} and is read-only", kind=kind)


def delete_cursor(topic: str, name: str, key: Key = OPEN) -> Script[tuple[bool, bool]]:
    """Returns whether the cursor existed, and whether the topic is sealed. Raises TopicNotFound or Incompatible."""
    return atomically(delete_locked(topic, name, key), (topic, name))


def delete_locked(topic: str, name: str, key: Key) -> Script[tuple[bool, bool]]:
    topic_id, is_sealed = yield from lock_topic(topic)
    deleted = yield Statement(DELETE, (topic_id, name))
    if deleted:
        yield from audit.note("delete", "cursor", f"{topic}/{name}", before={"seq": deleted[0][0]})
    else:
        yield from check_named(topic_id, name, is_sealed, key)
    return bool(deleted), is_sealed
