"""Named cursors of a spliced topic.

Each cursor is stored at the segment of its position, so cursors from before the splice stay valid.

If several segments have a cursor with the same name, the cursor at the latest segment counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from base.clock import now_ms
from base.errors import AboveHead, CursorMoved, InvalidRequest, NotFound
from contract.cursors import CursorFields
from gateway.api import Operation, Request, Response, RouterContext
from gateway.blocks import page_size
from gateway.rewrite.identifiers import parameter
from gateway.routers.splice.calls import Call
from gateway.routers.splice.pages import PositionRead
from gateway.routers.splice.segments import Segment, SegmentRefused
from gateway.routers.splice.topic import Spliced

PAGE = 1000


class Put(CursorFields, forbid_unknown_fields=True):
    """The body of a PUT."""


class ServerCursor(NamedTuple):
    """A cursor in its server's answer."""

    segment: Segment
    told: dict[str, Any]

    @property
    def seq(self) -> int:
        """The server's seq."""
        return int(self.told["seq"])

    @property
    def position(self) -> int:
        segment = self.segment
        most = self.seq if segment.upto is None else min(self.seq, segment.upto)
        return max(most, segment.start) + segment.offset


async def of_segment(segment: Segment, context: RouterContext, client: Request, method: str, body: Any = b"") -> Any:
    """Calls one segment's server about the client's cursor.

    Returns the answer, or None for 404. Raises Refusal, TopicsError.
    """
    name = client.path.rpartition("/")[2]  # still encoded, as sent by the client
    try:
        response = await segment.ask(context, segment.request(client, method, f"/cursors/{name}", body=body))
    except SegmentRefused as refusal:
        if refusal.response.status == 404:
            return None
        raise
    return await response.decoded() if response is not None else None


async def found_in(topic: Spliced, context: RouterContext, client: Request) -> ServerCursor | None:
    for segment in reversed(topic.segments):
        told = await of_segment(segment, context, client, "GET")
        if told is not None:
            return ServerCursor(segment, told)
    return None


async def get_cursor(topic: Spliced, context: RouterContext, request: Request) -> Response:
    found = await found_in(topic, context, request)
    if found is None:
        await topic.extent(context, request)  # raises TopicNotFound if the topic is absent
        raise NotFound(f"topic {topic.name!r} has no cursor {request.name!r}", topic=topic.name, cursor=request.name)
    return Response.json(200, await shown(topic, context, request, found))


async def put_cursor(topic: Spliced, context: RouterContext, request: Request) -> Response:
    """Sets the cursor at the segment of its new position.

    A later segment's cursor would hide the new cursor, and so is deleted afterwards.
    """
    wanted = await request.json(Put)
    position = await target(topic, context, request, wanted)
    before = await found_in(topic, context, request)
    segment = topic.at(position)
    body: dict[str, Any] = {"seq": max(position, segment.begin) - segment.offset}
    if wanted.expected_seq is not None:
        current = before.position if before is not None else 0
        if current != wanted.expected_seq:
            raise CursorMoved.of(seq=current, expected_seq=wanted.expected_seq)
        # Another client can move the cursor now. The server then refuses this PUT, unless the cursor moves back over a seam.
        if before is not None and before.segment is segment:
            body["expected_seq"] = before.seq
        elif before is None or before.segment in topic.before(segment):
            body["expected_seq"] = 0  # this segment has no cursor
    told = await of_segment(segment, context, request, "PUT", body)
    if told is None:
        if segment is topic.last:
            raise topic.absent()
        raise InvalidRequest(
            f"the records up to {segment.end} are lost with their topic: set the cursor to {segment.end} or more",
            seq=position,
        )
    for later in topic.behind(segment) if before is not None else ():
        await of_segment(later, context, request, "DELETE")
    created = before is None
    answer = await shown(topic, context, request, ServerCursor(segment, told))
    return Response.json(201 if created else 200, {**answer, "created": created})


async def target(topic: Spliced, context: RouterContext, request: Request, wanted: Put) -> int:
    """Returns the position that a client requests. Raises InvalidRequest, Refusal, TopicsError."""
    wanted.check()
    if wanted.from_ts is not None:
        return await topic.position_at(context, request, wanted.from_ts)
    head, earliest, _ = await topic.extent(context, request)
    if wanted.seq is None:
        return head if wanted.at == "head" else earliest - 1
    if wanted.seq > head:
        raise AboveHead.of(seq=wanted.seq, head_seq=head)
    return wanted.seq


async def delete_cursor(topic: Spliced, context: RouterContext, request: Request) -> Response:
    deleted = False
    for segment in reversed(topic.segments):
        told = await of_segment(segment, context, request, "DELETE")
        deleted = deleted or (told is not None and told["deleted"])
    answer = {"topic": topic.name, "cursor": request.name, "deleted": deleted}
    return Response.json(200, {**answer, "performance": {"server_total_ms": 0.0}})


async def list_cursors(topic: Spliced, context: RouterContext, request: Request) -> Response:
    """Returns a page of the cursors of all segments, ordered by name."""
    size, after = page_size(request), ["", ""]
    if position := parameter(request.query, "cursor"):
        after = context.unseal("cursor", position)
    found: dict[tuple[str, str], ServerCursor] = {}
    for segment in topic.segments:
        for told in await all_cursors(topic, segment, context, request):
            found[told["cursor"], told["kind"]] = ServerCursor(segment, told)
    keys = sorted(key for key in found if key > tuple(after))
    page = [await shown(topic, context, request, found[key]) for key in keys[:size]]
    body: dict[str, Any] = {"topic": topic.name, "cursors": page, "performance": {"server_total_ms": 0.0}}
    if len(keys) > size:
        body["next_cursor"] = context.seal("cursor", keys[size - 1])
    return Response.json(200, body)


async def all_cursors(
    topic: Spliced, segment: Segment, context: RouterContext, request: Request
) -> list[dict[str, Any]]:
    """Returns all cursors of one segment. Raises TopicNotFound, Refusal, TopicsError."""
    found: list[dict[str, Any]] = []
    query = f"page_size={PAGE}"
    while True:
        response = await segment.ask(context, segment.request(request, "GET", "/cursors", query))
        if response is None:
            if segment is topic.last:
                raise topic.absent()
            return found
        told = await response.decoded()
        found += told["cursors"]
        if "next_cursor" not in told:
            return found
        query = f"page_size={PAGE}&cursor={told['next_cursor']}"


async def shown(topic: Spliced, context: RouterContext, client: Request, found: ServerCursor) -> dict[str, Any]:
    """Returns a cursor in the client's names and positions."""
    head = (await topic.extent(context, client)).head
    position = found.position
    unread = found.told["oldest_unread_ms"]
    if unread is None and position < head:  # the cursor's segment has no more records, but a later segment has
        window = await topic.read(context, PositionRead(client, position, 1, body={}))
        unread = max(now_ms() - msgspec.json.decode(window.records[0]["$ts"]), 0) if window.records else None
    return {**found.told, "topic": topic.name, "seq": position, "lag": head - position, "oldest_unread_ms": unread}


CURSOR_CALLS: dict[Operation, Call] = {
    Operation.GET_CURSOR: get_cursor,
    Operation.PUT_CURSOR: put_cursor,
    Operation.DELETE_CURSOR: delete_cursor,
    Operation.LIST_CURSORS: list_cursors,
}
