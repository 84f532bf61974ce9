"""Named cursors: the committed offsets of the Kafka group of the same name. So Kafka's tools show their lag.

A committed offset is that of the next message, which is the seq of the last record that was read.
"""

from __future__ import annotations

import asyncio
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from base.clock import now_ms
from base.errors import AboveHead, Incompatible, NotFound
from base.names import TOPIC_NAME, check_topic_name
from contract.cursors import CursorFields
from gateway.errors import NotSupported
from gateway.kafka.client import KafkaClients, outcome, refused
from gateway.kafka.pages import TopicPages
from gateway.kafka.shapes import TagMatch
from gateway.kafka.topics import KafkaTopic

HELD_GROUP = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.REBALANCE_IN_PROGRESS)
MOST_AT_ONCE = 50  # groups that are asked at the same time for a list


class KafkaCursors:
    """Reads and moves the cursors of topics."""

    def __init__(self, clients: KafkaClients, pages: TopicPages) -> None:
        self.clients, self.pages = clients, pages

    async def committed(self, cursor: str, topic: str | None) -> list[TopicPartition]:
        """Returns the committed offsets of a group: of a topic, or of all topics. Raises TopicsError."""
        places = None if topic is None else [TopicPartition(topic, 0)]
        wanted = ConsumerGroupTopicPartitions(cursor, places)
        asked = self.clients.admin.list_consumer_group_offsets([wanted], request_timeout=self.clients.seconds)
        try:
            found = await asyncio.wrap_future(asked[cursor])
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            raise refused(error, topic or "") from error
        return [each for each in found.topic_partitions or [] if each.error is None and each.offset >= 0]

    async def get(self, topic: str, cursor: str) -> dict[str, Any]:
        """Returns a cursor as the wire shows it. Raises NotFound."""
        check_topic_name(cursor, "cursor")
        await self.pages.topics.get(topic)
        found = await self.find(topic, cursor)
        if found is None:
            raise NotFound(f"the topic {topic!r} has no cursor {cursor!r}")
        return found

    async def find(self, topic: str, cursor: str) -> dict[str, Any] | None:
        places = await self.committed(cursor, topic)
        if not places:
            return None
        seq, told = places[0].offset, places[0].metadata or ""
        known = await self.pages.topics.get(topic)
        page = await self.pages.after(known, seq, 1, TagMatch(None, None))
        return {
            "topic": topic,
            "cursor": cursor,
            "kind": "named",
            "seq": seq,
            "lag": max(page.extent.head_seq - seq, 0),
            "oldest_unread_ms": max(now_ms() - page.records[0].ts, 0) if page.records else None,
            "updated_ts": int(told) if told.isascii() and told.isdigit() else 0,
        }

    async def put(self, topic: str, cursor: str, place: CursorFields) -> tuple[dict[str, Any], bool]:
        """Moves a cursor. Returns it, and whether it is new. Raises TopicsError."""
        check_topic_name(cursor, "cursor")
        known = await self.pages.topics.get(topic)
        seq = await self.place(known, place)
        created = not await self.committed(cursor, topic)
        moved = TopicPartition(topic, 0, seq, metadata=str(now_ms()))
        wanted = ConsumerGroupTopicPartitions(cursor, [moved])
        asked = self.clients.admin.alter_consumer_group_offsets([wanted], request_timeout=self.clients.seconds)
        try:
            done = await asyncio.wrap_future(asked[cursor])
            failed = next((each.error for each in done.topic_partitions or [] if each.error is not None), None)
            if failed is not None:
                raise KafkaException(failed)
        except KafkaException as error:
            raise self.held(cursor, topic, error) from error
        found = await self.find(topic, cursor)
        if found is None:
            raise NotFound(f"the topic {topic!r} has no cursor {cursor!r} any more")
        return found, created

    async def place(self, topic: KafkaTopic, place: CursorFields) -> int:
        """Returns the seq that a cursor is to have. Raises InvalidRequest, NotSupported."""
        if place.expected_seq is not None:
            raise NotSupported(
                "expected_seq: Kafka commits without a look: let one reader move the cursor", field="expected_seq"
            )
        place.check()
        if place.from_ts is not None:
            return await self.pages.seq_before(topic.name, place.from_ts)
        extent = await self.pages.extent(topic.name)
        if place.seq is None:
            return extent.head_seq if place.at == "head" else extent.low
        if place.seq > extent.head_seq:
            raise AboveHead.of(seq=place.seq, head_seq=extent.head_seq)
        return place.seq

    def held(self, cursor: str, topic: str, error: KafkaException) -> Exception:
        if error.args[0].code() in HELD_GROUP:
            return Incompatible(
                f"the Kafka group {cursor!r} has members, which move it: stop them, or use another cursor"
            )
        return refused(error, topic)

    async def delete(self, topic: str, cursor: str) -> bool:
        """Deletes a cursor, which is the whole group. Returns whether it existed. Raises TopicsError."""
        check_topic_name(cursor, "cursor")
        await self.pages.topics.get(topic)
        places = await self.committed(cursor, None)
        if not any(each.topic == topic for each in places):
            return False
        if any(each.topic != topic or each.partition for each in places):
            raise NotSupported(
                f"the Kafka group {cursor!r} has positions in other topics, too: delete them with kafka-consumer-groups"
            )
        try:
            asked = self.clients.admin.delete_consumer_groups([cursor], request_timeout=self.clients.seconds)
            await asyncio.wrap_future(asked[cursor])
        except KafkaException as error:
            raise self.held(cursor, topic, error) from error
        return True

    async def names(self, topic: str) -> list[str]:
        """Returns the names of the cursors of a topic, in order. It asks Kafka for each group."""
        await self.pages.topics.get(topic)
        listed = await outcome(self.clients.admin.list_consumer_groups(request_timeout=self.clients.seconds))
        groups = sorted(each.group_id for each in listed.valid if TOPIC_NAME.fullmatch(each.group_id))
        found: list[str] = []
        for begin in range(0, len(groups), MOST_AT_ONCE):
            part = groups[begin : begin + MOST_AT_ONCE]
            places = await asyncio.gather(*(self.committed(each, topic) for each in part))
            found += [name for name, held in zip(part, places, strict=True) if held]
        return found
