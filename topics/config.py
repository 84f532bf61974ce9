"""A topic's config: what it may say, its defaults, and the one way to create or change a topic.

Rules: docs/wire.md, "Topics".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, Self

import msgspec
from django.db import models
from msgspec import UNSET, Meta, UnsetType

from base.errors import Incompatible, InvalidRequest
from base.names import HIDDEN, check_topic_name
from store.joint import Joined
from store.script import Done, Script, Statement, Whole, atomically
from topics import audit, hooks, limits
from topics.audit import as_json
from topics.cache import CachedTopic, absent, cached, forget, keep, lock_of
from topics.models import Topic, TopicHead
from wire.answer import clamped
from wire.keys import Key
from wire.parse import Request
from wire.schema import Clamped

Amount = Annotated[int, Meta(ge=0, le=2**62)]
Priority = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Durability = Literal["fsync", "disk", "memory", "ephemeral"]
MAX_PRIORITY = 1000
QUEUES_ONLY = frozenset(("lease_ms", "claim_jitter_ms", "max_deliveries", "dead_letter", "leases_durable"))


class Config(Request):
    """Any subset of a topic's config, as a client writes it."""

    type: Literal["log", "queue"] | UnsetType = UNSET
    """What the topic is: `log`; `"log"` for a new topic. Cannot change."""
    ttl_ms: Amount | UnsetType = UNSET
    """Milliseconds after which a record, by its `$ts`, is no longer shown, exact when read; `0` for a new topic:
    never."""
    cap_records: Amount | UnsetType = UNSET
    """The most records that are kept; `0` for a new topic: any number."""
    cap_bytes: Amount | UnsetType = UNSET
    """The most bytes of `data` and `meta` that are kept; `0` for a new topic: any number."""
    discard: Literal["old", "reject"] | UnsetType = UNSET
    """What a full topic does: `old` evicts its oldest records, `reject` refuses the append (422); `"old"` for a new
    topic."""
    durability: Durability | UnsetType = UNSET
    """What an ack promises. `fsync`: it is on disk. `disk`: it is on disk within 0.6 s. `memory`: it may be lost
    when PostgreSQL crashes. `ephemeral`: it is lost when the service restarts. `"disk"` for a new topic."""
    durable: bool | UnsetType = UNSET
    """Another way to say `durability`, which wins: true is `fsync`, false is `disk`."""
    priority: Priority | UnsetType | None = UNSET
    """From -1000 to 1000, what is beyond counts as these: who comes first where one reader has several topics;
    `null` for a new topic: by how recently it was used."""
    auto_priority: bool | UnsetType = UNSET
    """False: without a `priority` the topic has 0; `true` for a new topic."""
    auto_create: bool | UnsetType = UNSET
    """Kept and shown; does nothing yet; `true` for a new topic."""
    idempotency_window_ms: Amount | UnsetType = UNSET
    """Milliseconds for which an idempotency key is remembered; `120000` for a new topic."""
    dedupe_node: bool | UnsetType = UNSET
    """False: reads leave no node out here; `true` for a new topic."""
    lease_ms: Amount | UnsetType = UNSET
    """For queues, in milliseconds: kept and shown, does nothing yet; `30000` for a new topic."""
    claim_jitter_ms: Amount | UnsetType = UNSET
    """For queues, in milliseconds: kept and shown, does nothing yet; `0` for a new topic."""
    max_deliveries: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType = UNSET
    """For queues: kept and shown, does nothing yet; `0` for a new topic."""
    dead_letter: str | UnsetType | None = UNSET
    """For queues, a topic's name: kept and shown, does nothing yet; `null` for a new topic."""
    leases_durable: bool | UnsetType = UNSET
    """For queues: kept and shown, does nothing yet; `false` for a new topic."""
    sealed: bool | UnsetType = UNSET
    """True: the topic takes no records and no deletes (409 `topic_sealed`). Routers into it wait. `false` for a new topic."""

    def check_names(self, key: Key) -> None:
        """Raises Forbidden when it names a topic outside the key's prefixes."""
        if isinstance(self.dead_letter, str):
            key.check_name(self.dead_letter)

    def clamped(self) -> Clamped:
        """What is kept in place of what it says."""
        return (
            clamped(priority=(self.priority, within_bounds(self.priority))) if isinstance(self.priority, int) else UNSET
        )

    def fields(self) -> dict[str, Any]:
        """Column values for what is set. Raises InvalidRequest."""
        given = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        if (durable := given.pop("durable", None)) is not None:
            given.setdefault("durability", "fsync" if durable else "disk")
        if given.get("priority") is not None:
            given["priority"] = within_bounds(given["priority"])
        for name in QUEUES_ONLY & given.keys():
            # What a client was shown it may send back; anything else would be kept, and do nothing.
            if given[name] != TOPIC[name]:
                raise InvalidRequest(f"{name} is for queues, and there are none yet: leave it out", field=name)
        return given


