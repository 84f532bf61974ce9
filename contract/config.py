"""The fields of a topic's config, which a client sends to a server, or to a gateway in front of Kafka."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from contract.names import NamedTopic

Amount = Annotated[int, Meta(ge=0, le=2**62)]
Priority = Annotated[int, Meta(ge=-(2**62), le=2**62)]
TopicType = Annotated[Literal["log", "queue"], Meta(title="TopicType")]
Discard = Annotated[Literal["old", "reject"], Meta(title="Discard")]
Durability = Annotated[Literal["fsync", "disk", "memory", "ephemeral"], Meta(title="Durability")]
Numbers = Annotated[Literal["any", "double"], Meta(title="Numbers")]
MIN_LEASE_MS, MAX_LEASE_MS, MAX_JITTER_MS = 100, 86_400_000, 60_000
LeaseMs = Annotated[int, Meta(ge=MIN_LEASE_MS, le=MAX_LEASE_MS)]


class StoredConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The config of a topic. Each field is declared here, with its value in a new topic, and is a column (topics/models.py).

    Requests, answers, the cache, and the gateway's calls for Kafka derive their fields from these.
    """

    type: TopicType = "log"
    """Type of the topic: a log, or a queue whose records are jobs. Cannot change."""
    ttl_ms: Amount = 0
    """Milliseconds after which a record expires, by its `$ts`. A read never shows an expired record. 0: records do not expire."""
    cap_records: Amount = 0
    """Maximum number of live records. 0: no limit."""
    cap_bytes: Amount = 0
    """Maximum bytes of `data` and `meta` of the live records. 0: no limit."""
    discard: Discard = "old"
    """`old`: a full topic evicts its oldest records. `reject`: a full topic refuses the append (422)."""
    durability: Durability = "disk"
    """The crashes that an acknowledged append survives. `fsync`: it is on disk. `disk`: it is on disk within 0.6 s. `memory`: a
    crash of PostgreSQL can lose it. `ephemeral`: a restart of the service loses it."""
    priority: Priority | None = None
    """From -1000 to 1000. A value outside is clamped. A reader of several topics gets the topic with the highest priority
    first. Null: the priority depends on the topic's last use."""
    auto_priority: bool = True
    """False: a topic without a `priority` has priority 0."""
    auto_create: bool = True
    """Stored and shown, without effect yet."""
    idempotency_window_ms: Amount = 120_000
    """Milliseconds for which the topic remembers an idempotency key."""
    dedupe_node: bool = True
    """False: reads of this topic leave out no records by `node`."""
    numbers: Numbers = "any"
    """`any`: the topic takes every JSON number. `double`: an append with a number beyond the range of a 64-bit double, such as
    `1e400`, is 400."""
    lease_ms: LeaseMs = 30_000
    """For queues: milliseconds until a claimed job comes back, if its claim has no `lease_ms`."""
    claim_jitter_ms: Annotated[int, Meta(ge=0, le=MAX_JITTER_MS)] = 0
    """For queues: milliseconds in which claims wait for each other. Then they share the jobs evenly."""
    max_deliveries: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    """For queues: the most deliveries of a job. Then it moves to `dead_letter`. 0: no limit."""
    dead_letter: NamedTopic | None = None
    """For queues: the topic that gets the jobs after `max_deliveries`, created if absent. Null: they come back. 409
    `dead_letter_cycle` if letters would come back to the queue."""
    leases_durable: bool = False
    """For queues. True: leases survive a crash of PostgreSQL. False: all jobs are then ready again."""
    unique_tags: bool = False
    """For queues. True: the queue takes a job with a tag only if no job of this tag waits or runs. Cannot change."""
    sealed: bool = False
    """True: the topic takes no records and no deletes (409 `topic_sealed`). Routers into it wait."""


DEFAULTS: dict[str, Any] = {field.name: field.default for field in msgspec.structs.fields(StoredConfig)}


def derived(*, optional: bool) -> Any:
    """Returns a struct with the fields of StoredConfig. Each field is optional, or each is required."""
    fields: list[Any] = []
    for each in msgspec.structs.fields(StoredConfig):
        said = Meta(extra_json_schema={"x-stored": f"`{json.dumps(each.default)}` for a new topic."})
        fields.append(
            (each.name, Annotated[each.type | UnsetType, said], UNSET) if optional else (each.name, each.type)
        )
    return msgspec.defstruct("Derived", fields, module=__name__, namespace={"SENTENCES": StoredConfig})


class TopicConfig(derived(optional=True)):  # type: ignore[misc]
    """Any subset of a topic's config. In a new topic, an absent field has its default."""

    durable: bool | UnsetType = UNSET
    """Another way to set `durability`: true is `fsync`, false is `disk`. If both are sent, `durability` wins."""

    def given(self) -> dict[str, Any]:
        """Returns the fields that are set, with `durable` as `durability`."""
        found = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        if (durable := found.pop("durable", None)) is not None:
            found.setdefault("durability", "fsync" if durable else "disk")
        return found
