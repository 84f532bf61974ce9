"""A topic's config: what it may say, its defaults, and the one way to create or change a topic.

Rules: contract.md section 2.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from django.db import connection, transaction
from django.db.models import F
from msgspec import UNSET, Meta, UnsetType

from base.errors import Incompatible
from base.names import HIDDEN, check_topic_name
from topics import audit
from topics.cache import forget
from topics.models import Topic, TopicHead
from wire.keys import Key
from wire.limits import check_topics

Amount = Annotated[int, Meta(ge=0, le=2**62)]
Priority = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Durability = Literal["fsync", "disk", "memory", "ephemeral"]
MAX_PRIORITY = 1000


class Config(msgspec.Struct):
    """Any subset of a topic's config, as a client writes it."""

    type: Literal["log", "queue"] | UnsetType = UNSET
    ttl_ms: Amount | UnsetType = UNSET
    cap_records: Amount | UnsetType = UNSET
    cap_bytes: Amount | UnsetType = UNSET
    discard: Literal["old", "reject"] | UnsetType = UNSET
    durability: Durability | UnsetType = UNSET
    durable: bool | UnsetType = UNSET
    priority: Priority | UnsetType | None = UNSET
    auto_priority: bool | UnsetType = UNSET
    auto_create: bool | UnsetType = UNSET
    idempotency_window_ms: Amount | UnsetType = UNSET
    dedupe_node: bool | UnsetType = UNSET
    lease_ms: Amount | UnsetType = UNSET
    claim_jitter_ms: Amount | UnsetType = UNSET
    max_deliveries: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType = UNSET
    dead_letter: str | UnsetType | None = UNSET
    leases_durable: bool | UnsetType = UNSET

    def check_names(self, key: Key) -> None:
        """Raises Forbidden when it names a topic outside the key's prefixes."""
        if isinstance(self.dead_letter, str):
            key.check_name(self.dead_letter)

    def fields(self) -> dict[str, Any]:
        """Column values for what is set. Raises InvalidRequest."""
        given = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        if (durable := given.pop("durable", None)) is not None:
            given.setdefault("durability", "fsync" if durable else "disk")
        if given.get("priority") is not None:
            given["priority"] = max(-MAX_PRIORITY, min(MAX_PRIORITY, given["priority"]))
        if given.get("dead_letter") is not None:
            check_topic_name(given["dead_letter"], "dead_letter")
        return given


class WholeConfig(msgspec.Struct):
    """The whole config of a topic, as answers show it."""

    type: Literal["log", "queue"]
    ttl_ms: int
    cap_records: int
    cap_bytes: int
    discard: Literal["old", "reject"]
    durability: Durability
    durable: bool
    priority: int | None
    auto_priority: bool
    auto_create: bool
    idempotency_window_ms: int
    dedupe_node: bool
    lease_ms: int
    claim_jitter_ms: int
    max_deliveries: int
    dead_letter: str | None
    leases_durable: bool

    def seen_by(self, key: Key) -> WholeConfig:
        """With "*" for a name that the key may not see."""
        if self.dead_letter is None or key.allows(self.dead_letter):
            return self
        return msgspec.structs.replace(self, dead_letter=HIDDEN)


COLUMNS = tuple(name for name in Config.__struct_fields__ if name != "durable")


def config_of(topic: Topic) -> WholeConfig:
    return whole({name: getattr(topic, name) for name in COLUMNS})


def whole(columns: dict[str, Any]) -> WholeConfig:
    return WholeConfig(**columns, durable=columns["durability"] == Topic.Durability.FSYNC)


def create_topic(name: str, config: Config | None, now: int) -> bool:
    """Create a topic with this config (None: all defaults). False: another was first."""
    return insert_topic(name, config.fields() if config else {}, now)


INSERT_TOPIC = """
INSERT INTO topics_topic ({columns}) VALUES ({values}) ON CONFLICT (name) DO NOTHING RETURNING id
"""


def insert_topic(name: str, fields: dict[str, Any], now: int) -> bool:
    """False: a topic of this name was there first."""
    check_topic_name(name)
    check_topics()
    topic = Topic(name=name, created_ts=now, **fields)
    columns = [field.column for field in Topic._meta.concrete_fields if not field.primary_key]
    insert = INSERT_TOPIC.format(columns=", ".join(columns), values=", ".join(["%s"] * len(columns)))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(insert, [getattr(topic, column) for column in columns])
        row = cursor.fetchone()
        if row is not None:
            TopicHead.objects.create(topic_id=row[0])
    return row is not None


def put_topic(name: str, config: Config, now: int) -> tuple[Topic, bool]:
    """Create the topic or change what differs; answers it and whether it is new.

    Raises Incompatible, InvalidRequest or Throttled.
    """
    fields = config.fields()
    check_topic_name(name)
    with transaction.atomic():
        if not Topic.objects.filter(name=name).exists() and insert_topic(name, fields, now):
            made = Topic.objects.get(name=name)
            audit.note("create", "topic", name, after=msgspec.to_builtins(config_of(made)))
            return made, True
        # Not FOR UPDATE: an append that holds the head may yet have to see this row (its idempotency key refers to it).
        topic = Topic.objects.select_for_update(no_key=True).filter(name=name).first()
        if topic is not None:
            change_topic(topic, fields, now)
            return topic, False
    return put_topic(name, config, now)  # deleted since we looked


EXPIRE = "SELECT topic_expire(id, %s - ttl_ms) FROM topics_topic WHERE id = %s AND ttl_ms > 0"


def change_topic(topic: Topic, fields: dict[str, Any], now: int) -> None:
    """Save what differs. The caller holds the topic's row in a transaction."""
    changed = {name: value for name, value in fields.items() if getattr(topic, name) != value}
    if "type" in changed:
        raise Incompatible(f"{topic.name!r} is a {topic.type} and cannot become a {changed['type']}", type=topic.type)
    if not changed:
        return
    # Takes the head's lock. From the commit on whoever remembers the old config gets no row and looks again (known.py).
    TopicHead.objects.filter(pk=topic.pk).update(version=F("version") + 1)
    with connection.cursor() as cursor:
        # What was over its time is gone: a longer time must not bring it back, nor a cap count it.
        cursor.execute(EXPIRE, [now, topic.pk])
        before = msgspec.to_builtins(config_of(topic))
        for name, value in changed.items():
            setattr(topic, name, value)
        topic.save(update_fields=list(changed))
        audit.note_difference("topic", topic.name, before, msgspec.to_builtins(config_of(topic)))
        cursor.execute(EXPIRE, [now, topic.pk])
        if topic.discard == Topic.Discard.OLD:
            cursor.execute("SELECT topic_evict(%s, %s, %s)", [topic.pk, topic.cap_records, topic.cap_bytes])
    transaction.on_commit(lambda: forget(topic.name))
