"""Named cursors of a topic (docs/wire.md)."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET

from base.bigint import bigint
from base.clock import now_ms
from base.errors import CursorMoved, Incompatible, InvalidRequest, TopicNotFound
from base.names import check_topic_name
from contract.cursors import CursorFields
from contract.operations import Operation
from store.script import Script
from topics.api.shapes import CursorAnswer, CursorsAnswer, CursorShown, DeleteCursorAnswer
from topics.cursors import named as cursors
from topics.sealed import DESCRIBED, told
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.paging import PageQuery
from wire.request.parse import Request

endpoint = partial(Endpoint, errors=(TopicNotFound,), tells=DESCRIBED, tag="cursors")


class PutCursor(CursorFields, Request):
    """The new position of a cursor: exactly one of `seq`, `from_ts` and `at`. `expected_seq` is its expected old position."""


@endpoint(
    Operation.PUT_CURSOR,
    scope="commit",
    body=PutCursor,
    answers={200: CursorAnswer, 201: CursorAnswer},
    errors=(TopicNotFound, CursorMoved, Incompatible),
    example={"seq": 1},
    needs_body=True,
)
def put(call: Call[PutCursor, None], topic: str, cursor: str) -> Script[Answer]:
    """Set a cursor."""
    wanted, now = call.body, now_ms()
    seq = yield from cursors.target_seq(topic, wanted, now)
    created, moved = yield from cursors.move(topic, cursor, seq, wanted.expected_seq, now, call.key)
    return show(call, topic, moved, created)


@endpoint(Operation.GET_CURSOR, scope="read", answers={200: CursorAnswer})
def get(call: Call[None, None], topic: str, cursor: str) -> Script[Answer]:
    """Get a cursor and its lag."""
    return show(call, topic, (yield from cursors.cursor(topic, cursor, now_ms(), call.key)))


@endpoint(
    Operation.DELETE_CURSOR,
    scope="delete",
    answers={200: DeleteCursorAnswer},
    errors=(TopicNotFound, Incompatible),
    names={"cursor": "no-longer-wanted"},
)
def delete(call: Call[None, None], topic: str, cursor: str) -> Script[Answer]:
    """Delete a cursor."""
    deleted, is_sealed = yield from cursors.delete_cursor(topic, check_topic_name(cursor, "cursor"), call.key)
    return call.answer(
        DeleteCursorAnswer(topic=topic, cursor=cursor, deleted=deleted, performance=call.performance()),
        headers=told(is_sealed),
    )


def show(call: Call[Any, None], topic: str, found: cursors.ShownCursor, created: bool | None = None) -> Answer:
    shown = msgspec.structs.asdict(shape(topic, found))
    flag = UNSET if created is None else created
    answer = CursorAnswer(**shown, created=flag, performance=call.performance())
    return call.answer(answer, status=201 if created else 200, headers=told(found.sealed))


@endpoint(Operation.LIST_CURSORS, scope="read", query=PageQuery, answers={200: CursorsAnswer})
def list_cursors(call: Call[None, PageQuery], topic: str) -> Script[Answer]:
    """List the cursors of a topic: named cursors, and the cursors of routers and other owners."""
    wanted = call.query
    after = page_after(wanted)
    found, is_sealed = yield from cursors.page_of_cursors(topic, after, wanted.size + 1, now_ms(), call.key)
    page, following = wanted.page(found, lambda each: (each.name, each.kind, str(each.id)))
    return call.answer(
        CursorsAnswer(
            topic=topic,
            cursors=[shape(topic, each) for each in page],
            next_cursor=following,
            clamped=wanted.clamped,
            performance=call.performance(),
        ),
        headers=told(is_sealed),
    )


def page_after(call: PageQuery) -> cursors.After:
    """Returns the cursor after which the page starts. Raises InvalidRequest."""
    name, kind, id = call.after(3)
    number = bigint(id or "0")
    if number is None:
        raise InvalidRequest("invalid cursor: this list gave out other cursors. Start without cursor")
    return cursors.After(name, kind, number)


def shape(topic: str, found: cursors.ShownCursor) -> CursorShown:
    return CursorShown(
        topic=topic,
        cursor=found.name,
        kind=found.kind,
        seq=found.seq,
        lag=found.lag,
        oldest_unread_ms=found.oldest_unread_ms,
        updated_ts=found.updated_ts,
    )
