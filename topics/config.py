"""The config of a topic: fields, defaults, and the functions to create a topic and to change a config.

Rules: docs/wire.md, "Topics".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self

import msgspec
from django.db import models
from msgspec import UNSET

from base.errors import HIDDEN, DeadLetterCycle, Incompatible, InvalidRequest
from base.names import check_topic_name
from contract.config import DEFAULTS, TopicConfig, derived
from store.script import Coalesced, Done, PlannedTransaction, Script, Statement, atomically
from topics import audit, limits
from topics.audit import as_json
from topics.cache import COLUMNS, CachedTopic, absent, cached, forget_known, keep, lock_of
from topics.heads import BACKLOG, OUTDATE
from topics.hooks import hooks
from topics.models import Topic, TopicHead
from wire.access.keys import Key
from wire.answer import clamped
from wire.request.parse import Request
from wire.schema import Clamped

MAX_PRIORITY = 1000
QUEUES_ONLY = frozenset(
    ("lease_ms", "claim_jitter_ms", "max_deliveries", "dead_letter", "leases_durable", "unique_tags")
)


class Config(TopicConfig, Request):
    """Any subset of a topic's config, as a client sends it."""

    def check_key(self, key: Key) -> None:
        """Raises Forbidden if the key may not give a topic this config, whichever call brings it."""
        key.check("admin")
        if isinstance(self.dead_letter, str):
            key.check_name(self.dead_letter)

    def clamped(self) -> Clamped:
        """Returns the clamped fields, each with the stored value."""
        return (
            clamped(priority=(self.priority, within_bounds(self.priority))) if isinstance(self.priority, int) else UNSET
        )

    def fields(self) -> dict[str, Any]:
        """Returns the column values of the fields that are set. Raises InvalidRequest."""
        given = self.given()
        if given.get("priority") is not None:
            given["priority"] = within_bounds(given["priority"])
        return given


def within_bounds(priority: int) -> int:
    return max(-MAX_PRIORITY, min(MAX_PRIORITY, priority))


class WholeConfig(derived(optional=False)):  # type: ignore[misc]
    """The whole config of a topic, as answers show it."""

    durable: bool
    """Whether `durability` is `fsync`."""

    def seen_by(self, key: Key) -> WholeConfig:
        """Returns the config with "*" in place of a name that the key may not see."""
        if self.dead_letter is None or key.allows(self.dead_letter):
            return self
        return msgspec.structs.replace(self, dead_letter=HIDDEN)


def whole(columns: dict[str, Any]) -> WholeConfig:
    return WholeConfig(**columns, durable=columns["durability"] == Topic.Durability.FSYNC)


def stored(values: Sequence[Any]) -> WholeConfig:
    """Returns the config of a row of COLUMNS, in their order."""
    return whole(dict(zip(COLUMNS, values, strict=True)))


@lru_cache(1000)
def remembered(topic: CachedTopic) -> WholeConfig:
    """Returns the config of a cached topic, as of its `version`."""
    return whole({column: getattr(topic, column) for column in COLUMNS})


def as_dict(config: WholeConfig) -> dict[str, Any]:
    """Returns the config as the audit log shows it."""
    state: dict[str, Any] = msgspec.to_builtins(config)
    return state


def defaults(model: type[models.Model]) -> dict[str, Any]:
    """Returns {column: default} of the columns that have a default. PostgreSQL itself knows few of these defaults."""
    fields = [field for field in model._meta.concrete_fields if field.has_default() or field.null]
    return {field.column: field.get_default() for field in fields if not field.primary_key}


def literal(value: str | int | bool | None) -> str:
    """Returns a default as SQL."""
    return "NULL" if value is None else f"'{value}'"


HEAD = defaults(TopicHead)
# A new head, as SQL. `last_head` is the last head of the name: numbering continues there.
NEW_HEAD = {
    **{column: str(default) for column, default in HEAD.items()},
    **dict.fromkeys(("head_seq", "floor_seq", "reserved_seq", "recreated_seq"), "last_head"),
    "era": "topic_era(last_head)",
}


def begun(column: str) -> str:
    """Returns SQL for the first value of a topic's column: the value of the request, or else the default."""
    default = literal(DEFAULTS[column])
    return column if default == "NULL" else f"coalesce({column}, {default})"