def within_bounds(priority: int) -> int:
    return max(-MAX_PRIORITY, min(MAX_PRIORITY, priority))


class WholeConfig(msgspec.Struct):
    """The whole config of a topic, as answers show it."""

    type: Literal["log", "queue"]
    """What the topic is."""
    ttl_ms: int
    """Milliseconds after which a record is no longer shown; 0: never."""
    cap_records: int
    """The most records that are kept; 0: any number."""
    cap_bytes: int
    """The most bytes of `data` and `meta` that are kept; 0: any number."""
    discard: Literal["old", "reject"]
    """What a full topic does: evict its oldest records, or refuse the append."""
    durability: Durability
    """What an ack promises."""
    durable: bool
    """Whether `durability` is `fsync`."""
    priority: int | None
    """From -1000 to 1000; null: by how recently the topic was used."""
    auto_priority: bool
    """False: without a `priority` the topic has 0."""
    auto_create: bool
    """Does nothing yet."""
    idempotency_window_ms: int
    """Milliseconds for which an idempotency key is remembered."""
    dedupe_node: bool
    """False: reads leave no node out here."""
    lease_ms: int
    """For queues, in milliseconds: does nothing yet."""
    claim_jitter_ms: int
    """For queues, in milliseconds: does nothing yet."""
    max_deliveries: int
    """For queues: does nothing yet."""
    dead_letter: str | None
    """For queues, a topic's name: does nothing yet."""
    leases_durable: bool
    """For queues: does nothing yet."""
    sealed: bool
    """True: the topic takes no records and no deletes."""

    def seen_by(self, key: Key) -> WholeConfig:
        """With "*" for a name that the key may not see."""
        if self.dead_letter is None or key.allows(self.dead_letter):
            return self
        return msgspec.structs.replace(self, dead_letter=HIDDEN)


COLUMNS = tuple(name for name in Config.__struct_fields__ if name != "durable")


def whole(columns: dict[str, Any]) -> WholeConfig:
    return WholeConfig(**columns, durable=columns["durability"] == Topic.Durability.FSYNC)


def stored(values: Sequence[Any]) -> WholeConfig:
    """The config that a row's COLUMNS hold, in their order."""
    return whole(dict(zip(COLUMNS, values, strict=True)))


@lru_cache(1000)
def remembered(topic: CachedTopic) -> WholeConfig:
    """The config of a topic as of the version that it is remembered by."""
    return whole({column: getattr(topic, column) for column in COLUMNS})


def as_dict(config: WholeConfig) -> dict[str, Any]:
    """As the audit log shows it."""
    state: dict[str, Any] = msgspec.to_builtins(config)
    return state


def defaults(model: type[models.Model]) -> dict[str, Any]:
    """Each column that has one, with its default: PostgreSQL knows few of them."""
    fields = [field for field in model._meta.concrete_fields if field.has_default() or field.null]
    return {field.column: field.get_default() for field in fields if not field.primary_key}


def literal(value: str | int | bool | None) -> str:
    """A default as SQL."""
    return "NULL" if value is None else f"'{value}'"


TOPIC, HEAD = defaults(Topic), defaults(TopicHead)
# A new head, as SQL. `last_head` is the last head of the name: numbering continues there.
NEW_HEAD = {column: str(default) for column, default in HEAD.items()} | dict.fromkeys(
    ("head_seq", "floor_seq", "reserved_seq", "recreated_seq"), "last_head"
)


