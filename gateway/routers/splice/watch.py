"""Watches and event streams that can include spliced topics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from base.errors import InvalidRequest, TopicNotFound
from contract.watching import StartFields
from gateway.api import Request, Response, RouterContext, without
from gateway.rewrite.edits import decoded
from gateway.rewrite.edits import encoded as raw
from gateway.rewrite.frames import STREAM_HEADERS, check_accept, closed
from gateway.rewrite.identifiers import no_session, parameter
from gateway.rewrite.joined import JoinedStream
from gateway.rewrite.names import LAST_EVENT_ID, Raws, at_position, position_of, with_header
from gateway.routers.splice.streams import EventsStream, SplicedStream, WatchStream, begun
from gateway.routers.splice.topic import Spliced

PLACES = ("from_seq", "from_ts", "tail")  # the fields of a start that are translated. The servers read the others
DEFAULT = ""  # key of the default route's part of a stream; no topic has this name
LONGEST_WID = 32_000  # characters: a request's head has 64 KiB


class SplicedWatch(msgspec.Struct):
    """The content of a watch id for spliced topics.

    `wid`: the id of the default route's part. `starts`: for each topic the position and the client's other options (`match`).
    """

    wid: str | None
    starts: dict[str, tuple[Annotated[int, Meta(ge=0)], dict[str, Any]]]
    options: dict[str, Any]


async def watched(request: Request) -> list[str]:
    """Returns the topics in a watch."""
    topics = decoded((await request.json(Raws)).get("topics"), Raws)
    return list(topics or {})


async def watch(
    topics: Mapping[str, Spliced], default: str | None, context: RouterContext, request: Request
) -> Response:
    """Starts a watch of spliced topics, and of other topics at the default route. Raises Refusal, TopicsError."""
    body = await request.json(Raws)
    named = decoded(body["topics"], Raws)
    options = {key: decoded(value, Any) for key, value in body.items() if key != "topics"}
    is_lenient = parameter(request.query, "lenient") in ("true", "1")
    session, found = SplicedWatch(None, {}, options), dict[str, Any]()
    told: dict[str, Any] = {}
    others = {name: start for name, start in named.items() if name not in topics}
    if others:
        if default is None:
            raise TopicNotFound(f"topic {next(iter(others))!r} does not exist", topic=next(iter(others)))
        one = request.replace(body=msgspec.json.encode({**body, "topics": raw(others)}))
        one = one.replace(headers=without(one.headers, b"accept-encoding"))
        response = await context.send_request(context.any_node(default), one)
        if response.status == 200:
            told = await response.decoded()
            session.wid, found = told["wid"], told["topics"]
        elif not (is_lenient and response.status == 404):
            return response
    for name in named.keys() & topics.keys():
        try:
            start = msgspec.json.decode(named[name], type=StartFields)
            more = {field: value for field, value in msgspec.json.decode(named[name]).items() if field not in PLACES}
        except msgspec.MsgspecError as error:
            raise InvalidRequest(f"topics.{name}: {error}") from error
        position = await starting(topics[name], context, request, start)
        answer = await begun(topics[name], context, request, position, options, more)
        if answer is not None:
            told = answer
            session.starts[name] = position, more
            held = await topics[name].extent(context, request)
            found[name] = {"from_seq": position, "head_seq": held.head, "earliest_seq": held.earliest}
        elif not is_lenient:
            raise topics[name].absent()
    if not told:
        raise topics[next(name for name in named if name in topics)].absent()
    wid = context.seal("wid", session) if session.starts else session.wid
    if wid is None or len(wid) > LONGEST_WID:
        raise InvalidRequest(
            "topics: too many topics, or too long names, for one watch of spliced topics: create several sessions"
        )
    return Response.json(200, {**told, "wid": wid, "stream_url": f"/v0/watch/{wid}", "topics": found})


async def starting(topic: Spliced, context: RouterContext, request: Request, start: StartFields) -> int:
    """Returns the position after which a stream starts. Raises InvalidRequest, Refusal, TopicsError."""
    start.check(topic.name)
    if start.from_ts is not None:
        return await topic.position_at(context, request, start.from_ts)
    if start.tail:
        return (await topic.extent(context, request)).head
    return start.from_seq or 0


async def stream(
    topics: Mapping[str, Spliced], default: str | None, context: RouterContext, request: Request
) -> Response:
    """Returns the stream of a watch. Raises NotFound, Refusal, TopicsError."""
    try:
        session = msgspec.convert(context.unseal("wid", request.name or ""), SplicedWatch)
    except (InvalidRequest, msgspec.ValidationError) as error:
        if default is not None:  # the default route's server may know the id
            return await context.send_request(context.any_node(default), request)
        raise no_session() from error
    if not session.starts.keys() <= topics.keys():
        raise no_session()
    check_accept(request)
    position = position_of(request)
    client = with_key(request)
    streams: dict[str, SplicedStream] = {}
    for name, (start, more) in session.starts.items():
        begin = position[name] = position_in(position, name, start)
        streams[name] = WatchStream(topics[name], context, client, begin, session.options, more)
    sources: dict[str, Any] = {name: (each, same) for name, each in streams.items()}
    heard = list(streams)
    try:
        await asyncio.gather(*(each.open() for each in streams.values()))
        if session.wid is not None:
            if default is None:
                raise no_session()
            own = {name: seq for name, seq in position.items() if name not in topics}
            response = await context.send_request(context.any_node(default), of_default(request, session.wid, own))
            if response.status != 200:
                await given_up(streams)
                return response
            sources[DEFAULT] = response.body, same
            heard += [DEFAULT] if own else []
    except BaseException:
        await given_up(streams)
        raise
    return Response(200, STREAM_HEADERS, JoinedStream(sources, position, heard))


def position_in(position: Mapping[str, Any], name: str, start: int) -> int:
    """Returns a topic's position in a Last-Event-ID. Raises InvalidRequest."""
    found = position.get(name, start)
    if not isinstance(found, int) or found < 0:
        raise InvalidRequest("invalid Last-Event-ID: this stream gave out other ids. Connect without it")
    return found


