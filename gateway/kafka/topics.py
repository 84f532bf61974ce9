"""The topics of a Kafka cluster, and their config."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from base.errors import Incompatible, InvalidRequest, TopicNotFound
from base.names import check_topic_name
from gateway.configuration.shapes import KafkaTopicDefaults
from gateway.kafka.client import KafkaClients, absent, outcome, refused
from gateway.kafka.shapes import INERT, TopicSettings

KAFKA_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,248}", re.ASCII)
FRESH_SECONDS = 2.0  # that another gateway's change of a topic can stay unseen
MOST_KNOWN = 10_000
BATCH_BYTES = 8 * 1024 * 1024  # of a topic that is created here: an append is one batch
BATCH_SLACK = 4096  # head of a batch
LONGEST_SEGMENT_MS, LEAST_SEGMENT_MS = 7 * 86_400_000, 60_000
LEAST_SEGMENT_BYTES, LARGEST_SEGMENT_BYTES = 1024 * 1024, 1024 * 1024 * 1024
RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"
FLUSH, UNCLEAN, CLEANUP = "flush.messages", "unclean.leader.election.enable", "cleanup.policy"


@dataclass(frozen=True)
class KafkaTopic:
    """A topic as Kafka had it a moment ago. `id` tells it from another topic of the name. `own`: what is set for it alone."""

    name: str
    id: str
    partitions: int
    configs: Mapping[str, str]
    own: frozenset[str]

    @property
    def ttl_ms(self) -> int:
        return self.retention(RETENTION_MS)

    @property
    def cap_bytes(self) -> int:
        return self.retention(RETENTION_BYTES)

    def retention(self, name: str) -> int:
        return max(int(self.configs.get(name, "-1")), 0) if "delete" in self.configs.get(CLEANUP, "delete") else 0

    @property
    def durability(self) -> str:
        """`fsync`: Kafka writes each batch to the disk before its answer. `memory`: a replica that was not in sync may lead."""
        if FLUSH in self.own and self.configs[FLUSH] == "1":
            return "fsync"
        return "memory" if UNCLEAN in self.own and self.configs[UNCLEAN] == "true" else "disk"

    @property
    def most_bytes(self) -> int:
        return int(self.configs.get("max.message.bytes", "1048588")) - BATCH_SLACK

    @property
    def reason(self) -> str | None:
        """Why the oldest records are lost, as a tombstone says it. None: only a delete removes records."""
        found = [reason for reason, limit in (("ttl", self.ttl_ms), ("cap", self.cap_bytes)) if limit]
        return None if not found else found[0] if len(found) == 1 else "mixed"

    @property
    def shown(self) -> dict[str, Any]:
        durability = self.durability
        own = {"ttl_ms": self.ttl_ms, "cap_bytes": self.cap_bytes, "durability": durability}
        return {**INERT, **own, "durable": durability == "fsync"}


class KafkaTopics:
    """Looks topics up, and creates, changes and deletes them."""

    def __init__(self, clients: KafkaClients, defaults: KafkaTopicDefaults) -> None:
        self.clients, self.defaults = clients, defaults
        self.known: dict[str, tuple[float, KafkaTopic]] = {}

    async def get(self, name: str) -> KafkaTopic:
        """Returns a topic. Raises TopicNotFound, Incompatible for a topic of several partitions."""
        found = await self.find(name)
        if found is None:
            raise absent(name)
        return found

    async def find(self, name: str) -> KafkaTopic | None:
        """Returns a topic or None. Raises Incompatible, InvalidRequest."""
        kept = self.known.get(name)
        if kept is not None and time.monotonic() - kept[0] < FRESH_SECONDS:
            return kept[1]
        check_topic_name(name)
        if not KAFKA_NAME.fullmatch(name):  # Kafka has no topic of such a name
            return None
        found = await self.load(name)
        if found is None:
            self.forget(name)
            return None
        if found.partitions != 1:
            raise Incompatible(
                f"the Kafka topic {name!r} has {found.partitions} partitions, and a topic here has one: use Kafka's clients",
                topic=name,
            )
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        self.known[name] = time.monotonic(), found
        return found

    async def load(self, name: str) -> KafkaTopic | None:
        admin, seconds = self.clients.admin, self.clients.seconds
        resource = ConfigResource(ResourceType.TOPIC, name)
        described = admin.describe_topics(TopicCollection([name]), request_timeout=seconds)[name]
        configs = admin.describe_configs([resource], request_timeout=seconds)[resource]
        try:
            found, entries = await asyncio.gather(outcome(described, name), outcome(configs, name))
        except TopicNotFound:
            return None
        return KafkaTopic(
            name,
            str(found.topic_id),
            len(found.partitions),
            {each.name: each.value for each in entries.values() if each.value is not None},
            frozenset(each.name for each in entries.values() if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value),
        )

    def forget(self, name: str) -> None:
        self.known.pop(name, None)

    async def create(self, name: str, settings: TopicSettings) -> bool:
        """Creates a topic. Returns whether it is new. Raises TopicsError."""
        check_topic_name(name)
        if not KAFKA_NAME.fullmatch(name):
            raise InvalidRequest(f"invalid topic {name[:80]!r}: in Kafka, names have at most 249 of A-Z a-z 0-9 . _ -")
        given = {"ttl_ms": 0, "cap_bytes": 0, "durability": "disk", **settings.given()}
        configs = {
            CLEANUP: "delete",
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(BATCH_BYTES),
            **{key: value for key, value in kafka_configs(given).items() if value is not None},
        }
        if self.defaults.min_insync_replicas is not None:
            configs["min.insync.replicas"] = str(self.defaults.min_insync_replicas)
        topic = NewTopic(name, 1, self.defaults.replication_factor or -1, config=configs)
        self.forget(name)
        try:
            await outcome(self.clients.admin.create_topics([topic], request_timeout=self.clients.seconds)[name], name)
        except Incompatible:  # created at the same time
            return False
        await self.visible(name)
        return True

    async def visible(self, name: str) -> None:
        """Waits until the brokers that are asked know a topic that was created."""
        while await self.find(name) is None:
            await asyncio.sleep(0.02)

    async def change(self, topic: KafkaTopic, settings: TopicSettings) -> KafkaTopic:
        """Changes the fields that differ. Returns the topic as it is then. Raises TopicsError."""
        given = {name: value for name, value in settings.given().items() if topic.shown[name] != value}
        if not given:
            return topic
        entries = [
            ConfigEntry(
                key,
                value,
                incremental_operation=AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE,
            )
            for key, value in kafka_configs(given).items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
        changed = self.clients.admin.incremental_alter_configs([resource], request_timeout=self.clients.seconds)
        await outcome(changed[resource], topic.name)
        while True:  # until the brokers know it
            self.forget(topic.name)
            found = await self.get(topic.name)
            if all(found.shown[name] == value for name, value in given.items()):
                return found
            await asyncio.sleep(0.02)

    async def delete(self, name: str) -> bool:
        """Deletes a topic. Returns whether it existed. Raises TopicsError."""
        if await self.find(name) is None:
            return False
        try:
            await outcome(self.clients.admin.delete_topics([name], request_timeout=self.clients.seconds)[name], name)
        except TopicNotFound:
            return False
        finally:
            self.forget(name)
        while await self.load(name) is not None:
            await asyncio.sleep(0.02)
        return True

    async def names(self) -> list[str]:
        """Returns the names of the topics that calls can name, in order. Topics of several partitions are none."""
        seconds = self.clients.seconds
        try:
            found = await self.clients.run(lambda: self.clients.admin.list_topics(timeout=seconds))
        except KafkaException as error:
            raise refused(error, "") from error
        return sorted(
            name for name, each in found.topics.items() if len(each.partitions) == 1 and KAFKA_NAME.fullmatch(name)
        )


def kafka_configs(given: Mapping[str, Any]) -> dict[str, str | None]:
    """Returns Kafka's configs for fields of a topic's config. None: the default of the brokers.

    Kafka deletes whole segments. So the segments of a topic with a limit are short, and a record stays for about twice the TTL.
    """
    found: dict[str, str | None] = {}
    if "ttl_ms" in given:
        ttl = given["ttl_ms"]
        found[RETENTION_MS] = str(ttl or -1)
        found["segment.ms"] = str(min(max(ttl, LEAST_SEGMENT_MS), LONGEST_SEGMENT_MS)) if ttl else None
    if "cap_bytes" in given:
        cap = given["cap_bytes"]
        found[RETENTION_BYTES] = str(cap or -1)
        found["segment.bytes"] = str(min(max(cap // 8, LEAST_SEGMENT_BYTES), LARGEST_SEGMENT_BYTES)) if cap else None
    if "durability" in given:
        found[FLUSH] = "1" if given["durability"] == "fsync" else None
        found[UNCLEAN] = "true" if given["durability"] == "memory" else None
    return found