# MAKE returns no row for a name that is taken. A taken name uses up no id, because the WHERE leaves the name out before the
# insert. MAKE looks up each name by itself: a join might read all topics to find a few new ones. The names are in order. So
# two statements with the same topics cannot deadlock.
MAKE = """
    INSERT INTO topics_topic (name, created_ts, {columns})
    SELECT name, {created_ts}, {values}
      FROM {asked} AS asked
     WHERE (SELECT known.id FROM topics_topic known WHERE known.name = asked.name) IS NULL
     ORDER BY name
    ON CONFLICT (name) DO NOTHING
    RETURNING *"""
MAKE_CONFIGURED = MAKE.format(
    columns=", ".join(DEFAULTS),
    created_ts="created_ts",
    values=", ".join(map(begun, DEFAULTS)),
    asked="json_populate_recordset(NULL::topics_topic, %(topics)s::json)",
)
# CREATE also makes the heads. `entries` are rows of the audit log, which shows the config as as_dict() does. `made` gets
# its row after the name is taken. So the last head from topic_last_head is final.
CREATE = f"""
WITH made AS ({MAKE_CONFIGURED}),
headed AS (
    INSERT INTO topics_topichead (topic_id, {", ".join(HEAD)})
    SELECT id, {", ".join(NEW_HEAD.values())} FROM (SELECT id, topic_last_head(name) AS last_head FROM made) named),
noted AS (
    INSERT INTO topics_auditentry (ts, actor, actor_name, origin, action, kind, name, after)
    SELECT ts, actor, actor_name, origin, action, kind, name,
           to_jsonb(made) - '{{id,name,created_ts}}'::text[] || jsonb_build_object('durable', durability = 'fsync')
      FROM json_populate_recordset(NULL::topics_auditentry, %(entries)s::json) entry
      JOIN made USING (name))
SELECT name, id FROM made
"""


class Creation(Coalesced[int | None]):
    """Creates a topic with these columns, and waits for the disk.

    The result is the topic's id, or None if another call created the topic first.
    """

    def __init__(self, name: str, fields: dict[str, Any], now: int, *, noted: bool) -> None:
        self.name, self.topic = name, {"name": name, "created_ts": now, **fields}
        self.entries = [audit.entry("create", "topic", name)] if noted else []
        self.lock = name

    @classmethod
    def groups(cls, batch: Sequence[Self]) -> Sequence[Sequence[Self]]:
        """Returns the first creation of each name. For the others the topic exists then."""
        first = {each.name: each for each in reversed(batch)}
        return [list(first.values())]

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> PlannedTransaction:
        return PlannedTransaction([creating(batch)])

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[int | None]:
        made: dict[str, int] = dict(done.rows[0])
        return [made.get(each.name) for each in batch]


def creating(batch: Sequence[Creation]) -> Statement:
    """Returns the statement that makes topics with different names."""
    topics, entries = [each.topic for each in batch], [entry for each in batch for entry in each.entries]
    return Statement(CREATE, {"topics": as_json(topics), "entries": as_json(entries)})


def create_topic(name: str, fields: dict[str, Any], now: int, *, noted: bool) -> Script[bool]:
    """Creates a topic with these columns, and waits for the disk. Returns False if another call created the topic first.

    `noted`: whether the audit log gets an entry. Raises Throttled, InvalidRequest or DeadLetterCycle.
    """
    if fields.get("dead_letter") is not None:
        topic = yield from atomically(insert_topic(name, fields, now, noted=noted), name)
    else:
        yield from check_new(name, fields)
        made = yield Creation(name, fields, now, noted=noted)
        topic = None if made is None else new_topic(made, name, fields, now)
    if topic is not None:
        keep(topic)
    return topic is not None


def insert_topic(name: str, fields: dict[str, Any], now: int, *, noted: bool = False) -> Script[CachedTopic | None]:
    """Creates a topic in the caller's transaction. `noted`: whether the audit log gets an entry.

    Returns the topic, or None if another call created the topic first. The topic is not cached, because the caller can
    still roll back. Raises Throttled, InvalidRequest or DeadLetterCycle.
    """
    yield from check_new(name, fields)
    made = yield creating([Creation(name, fields, now, noted=noted)])
    return new_topic(made[0][1], name, fields, now) if made else None


def check_new(name: str, fields: dict[str, Any]) -> Script[None]:
    """Raises Throttled, InvalidRequest or DeadLetterCycle if no new topic with these columns is allowed."""
    check_topic_name(name)
    check_queue_fields(name, fields.get("type", Topic.Type.LOG), fields)
    yield from check_dead_letters(name, fields)
    hooks.value.check_config(name, fields.get("discard", DEFAULTS["discard"]), fields.get("sealed", False))
    yield from limits.check_topics(name)


