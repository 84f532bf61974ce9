"""Topics: put, get, list, delete (contract.md section 2). A POST to a topic appends: records.py."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta
from rest_framework.request import Request
from rest_framework.response import Response

from base.clock import now_ms
from base.names import check_topic_name
from topics import recency
from topics.api.records import Appending
from topics.api.shapes import DeleteTopicAnswer, ListedTopic, PutTopicAnswer, TopicAnswer, TopicsAnswer
from topics.config import Config, config_of, put_topic
from topics.delete import delete_topic
from topics.describe import State, held, page_of_topics
from wire.endpoint import Endpoint
from wire.paging import PageQuery, next_cursor
from wire.schema import operation


class TopicQuery(msgspec.Struct):
    touch: Annotated[bool, Meta(description="false: this call does not count as a read")] = True


class DeleteTopicQuery(msgspec.Struct):
    if_empty: bool = False


class OneTopic(Appending):
    """/v0/topics/:topic"""

    @operation("put_topic", body=Config, answers={200: PutTopicAnswer, 201: PutTopicAnswer}, errors=(409,))
    def put(self, request: Request, topic: str) -> Response:
        """Create a topic, or change its config."""
        self.check(topic, "admin")
        wanted = self.body(Config)
        wanted.check_names(self.key)
        put, created = put_topic(topic, wanted, now_ms())
        config = config_of(put).seen_by(self.key)
        answer = PutTopicAnswer(topic=topic, created=created, config=config, performance=self.performance())
        return self.answer(answer, status=201 if created else 200)

    @operation("get_topic", query=TopicQuery, answers={200: TopicAnswer})
    def get(self, request: Request, topic: str) -> Response:
        """What a topic holds, and its config."""
        self.check(topic, "read")
        touch = self.query(TopicQuery).touch
        now = now_ms()
        found, config = held(topic, now)
        if touch:
            recency.note(found.id, now)
        return self.answer(
            TopicAnswer(
                topic=topic,
                type=config.type,
                head_seq=found.head_seq,
                earliest_seq=found.earliest_seq,
                next_seq=found.head_seq + 1,
                count=found.records,
                bytes=found.bytes,
                config=config.seen_by(self.key),
                effective_priority=found.effective_priority,
                last_write_ts=found.last_write_ts or None,
                last_read_ts=found.last_read_ts or None,
                performance=self.performance(),
            )
        )

    @operation("delete_topic", query=DeleteTopicQuery, answers={200: DeleteTopicAnswer}, errors=(409,))
    def delete(self, request: Request, topic: str) -> Response:
        """Delete a topic, what it holds, and every router that names it."""
        self.check(topic, "delete")
        if_empty = self.query(DeleteTopicQuery).if_empty
        deleted, removed = delete_topic(check_topic_name(topic), if_empty, now_ms(), self.key)
        answer = DeleteTopicAnswer(
            topic=topic, deleted=deleted, routers_removed=removed, performance=self.performance()
        )
        return self.answer(answer)


class ListQuery(PageQuery):
    prefix: str = ""


class TopicList(Endpoint):
    """GET /v0/topics."""

    @operation("list_topics", query=ListQuery, answers={200: TopicsAnswer})
    def get(self, request: Request) -> Response:
        """Topics by name, those within the key's prefixes."""
        self.key.check("read")
        asked = self.query(ListQuery)
        (after,) = asked.after()
        found = page_of_topics(asked.prefix, self.key.prefixes, after, asked.size + 1, now_ms())
        shown = found[: asked.size]
        following = next_cursor(shown[-1].name) if len(found) > asked.size else UNSET
        return self.answer(
            TopicsAnswer(topics=[listed(each) for each in shown], next_cursor=following, performance=self.performance())
        )


def listed(found: State) -> ListedTopic:
    return ListedTopic(
        topic=found.name,
        head_seq=found.head_seq,
        earliest_seq=found.earliest_seq,
        count=found.records,
        bytes=found.bytes,
        durable=found.durable,
        effective_priority=found.effective_priority,
    )