def of_default(request: Request, wid: str, own: dict[str, Any]) -> Request:
    """Returns the request for the default route's part of a stream."""
    headers = without(request.headers, b"accept-encoding")
    return request.replace(path=f"/v0/watch/{wid}", headers=at_position(headers, own))


async def given_up(streams: Mapping[str, SplicedStream]) -> None:
    for each in streams.values():
        await closed(each)


def same(name: str) -> str:
    return name


def with_key(request: Request) -> Request:
    """Returns the request with the key of `?token=` as a header, for the stream's own requests. Raises InvalidRequest."""
    token = parameter(request.query, "token")
    if token is None or request.header(b"authorization") is not None:
        return request
    return request.replace(headers=with_header(request.headers, b"authorization", b"Bearer " + token.encode()))


async def topic_events(topic: Spliced, context: RouterContext, request: Request) -> Response:
    """Returns the stream of one topic. Raises Refusal, TopicsError."""
    shown = (request.header(LAST_EVENT_ID) or b"").decode("latin-1")
    last = topic.last
    name, colon, seq = shown.rpartition(":")
    # An invalid last id or from_seq goes to the server, which reports the error.
    from_seq = parameter(request.query, "from_seq")
    if not shown and from_seq:
        name, colon, seq = topic.name, ":", from_seq
    if not colon or name != topic.name or not (seq.isascii() and seq.isdigit()) or len(seq) > 18:
        asked = request.replace(topic=last.topic, headers=without(request.headers, b"accept-encoding"))
        response = await last.ask(context, asked)
        if response is None:
            raise topic.absent()
        follower = EventsStream(topic, context, request, 0)
        return response.replace(body=follower.followed(response)) if not isinstance(response.body, bytes) else response
    check_accept(request)
    stream = EventsStream(topic, context, with_key(request), int(seq))
    await stream.open()
    return Response(200, STREAM_HEADERS, stream)
