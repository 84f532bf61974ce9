"""The topics and routers of a run, and the content of a record.

Each record names the topic it was written to and its place in its append, so that a copy tells where it is from, and
half an append tells that it is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

KEEP, DROP = "keep", "drop"  # the tags: some routers want the first, some deletes the second
BY_TAG, BY_CONSUMER = "by seq and tag", "by a consumer"  # who has records deleted
NODES = ("left", "right")
# Longer than any step of the clock: a key that is forgotten makes no resend safe.
LONG_WINDOW = {"idempotency_window_ms": 7 * 24 * 3_600_000}
DURABILITIES = ("fsync", "disk", "memory", "ephemeral")


@dataclass(frozen=True)
class Topic:
    """`written`: how the load appends to it: plain, keyed (with an idempotency key), fenced (with an expected head), by emit,
    or not at all. `deleted`: who has its records deleted, if anybody.
    """

    name: str
    durability: str = "disk"
    written: str = ""
    deleted: str = ""
    ttl_ms: int = 0
    cap_records: int = 0
    discard: str = "old"

    @property
    def config(self) -> dict[str, Any]:
        limits = {"ttl_ms": self.ttl_ms, "cap_records": self.cap_records, "discard": self.discard}
        return {"durability": self.durability, **LONG_WINDOW, **limits}

    @property
    def whole(self) -> bool:
        """Whether every record stays until a crash takes it."""
        return not (self.deleted or self.ttl_ms or self.cap_records)


@dataclass(frozen=True)
class Router:
    name: str
    source: str
    dest: str
    tag: str = ""  # it forwards what has this tag only
    once: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        match = {"filter": ["tag", "Eq", self.tag]} if self.tag else {}
        once = {"guarantee": "exactly_once"} if self.once else {}
        return {"source": self.source, "dest": self.dest, "from": "earliest", **match, **once, **self.options}


@dataclass(frozen=True)
class Topology:
    topics: dict[str, Topic]
    routers: list[Router]

    def into(self, dest: str) -> list[Router]:
        return [router for router in self.routers if router.dest == dest]

    def origins(self, topic: str, seen: frozenset[str] = frozenset()) -> set[str]:
        """The topics whose writers' records may be in this one."""
        if topic in seen:
            return set()
        found = {topic} if self.topics[topic].written else set()
        for router in self.into(topic):
            found |= self.origins(router.source, seen | {topic})
        return found

    def logged(self, topic: str) -> bool:
        """Whether none of its records is volatile."""
        return not any(self.topics[origin].durability in ("memory", "ephemeral") for origin in self.origins(topic))


FAN_IN = {"allow_fan_in": True}
CYCLE = {"allow_cycle": True}

TOPICS = [
    *(Topic(durability, durability, written="plain") for durability in DURABILITIES),
    Topic("keyed.fsync", "fsync", written="keyed"),
    Topic("keyed.disk", written="keyed"),
    Topic("fenced", "fsync", written="fenced"),
    Topic("socket", "fsync", written="socket"),
    Topic("emitted", "fsync", written="emit"),
    Topic("emitted.disk", written="emit"),
    Topic("trimmed", written="plain", deleted=BY_TAG),
    Topic("capped", written="plain", cap_records=200),
    Topic("aging", written="plain", ttl_ms=15_000),
    Topic("mirror.a", written="plain"),
    Topic("mirror.b", written="plain"),
    Topic("chain.1"),
    Topic("chain.2"),
    Topic("once", "fsync"),
    Topic("kept"),
    Topic("copy.memory"),
    Topic("copy.ephemeral"),
    Topic("copy.capped"),
    Topic("fan"),
    Topic("latest", cap_records=100),
    Topic("inbox", deleted=BY_CONSUMER, cap_records=150, discard="reject"),
    # Healing is tried on these. Nobody reads the watched one but streams, so that it shows a worker's forwards.
    *(Topic(f"probe.{durability}", durability, written="probe") for durability in DURABILITIES),
    Topic("probe.watched"),
    Topic("probe.read"),
]
ROUTERS = [
    Router("chain.1", "fsync", "chain.1"),
    Router("chain.2", "chain.1", "chain.2"),
    Router("once", "fsync", "once", once=True),
    Router("kept", "disk", "kept", tag=KEEP),
    Router("copy.memory", "memory", "copy.memory"),
    Router("copy.ephemeral", "ephemeral", "copy.ephemeral"),
    Router("copy.capped", "capped", "copy.capped"),
    Router("mirror.ab", "mirror.a", "mirror.b", options=CYCLE),
    Router("mirror.ba", "mirror.b", "mirror.a", options=CYCLE),
    Router("fan.disk", "disk", "fan", options=FAN_IN),
    Router("fan.keyed.fsync", "keyed.fsync", "fan", options=FAN_IN),
    Router("fan.keyed.disk", "keyed.disk", "fan", options=FAN_IN),
    Router("latest", "fsync", "latest"),
    Router("inbox", "keyed.fsync", "inbox"),
    Router("probe.watched", "probe.disk", "probe.watched"),
    Router("probe.read", "probe.disk", "probe.read"),
]
TOPOLOGY = Topology({topic.name: topic for topic in TOPICS}, ROUTERS)


class Written(NamedTuple):
    """The content of a record: `place` of the `size` records of an append, the `number`th of a writer."""

    topic: str
    writer: str
    number: int
    place: int
    size: int
    tag: str
    node: str

    def data(self, padding: str = "") -> str:
        return "/".join(map(str, [*self, padding]))


def written(data: str) -> Written:
    topic, writer, number, place, size, tag, node, _ = data.split("/")
    return Written(topic, writer, int(number), int(place), int(size), tag, node)
