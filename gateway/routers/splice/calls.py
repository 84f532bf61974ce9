"""The calls about a spliced topic: reads, appends, deletes, and the state of the topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from base.bigint import bigint
from base.errors import HeadMismatch, InvalidRequest, RecordNotFound, TopicNotEmpty
from contract.deleting import DeleteFields
from gateway.api import Operation, Request, Response, RouterContext
from gateway.rewrite.edits import decoded
from gateway.rewrite.edits import encoded as raw
from gateway.rewrite.identifiers import parameter
from gateway.rewrite.names import Raws, renamed_request
from gateway.routers.splice.segments import SEALED, Segment
from gateway.routers.splice.topic import Spliced

Call = Callable[[Spliced, RouterContext, Request], Awaitable[Response]]
JSON = ((b"content-type", b"application/json"),)


async def read(topic: Spliced, context: RouterContext, request: Request) -> Response:
    return await topic.answer(context, await topic.wanted(context, request))


async def record(topic: Spliced, context: RouterContext, request: Request) -> Response:
    """Returns one record, from the segment with its position."""
    named = request.name or ""
    position = bigint(named)
    if not position:
        raise InvalidRequest(f"invalid seq {named[:30]!r}: expected a whole number from 1", seq=named[:30])
    segment = topic.at(position - 1)
    response = None
    if position > segment.begin:
        asked = segment.request(request, "GET", f"/records/{position - segment.offset}")
        response = await segment.ask(context, asked)
        if response is None and segment is topic.last:
            raise topic.absent()
    if response is None:
        raise RecordNotFound.of(topic=topic.name, seq=position)
    body = await response.decoded(Raws)
    path = decoded(body["path"], Raws)
    if decoded(path["topic"], str) == segment.topic:
        path["seq"] = raw(decoded(path["seq"], int) + segment.offset)
        body["path"] = raw(path)
    return await segment.shown(response.replace(body=msgspec.json.encode(body)))


# -- Writes --------------------------------------------------------------------------------------------------------------


async def append(topic: Spliced, context: RouterContext, request: Request) -> Response:
    """Appends to the last segment."""
    last = topic.last
    inner = await renamed_request(request, last.renaming)
    if last.offset and b'"expected_head"' in (body := await inner.body()):
        members = decoded(msgspec.Raw(body), Raws) or {}
        expected = decoded(members.get("expected_head"), int)
        if expected is not None and 0 <= expected < last.begin:
            head = (await topic.extent(context, request)).head
            raise HeadMismatch.of(head_seq=head, expected_head=expected)
        if expected is not None and expected >= 0:
            members["expected_head"] = raw(expected - last.offset)
            inner = inner.replace(body=msgspec.json.encode(members))
    return await sent(last, context, inner)


async def last_append(topic: Spliced, context: RouterContext, request: Request) -> Response:
    """Returns the newest append with a key, from the latest segment that knows the key."""
    for segment in reversed(topic.segments):
        response = await segment.ask(context, segment.request(request, "GET", "/appends", request.query))
        if response is None:
            if segment is topic.last:
                raise topic.absent()
            continue
        found = (await response.decoded())["last"]
        if segment is topic.last:
            newest = response, segment
        if found is not None and (segment.upto is None or found["last_seq"] <= segment.upto):
            return await segment.shown(response)
    return await newest[1].shown(newest[0])


async def to_last(topic: Spliced, context: RouterContext, request: Request) -> Response:
    """Sends a call to the last segment, which answers for the whole topic.

    For example PUT, because the configuration is in the last segment.
    """
    return await sent(topic.last, context, await renamed_request(request, topic.last.renaming))


async def delete_records(topic: Spliced, context: RouterContext, request: Request) -> Response:
    """Deletes from each segment in turn, oldest first.

    A sealed segment refuses before any record is deleted. A client can repeat the delete.
    """
    body = await request.json(Raws)
    wanted = await request.json(DeleteFields)
    before = wanted.before_seq
    deleted = 0
    await topic.extent(context, request)  # raises TopicNotFound if the topic is absent
    for segment in topic.segments:
        own = dict(body)
        if before is not None:
            most = before if segment.end is None else min(before, segment.end + 1)
            own["before_seq"] = raw(most - segment.offset if most > segment.begin + 1 else 0)
        elif segment.upto is not None and wanted.match is not None:
            own["before_seq"] = raw(segment.upto + 1)
        if wanted.seqs is not None:
            held = [seq - segment.offset for seq in wanted.seqs if segment.holds(seq)]
            if not held and segment is not topic.last:
                continue
            own["seqs"] = raw(held)
        response = await segment.ask(context, segment.request(request, "POST", "/delete", body=own))
        if response is not None:
            deleted += (await response.decoded())["deleted"]
        topic.seen.pop(segment, None)
    told = await whole(topic, context, request)
    named = {key: told[key] for key in ("topic", "earliest_seq", "head_seq", "count", "bytes")}
    return Response.json(200, {**named, "deleted": deleted, "performance": {"server_total_ms": 0.0}})


async def delete_topic(topic: Spliced, context: RouterContext, request: Request) -> Response:
    """Deletes all segments, last segment first. After a failure, the client can repeat the delete."""
    if parameter(request.query, "if_empty") in ("true", "1"):
        for segment in topic.segments[:-1]:
            held = await state(segment, context, request)
            if held is not None and shown_count(segment, held):
                raise TopicNotEmpty(f"{topic.name!r} holds records", topic=topic.name, count=shown_count(segment, held))
    found: dict[str, Any] = {"topic": topic.name, "deleted": False, "routers_removed": []}
    for segment in reversed(topic.segments):
        query = request.query if segment is topic.last else ""
        response = await segment.ask(context, segment.request(request, "DELETE", query=query))
        if response is not None:
            told = await (await segment.shown(response)).decoded()
            found["deleted"] = found["deleted"] or told["deleted"]
            found["routers_removed"] += told["routers_removed"]
        topic.seen.pop(segment, None)
    return Response.json(200, {**found, "performance": {"server_total_ms": 0.0}})


# -- The topic -----------------------------------------------------------------------------------------------------------


async def get_topic(topic: Spliced, context: RouterContext, request: Request) -> Response:
    told = await whole(topic, context, request, request.query)
    headers = SEALED if told["config"].get("sealed") else ()
    return Response.json(200, {**told, "performance": {"server_total_ms": 0.0}}, headers)


async def whole(topic: Spliced, context: RouterContext, request: Request, query: str = "touch=false") -> dict[str, Any]:
    """Returns the answer to GET of the topic.

    Counts are sums. All other fields come from the last segment. Raises TopicsError, Refusal.
    """
    found: dict[str, Any] = {}
    count = size = 0
    earliest: int | None = None
    for segment in topic.segments:
        is_last = segment is topic.last
        told = await state(segment, context, request, query if is_last else "touch=false")
        if told is None:
            if is_last:
                raise topic.absent()
            continue
        count, size = count + shown_count(segment, told), size + told["bytes"]
        if earliest is None:
            earliest = segment.first_shown(told["earliest_seq"], told["head_seq"])
        found = told
    head = topic.last.clip(found["head_seq"])
    seqs = {"head_seq": head, "next_seq": head + 1, "earliest_seq": earliest or head + 1}
    return {**found, "topic": topic.name, **seqs, "count": count, "bytes": size}


async def state(
    segment: Segment, context: RouterContext, request: Request, query: str = "touch=false"
) -> dict[str, Any] | None:
    """Returns the state of a segment's topic, or None if the topic is absent."""
    response = await segment.ask(context, segment.request(request, "GET", query=query))
    return await response.decoded() if response is not None else None


def shown_count(segment: Segment, told: Mapping[str, Any]) -> int:
    """Returns the number of live records in the segment.

    The number is exact if the segment's topic has no record above `upto`.
    """
    first = segment.first_shown(told["earliest_seq"], told["head_seq"])
    return 0 if first is None else min(told["count"], segment.clip(told["head_seq"]) - first + 1)


# -- Requests ------------------------------------------------------------------------------------------------------------


async def sent(segment: Segment, context: RouterContext, request: Request) -> Response:
    """Sends a request in the server's names. Returns the answer in the client's names and positions."""
    assert segment.route is not None
    return await segment.shown(await context.send_request(context.any_node(segment.route), request))


CALLS: dict[Operation, Call] = {
    Operation.READ: read,
    Operation.LIST_RECORDS: read,
    Operation.GET_RECORD: record,
    Operation.APPEND: append,
    Operation.GET_LAST_APPEND: last_append,
    Operation.PUT_TOPIC: to_last,
    Operation.GET_TOPIC: get_topic,
    Operation.DELETE_RECORDS: delete_records,
    Operation.DELETE_TOPIC: delete_topic,
}
