"""Named cursors of a topic (contract.md section 10)."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET
from rest_framework.request import Request
from rest_framework.response import Response

from base.clock import now_ms
from base.errors import InvalidRequest
from base.names import check_topic_name
from topics import cursors
from topics.api.shapes import CursorAnswer, CursorsAnswer, CursorShown, DeleteCursorAnswer
from topics.diff import Seq
from wire.endpoint import Endpoint
from wire.paging import PageQuery, next_cursor
from wire.schema import operation


class PutCursor(msgspec.Struct):
    """Where a cursor is to stand: one of seq, from_ts and at. `expected_seq`: where its owner thinks it stands."""

    seq: Seq | None = None
    from_ts: Seq | None = None
    at: Literal["head", "earliest"] | None = None
    expected_seq: Seq | None = None


class OneCursor(Endpoint):
    """/v0/topics/:topic/cursors/:cursor"""

    @operation(
        "put_cursor", body=PutCursor, answers={200: CursorAnswer, 201: CursorAnswer}, errors=(409,), tag="cursors"
    )
    def put(self, request: Request, topic: str, cursor: str) -> Response:
        """Set a cursor."""
        self.check(topic, "admin")
        wanted, now = self.body(PutCursor), now_ms()
        seq = cursors.target_seq(topic, wanted.seq, wanted.from_ts, wanted.at, now)
        created = cursors.move(topic, cursor, seq, wanted.expected_seq, now, self.key)
        return self.show(topic, cursors.cursor(topic, cursor, now, self.key), created)

    @operation("get_cursor", answers={200: CursorAnswer}, tag="cursors")
    def get(self, request: Request, topic: str, cursor: str) -> Response:
        """How far a cursor has come, and how far it is behind now."""
        self.check(topic, "read")
        return self.show(topic, cursors.cursor(topic, cursor, now_ms(), self.key))

    @operation("delete_cursor", answers={200: DeleteCursorAnswer}, errors=(409,), tag="cursors")
    def delete(self, request: Request, topic: str, cursor: str) -> Response:
        """Forget a cursor."""
        self.check(topic, "delete")
        deleted = cursors.delete_cursor(topic, check_topic_name(cursor, "cursor"), self.key)
        answer = DeleteCursorAnswer(topic=topic, cursor=cursor, deleted=deleted, performance=self.performance())
        return self.answer(answer)

    def show(self, topic: str, found: cursors.Shown, created: bool | None = None) -> Response:
        shown = msgspec.structs.asdict(shape(topic, found))
        flag = UNSET if created is None else created
        answer = CursorAnswer(**shown, created=flag, performance=self.performance())
        return self.answer(answer, status=201 if created else 200)


class CursorList(Endpoint):
    """GET /v0/topics/:topic/cursors."""

    @operation("list_cursors", query=PageQuery, answers={200: CursorsAnswer}, tag="cursors")
    def get(self, request: Request, topic: str) -> Response:
        """Everybody who reads this topic: named cursors, and those of routers and others."""
        self.check(topic, "read")
        asked = self.query(PageQuery)
        found = cursors.page_of_cursors(topic, page_after(asked), asked.size + 1, now_ms(), self.key)
        shown = found[: asked.size]
        last = shown[-1:]
        following = next_cursor(last[0].name, last[0].kind, str(last[0].id)) if len(found) > asked.size else UNSET
        return self.answer(
            CursorsAnswer(
                topic=topic,
                cursors=[shape(topic, each) for each in shown],
                next_cursor=following,
                performance=self.performance(),
            )
        )


def page_after(asked: PageQuery) -> cursors.After:
    """Where the page begins. Raises InvalidRequest."""
    name, kind, id = asked.after(3)
    if not (id.isascii() and (id or "0").isdigit() and int(id[:20] or 0) < 2**63):
        raise InvalidRequest("cursor is none that this list gave out")
    return cursors.After(name, kind, int(id or 0))


def shape(topic: str, found: cursors.Shown) -> CursorShown:
    return CursorShown(
        topic=topic,
        cursor=found.name,
        kind=found.kind,
        seq=found.seq,
        lag=found.lag,
        oldest_unread_ms=found.oldest_unread_ms,
        updated_ts=found.updated_ts,
    )