def new_topic(id: int, name: str, fields: dict[str, Any], now: int) -> CachedTopic:
    """Returns the cache entry of a topic with these columns, created at `now`."""
    return CachedTopic(id=id, name=name, version=HEAD["version"], routed=False, derived=False, created_ts=now, **fields)


def foreign_field(type: str, fields: dict[str, Any]) -> str | None:
    """Returns a field that only queues have, or None.

    A client may send back the value of an answer. In a log, any other value would be stored without an effect.
    """
    if type == Topic.Type.QUEUE:
        return None
    return next((field for field in sorted(QUEUES_ONLY & fields.keys()) if fields[field] != DEFAULTS[field]), None)


def check_queue_fields(name: str, type: str, fields: dict[str, Any]) -> None:
    """Raises InvalidRequest if a log gets fields of queues, or if the dead letter topic is invalid."""
    field = foreign_field(type, fields)
    if field is not None:
        raise InvalidRequest(f'{field} is for queues: leave it out, or create the topic with type "queue"', field=field)
    dead_letter = fields.get("dead_letter")
    if dead_letter is not None:
        check_topic_name(dead_letter, "dead_letter")
        if dead_letter == name:
            raise InvalidRequest("dead_letter is the queue itself: name another topic", field="dead_letter")
        hooks.value.check_dest(dead_letter)


LOCK_DEAD_LETTERS = "SELECT pg_advisory_xact_lock(7005)"
# The way of a queue's dead letters, by the unique index on names. UNION ends at a cycle that an older version let in.
DEAD_LETTERS = """
WITH RECURSIVE way (hop, name) AS (
    SELECT 1, %(dead_letter)s::text COLLATE "C"
    UNION
    SELECT way.hop + 1, topic.dead_letter FROM way JOIN topics_topic topic USING (name)
     WHERE topic.dead_letter IS NOT NULL AND way.name <> %(name)s AND way.hop < 100
)
SELECT name FROM way ORDER BY hop
"""


def check_dead_letters(name: str, fields: dict[str, Any]) -> Script[None]:
    """Raises DeadLetterCycle if dead letters of the queue would come back to it, because no job would ever end there.

    Locks the dead letters of all queues until the end of the transaction, because two calls could each set half of a cycle.
    """
    if fields.get("dead_letter") is not None:
        yield Statement(LOCK_DEAD_LETTERS)
        way = [hop for (hop,) in (yield Statement(DEAD_LETTERS, {"name": name, "dead_letter": fields["dead_letter"]}))]
        if name in way:
            raise DeadLetterCycle.of(cycle=[name, *way[: way.index(name) + 1]])


def configured(fields: dict[str, Any]) -> WholeConfig:
    """Returns the config of a new topic with these columns."""
    return whole(DEFAULTS | fields)


# Not FOR UPDATE: making a cursor, which refers to this row, does not have to wait.
LOCK_CONFIG = f"SELECT id, {', '.join(COLUMNS)} FROM topics_topic WHERE name = %s FOR NO KEY UPDATE"
# A sealed topic needs no reserved seqs, and a crash would move the head over these seqs. This commit waits for the disk,
# and therefore for every append before it. The topic gives the seqs back like a topic at rest does (upkeep/retention.py).
SEAL = "UPDATE topics_topichead SET version = version + 1, reserved_seq = head_seq WHERE topic_id = ANY (%s)"
SAVE = f"UPDATE topics_topic SET {', '.join(f'{column} = %({column})s' for column in COLUMNS)} WHERE id = %(id)s"
EXPIRE = "SELECT topic_expire(id, %s - ttl_ms) FROM topics_topic WHERE id = %s AND ttl_ms > 0"
EVICT = "SELECT topic_evict(%s, %s, %s, %s, 0, 0)"
# Expiry looks at the topic in its next round (upkeep/retention.py), and notes when its records expire.
LOOK = "INSERT INTO topics_expiry (topic_id, due_ts) VALUES (%s, 0) ON CONFLICT (topic_id) DO UPDATE SET due_ts = 0"
# One step of many, if a shorter ttl or a lower cap takes much of a topic with holes. The subquery locks the head first.
SHRINK = """
SELECT coalesce(nullif(topic_expire(topic_id, expired_ts), 0),
                CASE WHEN discard = 'old' THEN topic_evict(topic_id, cap_records, cap_bytes, expired_ts, 0, 0) END)
  FROM (SELECT topic_id, cap_records, cap_bytes, discard, CASE WHEN ttl_ms > 0 THEN %s - ttl_ms END AS expired_ts
          FROM topics_topichead JOIN topics_topic ON id = topic_id
         WHERE name = %s FOR UPDATE OF topics_topichead) locked
"""


