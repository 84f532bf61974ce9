"""The state of a topic beside its records, for a move to another server (docs/wire.md, "State")."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from base.errors import TopicNotFound, TopicNotSealed
from contract.listing import next_cursor, read_cursor
from contract.operations import Operation
from store.script import Script
from topics.api.shapes import TopicName
from topics.sealed import DESCRIBED, told
from topics.state import kind_of, page_of_state, parse_rows, write_state
from wire.answer import Answer
from wire.endpoint import Call, Endpoint
from wire.paging import NextCursor
from wire.request.parse import Request
from wire.schema import Performance

TAG = "topics"


class StateQuery(Request):
    cursor: str = ""
    """`next_cursor` of the previous page. Empty: the first page."""
    max_age_ms: Annotated[int, Meta(ge=0, le=2**62)] | None = None
    """Of `keys`: only the keys of the last so many milliseconds. Null: all keys that the topic remembers."""


class State(Request):
    """Rows of a page."""

    rows: list[msgspec.Raw]
    """The `rows` of a page, unchanged."""


class StateAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    kind: str
    """The kind of state."""
    rows: list[msgspec.Raw]
    """Rows of this kind, for `POST …/state/:kind` at another server. The server chooses their number."""
    next_cursor: NextCursor = UNSET
    performance: Performance


class PutStateAnswer(msgspec.Struct, kw_only=True):
    topic: TopicName
    kind: str
    """The kind of state."""
    count: int
    """Number of written rows."""
    performance: Performance


@Endpoint(
    Operation.GET_STATE,
    scope="admin",
    query=StateQuery,
    answers={200: StateAnswer},
    errors=(TopicNotFound,),
    tells=DESCRIBED,
    tag=TAG,
)
def get(call: Call[None, StateQuery], topic: str, kind: str) -> Script[Answer]:
    """Get a page of a topic's state beside its records: idempotency keys, groups, sites, leases or schedules."""
    wanted = kind_of(kind)
    (after,) = read_cursor(call.query.cursor, 1)
    found, is_sealed = yield from page_of_state(topic, wanted, after, wanted.most + 1, call.query.max_age_ms)
    shown = found[: wanted.most]
    answer = StateAnswer(
        topic=topic,
        kind=kind,
        rows=[msgspec.Raw(row.encode()) for _, row in shown],
        next_cursor=next_cursor(shown[-1][0]) if len(found) > wanted.most else UNSET,
        performance=call.performance(),
    )
    return call.answer(answer, headers=told(is_sealed))


@Endpoint(
    Operation.PUT_STATE,
    scope="admin",
    body=State,
    answers={200: PutStateAnswer},
    errors=(TopicNotFound, TopicNotSealed),
    tells=DESCRIBED,
    example={"rows": []},
    names={"topic": "example-copy"},
    needs_body=True,
    tag=TAG,
)
def put(call: Call[State, None], topic: str, kind: str) -> Script[Answer]:
    """Write rows of another server's state into a sealed topic. A repeated call changes nothing."""
    wanted = kind_of(kind)
    count = yield from write_state(topic, wanted, parse_rows(wanted, call.body.rows))
    answer = PutStateAnswer(topic=topic, kind=kind, count=count, performance=call.performance())
    return call.answer(answer, headers=told(True))