def begun(column: str) -> str:
    """What a topic has in a column to begin with: what was asked for, else the default."""
    default = literal(TOPIC[column])
    return column if default == "NULL" else f"coalesce({column}, {default})"


# Topics, but for those whose name is taken: of these no row comes back. Who only looks takes no id, and each name is looked up by
# itself: a join might read all topics to find that a few are new. In order of name, so that two of these that make the same
# topics wait for each other in turn.
MAKE = """
    INSERT INTO topics_topic (name, created_ts, {columns})
    SELECT name, {created_ts}, {values}
      FROM {asked} AS asked
     WHERE (SELECT known.id FROM topics_topic known WHERE known.name = asked.name) IS NULL
     ORDER BY name
    ON CONFLICT (name) DO NOTHING
    RETURNING *"""
MAKE_CONFIGURED = MAKE.format(
    columns=", ".join(TOPIC),
    created_ts="created_ts",
    values=", ".join(map(begun, TOPIC)),
    asked="json_populate_recordset(NULL::topics_topic, %(topics)s::json)",
)
# With their heads. `entries` are the audit log's, which shows the config as as_dict() does. `made` has a row only after the name
# is taken, so the last head that topic_last_head then finds is final.
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


class Creation(Joined[int | None]):
    """A topic with these columns, known on disk. The answer is its id; None: one of this name was there first."""

    def __init__(self, name: str, fields: dict[str, Any], now: int, *, noted: bool) -> None:
        self.name, self.topic = name, {"name": name, "created_ts": now, **fields}
        self.entries = [audit.entry("create", "topic", name)] if noted else []

    @property
    def lock(self) -> str:
        return self.name

    @classmethod
    def chosen(cls, batch: Sequence[Self]) -> list[Self]:
        """The first of each name."""
        first = {each.name: each for each in reversed(batch)}
        return list(first.values())

    @classmethod
    def transaction(cls, batch: Sequence[Self]) -> Whole:
        return Whole([creating(batch)])

    @classmethod
    def outcomes(cls, batch: Sequence[Self], done: Done, started: float) -> list[int | None]:
        made: dict[str, int] = dict(done.rows[0])
        return [made.get(each.name) for each in batch]


def creating(batch: Sequence[Creation]) -> Statement:
    """Makes topics of different names."""
    topics, entries = [each.topic for each in batch], [entry for each in batch for entry in each.entries]
    return Statement(CREATE, {"topics": as_json(topics), "entries": as_json(entries)})


def create_topic(name: str, fields: dict[str, Any], now: int, *, noted: bool) -> Script[bool]:
    """A topic with these columns, known on disk. False: one of this name was there first. `noted`: in the audit log.

    Raises Throttled or InvalidRequest.
    """
    yield from check_new(name, fields)
    made = yield Creation(name, fields, now, noted=noted)
    if made is not None:
        keep(new_topic(made, name, fields, now))
    return made is not None


def insert_topic(name: str, fields: dict[str, Any], now: int) -> Script[CachedTopic | None]:
    """The same, in the transaction of the caller and not in the audit log. Returns the topic, and None where one of this name was
    there first. Nobody remembers it yet: the transaction may be undone."""
    yield from check_new(name, fields)
    made = yield creating([Creation(name, fields, now, noted=False)])
    return new_topic(made[0][1], name, fields, now) if made else None


def check_new(name: str, fields: dict[str, Any]) -> Script[None]:
    """Raises Throttled or InvalidRequest where there may be no new topic with these columns."""
    check_topic_name(name)
    check_type(fields)
    hooks.check_config(name, fields.get("discard", TOPIC["discard"]), fields.get("sealed", False))
    yield from limits.check_topics(name)


def new_topic(id: int, name: str, fields: dict[str, Any], now: int) -> CachedTopic:
    """What there is to remember of a topic that was made with these columns at this time."""
    return CachedTopic(
        id=id, name=name, version=HEAD["version"], routed=False, derived=False, created_ts=now, **(TOPIC | fields)
    )


