"""Deletes a topic with its routers (docs/wire.md).

Reclaim removes the rows and spans of its records later (upkeep/reclaim.py). Locks and accepted races: docs/concurrency.md.
"""

from __future__ import annotations

from typing import NamedTuple

from base.errors import TopicNotEmpty, TopicNotSealed
from store.script import Script, Statement, atomically
from topics import audit, sealed, wake
from topics.cache import forget, lock_of
from topics.config import LOCK_CONFIG, as_dict, stored
from topics.delete.records import EXTENT
from topics.hooks import hooks
from wire.access.keys import OPEN, Key

TAKE_HEAD = "UPDATE topics_topichead SET version = version + 1 WHERE topic_id = %s RETURNING head_seq"
LOCK_TOPIC = "SELECT FROM topics_topic WHERE id = %s FOR UPDATE"
# A topic that is created later under the name continues above this head. A crash cannot lose this row and keep a record of
# the later topic: the first append to the later topic waits for the disk (topic_reserve), and therefore for every earlier
# commit. If a crash loses the row, the deleted topic exists again, and continues above reserved_seq. The head in the row
# never falls.
DROP_HEAD = """
WITH dropped AS (
    DELETE FROM topics_topichead WHERE topic_id = %s RETURNING head_seq, counted_seq, counted_count, counted_bytes),
uncounted AS (
    INSERT INTO topics_total (topics, records, bytes)
    SELECT -1, -counted_count, -counted_bytes FROM dropped WHERE counted_seq >= 0)
INSERT INTO topics_lasthead AS kept (name, head_seq) SELECT %s, head_seq FROM dropped WHERE head_seq > 0
    ON CONFLICT (name) DO UPDATE SET head_seq = greatest(kept.head_seq, excluded.head_seq)
"""
FORGET_HEAD = "DELETE FROM topics_lasthead WHERE name = %s"
# The other rows of a topic, and then the topic.
DROP = (
    "DELETE FROM topics_clockstep WHERE topic_id = %s",
    "DELETE FROM topics_crashloss WHERE topic_id = %s",
    "DELETE FROM topics_cursor WHERE topic_id = %s",
    "DELETE FROM topics_expiry WHERE topic_id = %s",
    "DELETE FROM topics_idempotencykey WHERE topic_id = %s",
    "DELETE FROM topics_topic WHERE id = %s",
)
# The topic's records stay until reclaim finds that no span shows them. Until then, lineage shows this name for the id.
KEEP_NAME = "INSERT INTO topics_deletedtopic (id, name, deleted_ts) VALUES (%s, %s, %s)"


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
        ((_, _, count, _),) = yield Statement(EXTENT, (now - config.ttl_ms if config.ttl_ms else None, topic_id))
        if count:
            raise sealed.marked(TopicNotEmpty(f"{name!r} holds {count} records", count=count), config.sealed)
    yield Statement(LOCK_TOPIC, (topic_id,))  # waits for calls that make a cursor here, so that DROP deletes it, too
    yield from hooks.value.before_drop(topic_id)
    yield from audit.note("delete", "topic", name, before=as_dict(config))
    yield Statement(DROP_HEAD, (topic_id, name))
    if not keep_head:
        yield Statement(FORGET_HEAD, (name,))
    for statement in DROP:
        yield Statement(statement, (topic_id,))
    yield Statement(KEEP_NAME, (topic_id, name, now))
    return topic_id, head_seq, routers
