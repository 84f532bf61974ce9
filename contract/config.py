"""The fields of a topic's config, as a client sends it to a server, or to a gateway in front of Kafka."""

from __future__ import annotations

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


class TopicConfig(msgspec.Struct):
    """Any subset of a topic's config."""

    type: TopicType | UnsetType = UNSET
    """Type of the topic: a log, or a queue whose records are jobs. `"log"` for a new topic. Cannot change."""
    ttl_ms: Amount | UnsetType = UNSET
    """Milliseconds after which a record expires, by its `$ts`. A read never shows an expired record. `0` for a new topic:
    records do not expire."""
    cap_records: Amount | UnsetType = UNSET
    """Maximum number of live records. `0` for a new topic: no limit."""
    cap_bytes: Amount | UnsetType = UNSET
    """Maximum bytes of `data` and `meta` of the live records. `0` for a new topic: no limit."""
    discard: Discard | UnsetType = UNSET
    """`old`: a full topic evicts its oldest records. `reject`: a full topic refuses the append (422). `"old"` for a new topic."""
    durability: Durability | UnsetType = UNSET
    """The crashes that an acknowledged append survives. `fsync`: it is on disk. `disk`: it is on disk within 0.6 s. `memory`: a
    crash of PostgreSQL can lose it. `ephemeral`: a restart of the service loses it. `"disk"` for a new topic."""
    durable: bool | UnsetType = UNSET
    """Another way to set `durability`: true is `fsync`, false is `disk`. If both are sent, `durability` wins."""
    priority: Priority | UnsetType | None = UNSET
    """From -1000 to 1000. A value outside is clamped. A reader of several topics gets the topic with the highest priority
    first. `null` for a new topic: the priority depends on its last use."""
    auto_priority: bool | UnsetType = UNSET
    """False: a topic without a `priority` has priority 0. `true` for a new topic."""
    auto_create: bool | UnsetType = UNSET
    """Stored and shown, without effect yet. `true` for a new topic."""
    idempotency_window_ms: Amount | UnsetType = UNSET
    """Milliseconds for which the topic remembers an idempotency key. `120000` for a new topic."""
    dedupe_node: bool | UnsetType = UNSET
    """False: reads of this topic leave out no records by `node`. `true` for a new topic."""
    numbers: Numbers | UnsetType = UNSET
    """`any`: the topic takes every JSON number. `double`: an append with a number beyond the range of a 64-bit double, such as
    `1e400`, is 400. `"any"` for a new topic."""
    lease_ms: LeaseMs | UnsetType = UNSET
    """For queues: milliseconds until a claimed job comes back, if its claim has no `lease_ms`. `30000` for a new topic."""
    claim_jitter_ms: Annotated[int, Meta(ge=0, le=MAX_JITTER_MS)] | UnsetType = UNSET
    """For queues: milliseconds in which claims wait for each other. Then they share the jobs evenly. `0` for a new topic."""
    max_deliveries: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType = UNSET
    """For queues: the most deliveries of a job. Then it moves to `dead_letter`. 0: no limit. `0` for a new topic."""
    dead_letter: NamedTopic | UnsetType | None = UNSET
    """For queues: the topic that gets the jobs after `max_deliveries`, created if absent. Null: they come back. 409
    `dead_letter_cycle` if letters would come back to the queue. `null` for a new topic."""
    leases_durable: bool | UnsetType = UNSET
    """For queues. True: leases survive a crash of PostgreSQL. False: all jobs are then ready again. `false` for a new topic."""
    unique_tags: bool | UnsetType = UNSET
    """For queues. True: the queue takes a job with a tag only if no job of this tag waits or runs. Cannot change. `false` for a
    new topic."""
    sealed: bool | UnsetType = UNSET
    """True: the topic takes no records and no deletes (409 `topic_sealed`). Routers into it wait. `false` for a new topic."""

    def given(self) -> dict[str, Any]:
        """Returns the fields that are set, with `durable` as `durability`."""
        found = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        if (durable := found.pop("durable", None)) is not None:
            found.setdefault("durability", "fsync" if durable else "disk")
        return found
