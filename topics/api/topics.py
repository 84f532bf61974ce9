"""Topics: put, get, list, delete (docs/wire.md). A POST to a topic appends: records.py."""

from __future__ import annotations

from msgspec import UNSET

from base.clock import now_ms
from base.errors import (
    DeadLetterCycle,
    Incompatible,
    RouterOutsidePrefixes,
    TopicNotEmpty,
    TopicNotFound,
    TopicNotSealed,
)
from base.names import check_topic_name
from contract.deleting import DeleteTopicFields
from contract.listing import ListTopicsFields
from contract.operations import Operation
from contract.topics import GetTopicFields, PutTopicFields
from store.script import Script
from topics.api.shapes import DeleteTopicAnswer, ListedTopic, PutTopicAnswer, QueueShown, TopicAnswer, TopicsAnswer
from topics.config import Config, put_topic
from topics.delete.topic import delete_topic
from topics.read import recency
from topics.read.describe import TopicFigures, held, page_of_topics
from topics.sealed import DESCRIBED, told
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.paging import PageQuery
from wire.request.parse import Destruction, Request


class PutTopicQuery(PutTopicFields, Request):
    """The query of a PUT."""


@Endpoint(
    Operation.PUT_TOPIC,
    scope="admin",
    query=PutTopicQuery,
    body=Config,
    answers={200: PutTopicAnswer, 201: PutTopicAnswer},
    errors=(Incompatible, DeadLetterCycle, TopicNotFound),
    tells=DESCRIBED,
    example={"cap_records": 1_000_000, "durability": "fsync"},
)
def put(call: Call[Config, PutTopicQuery], topic: str) -> Script[Answer]:
    """Create a topic, or change its config."""
    call.body.check_key(call.key)
    done = yield from put_topic(topic, call.body, now_ms(), create=call.query.create)
    config = done.config.seen_by(call.key)
    answer = PutTopicAnswer(
        topic=topic, created=done.created, config=config, clamped=call.body.clamped(), performance=call.performance()
    )
    return call.answer(answer, status=201 if done.created else 200, headers=told(config.sealed))


class TopicQuery(GetTopicFields, Request):
    """The query of a GET."""


@Endpoint(
    Operation.GET_TOPIC,
    scope="read",
    query=TopicQuery,
    answers={200: TopicAnswer},
    errors=(TopicNotFound,),
    tells=DESCRIBED,
)
def get(call: Call[None, TopicQuery], topic: str) -> Script[Answer]:
    """Get the counts and the config of a topic."""
    now = now_ms()
    found, config, jobs = yield from held(topic, now)
    if call.query.touch:
        recency.note(found.id, now)
    return call.answer(
        TopicAnswer(
            topic=topic,
            type=config.type,
            head_seq=found.head_seq,
            earliest_seq=found.earliest_seq,
            next_seq=found.head_seq + 1,
            count=found.records,
            bytes=found.bytes,
            config=config.seen_by(call.key),
            effective_priority=found.effective_priority,
            last_write_ts=found.last_write_ts or None,
            last_read_ts=found.last_read_ts or None,
            queue=UNSET if jobs is None else QueueShown(*jobs),
            performance=call.performance(),
        ),
        headers=told(config.sealed),
    )


class DeleteTopicQuery(DeleteTopicFields, Destruction):
    """The query of a delete."""


@Endpoint(
    Operation.DELETE_TOPIC,
    scope="delete",
    query=DeleteTopicQuery,
    answers={200: DeleteTopicAnswer},
    errors=(TopicNotEmpty, TopicNotSealed, RouterOutsidePrefixes),
    names={"topic": "example-no-longer-wanted"},
)
def delete(call: Call[None, DeleteTopicQuery], topic: str) -> Script[Answer]:
    """Delete a topic, its records, and every router that names it."""
    gone = yield from delete_topic(
        check_topic_name(topic),
        call.query.if_empty,
        now_ms(),
        call.key,
        if_sealed=call.query.if_sealed,
        keep_head=call.query.keep_head,
    )
    return call.answer(
        DeleteTopicAnswer(
            topic=topic, deleted=gone.deleted, routers_removed=gone.routers, performance=call.performance()
        )
    )


class ListQuery(ListTopicsFields, PageQuery):
    """The query of a list."""


@Endpoint(
    Operation.LIST_TOPICS,
    scope="read",
    query=ListQuery,
    answers={200: TopicsAnswer},
    instead="PUT /v0/topics/:topic creates a topic",
)
def list_topics(call: Call[None, ListQuery]) -> Script[Answer]:
    """List topics by name, within the key's prefixes."""
    wanted = call.query
    (after,) = wanted.after()
    found = yield from page_of_topics(wanted.prefix, call.key.prefixes, after, wanted.size + 1, now_ms())
    page, following = wanted.page(found, lambda topic: (topic.name,))
    return call.answer(
        TopicsAnswer(
            topics=[listed(each) for each in page],
            next_cursor=following,
            clamped=wanted.clamped,
            performance=call.performance(),
        )
    )


def listed(found: TopicFigures) -> ListedTopic:
    return ListedTopic(
        topic=found.name,
        head_seq=found.head_seq,
        earliest_seq=found.earliest_seq,
        count=found.records,
        bytes=found.bytes,
        durable=found.durable,
        effective_priority=found.effective_priority,
    )