class TopicPut(NamedTuple):
    """The topic's config after a PUT, and whether the PUT created the topic."""

    config: WholeConfig
    created: bool


def put_topic(name: str, config: Config, now: int, *, create: bool = True) -> Script[TopicPut]:
    """Creates the topic, or changes the fields that differ.

    Raises Incompatible, InvalidRequest or Throttled, and then changes nothing. Raises TopicNotFound if the topic is absent
    and `create` is false.
    """
    fields = config.fields()
    check_topic_name(name)
    # The fields of a queue without its type can only change a queue that exists.
    may_create = create and foreign_field(fields.get("type", Topic.Type.LOG), fields) is None
    while True:
        known = cached(name)
        if may_create and known is None and (yield from create_topic(name, fields, now, noted=True)):
            return TopicPut(configured(fields), True)
        if known is not None and known.ttl_ms and fields.get("ttl_ms", known.ttl_ms) != known.ttl_ms:
            backlog = Statement(BACKLOG, {"id": known.id, "expired_ts": known.expired_ts(now)}, quick=True)
            while (yield backlog) and (yield from atomically(shrink(name, now), lock_of(name))):
                pass
        after = yield from atomically(change_once(name, fields, now), lock_of(name))
        forget_known(known)
        if after is not None:
            while (yield from atomically(shrink(name, now), lock_of(name))):
                pass
            return TopicPut(after, False)
        if not create:
            raise absent(name)
        if not may_create:
            check_queue_fields(name, Topic.Type.LOG, fields)


def shrink(name: str, now: int) -> Script[bool]:
    """Removes some of the records that have expired, or that exceed the topic's caps. Returns whether there were any."""
    return any(removed for (removed,) in (yield Statement(SHRINK, (now, name))))


def change_once(name: str, fields: dict[str, Any], now: int) -> Script[WholeConfig | None]:
    """Changes the fields that differ. Returns the topic's new config, or None if the topic does not exist."""
    found = yield Statement(LOCK_CONFIG, (name,))
    if not found:
        return None
    topic_id, *values = found[0]
    return (yield from change_topic(topic_id, name, stored(values), fields, now))


def change_topic(
    topic_id: int, name: str, before: WholeConfig, fields: dict[str, Any], now: int
) -> Script[WholeConfig]:
    """Saves the fields that differ, and returns the new config. Raises Incompatible or InvalidRequest.

    The caller's transaction holds the lock of the topic's row.
    """
    changed = {column: value for column, value in fields.items() if getattr(before, column) != value}
    if "type" in changed:
        raise Incompatible(
            f"topic {name!r} is a {before.type}, and its type cannot change to {changed['type']}", type=before.type
        )
    if "unique_tags" in changed:
        raise Incompatible(
            f"unique_tags of queue {name!r} is {as_json(before.unique_tags)} and cannot change: create another queue",
            unique_tags=before.unique_tags,
        )
    check_queue_fields(name, before.type, fields)
    if not changed:
        return before
    yield from check_dead_letters(name, changed)
    yield Statement(SEAL if changed.get("sealed") else OUTDATE, ([topic_id],))
    # Expire first by the old ttl: a longer ttl must not bring expired records back.
    while any(expired for (expired,) in (yield Statement(EXPIRE, (now, topic_id)))):
        pass
    columns = {column: getattr(before, column) for column in COLUMNS} | changed
    yield Statement(SAVE, {**columns, "id": topic_id})
    if "ttl_ms" in changed:
        yield Statement(LOOK, (topic_id,))
    after = whole(columns)
    hooks.value.check_config(name, after.discard, after.sealed)
    yield from audit.note_difference("topic", name, as_dict(before), as_dict(after))
    yield Statement(EXPIRE, (now, topic_id))
    if after.discard == Topic.Discard.OLD:
        expired_ts = now - after.ttl_ms if after.ttl_ms else None
        yield Statement(EVICT, (topic_id, after.cap_records, after.cap_bytes, expired_ts))
    return after