def check_type(fields: dict[str, Any]) -> None:
    """Raises InvalidRequest for a topic that nobody could use."""
    if fields.get("type") == Topic.Type.QUEUE:
        raise InvalidRequest('there are no queues yet: leave out type "queue"', field="type")


def configured(fields: dict[str, Any]) -> WholeConfig:
    """The config of a new topic with these columns."""
    return whole({column: fields.get(column, TOPIC[column]) for column in COLUMNS})


# Not FOR UPDATE: who makes a cursor, which refers to this row, need not wait.
LOCK_CONFIG = f"SELECT id, {', '.join(COLUMNS)} FROM topics_topic WHERE name = %s FOR NO KEY UPDATE"
# Takes the head's lock. From the commit on whoever remembers the old config gets no row and looks again (cache.py).
OUTDATE = "UPDATE topics_topichead SET version = version + 1 WHERE topic_id = %s"
# A sealed topic needs no seqs in reserve, and a crash would move its head over them. This commit waits for the disk, and so for
# every append before it. The seqs are given back as those of a topic at rest are (upkeep/retention.py).
SEAL = "UPDATE topics_topichead SET version = version + 1, reserved_seq = head_seq WHERE topic_id = %s"
SAVE = f"UPDATE topics_topic SET {', '.join(f'{column} = %({column})s' for column in COLUMNS)} WHERE id = %(id)s"
EXPIRE = "SELECT topic_expire(id, %s - ttl_ms) FROM topics_topic WHERE id = %s AND ttl_ms > 0"
EVICT = "SELECT topic_evict(%s, %s, %s)"


class Put(NamedTuple):
    """A topic's config after a PUT, and whether the topic is new."""

    config: WholeConfig
    created: bool


def put_topic(name: str, config: Config, now: int, *, create: bool = True) -> Script[Put]:
    """Create the topic or change what differs. Raises Incompatible, InvalidRequest or Throttled: nothing changed. Raises
    TopicNotFound where there is none and `create` is false."""
    fields = config.fields()
    check_topic_name(name)
    # A client that asks for a queue is told first if a log has the name.
    may_create = create and fields.get("type") != Topic.Type.QUEUE
    while True:
        if may_create and cached(name) is None and (yield from create_topic(name, fields, now, noted=True)):
            return Put(configured(fields), True)
        after = yield from atomically(change_once(name, fields, now), lock_of(name))
        forget(name)
        if after is not None:
            return Put(after, False)
        if not create:
            raise absent(name)
        check_type(fields)


def change_once(name: str, fields: dict[str, Any], now: int) -> Script[WholeConfig | None]:
    """The topic's config with what differs changed. None: there is no such topic."""
    found = yield Statement(LOCK_CONFIG, (name,))
    if not found:
        return None
    topic_id, *values = found[0]
    return (yield from change_topic(topic_id, name, stored(values), fields, now))


def change_topic(
    topic_id: int, name: str, before: WholeConfig, fields: dict[str, Any], now: int
) -> Script[WholeConfig]:
    """Save what differs. The caller holds the topic's row in a transaction. Raises Incompatible or InvalidRequest."""
    changed = {column: value for column, value in fields.items() if getattr(before, column) != value}
    if "type" in changed:
        raise Incompatible(f"{name!r} is a {before.type} and cannot become a {changed['type']}", type=before.type)
    if not changed:
        return before
    yield Statement(SEAL if changed.get("sealed") else OUTDATE, (topic_id,))
    # What was over its time is gone: a longer time must not bring it back, nor a cap count it.
    yield Statement(EXPIRE, (now, topic_id))
    columns = {column: getattr(before, column) for column in COLUMNS} | changed
    yield Statement(SAVE, {**columns, "id": topic_id})
    after = whole(columns)
    hooks.check_config(name, after.discard, after.sealed)
    yield from audit.note_difference("topic", name, as_dict(before), as_dict(after))
    yield Statement(EXPIRE, (now, topic_id))
    if after.discard == Topic.Discard.OLD:
        yield Statement(EVICT, (topic_id, after.cap_records, after.cap_bytes))
    return after
