"""Streams over moving topics: the client's connection stays open while the gateway changes servers.

A copy has the seqs of its source. So a stream continues at the dest, after the last seq that the client got. Older records that
the client did not get also come from the dest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import msgspec

from base.errors import InvalidRequest, TopicsError
from gateway.api import Request, Response, RouterContext, without
from gateway.blocks import begin_watches, decompose, gather
from gateway.errors import RoutesFailed
from gateway.rewrite.frames import Frame, closed, frames
from gateway.rewrite.identifiers import no_session, parameter, with_parameter
from gateway.rewrite.joined import JoinedStream
from gateway.rewrite.names import LAST_EVENT_ID, Raws, Renaming, at_position, position_of, raw, with_header
from gateway.routers import copies
from gateway.routers.migrate.moves import Move
from http1 import BrokenOff

SAME = Renaming(str, str)
LONGEST_WID = 16_000  # characters, because the id is in a path
START = ("from_seq", "from_ts", "tail")


# -- Events of one topic -----------------------------------------------------------------------------------------------


async def events(move: Move, request: Request, context: RouterContext) -> Response:
    """Answers `GET …/events` of a topic that can move."""
    topic = await move.begin_stream(context)
    if move.has_moved:
        return await context.send_request(context.any_node(move.dest), request)
    shown = request.header(LAST_EVENT_ID)
    if not shown:  # Records from now on. The head can only be too low.
        shown = f"{move.topic}:{topic.head_seq if topic is not None else 0}".encode()
    answer = await context.send_request(context.any_node(move.source), request)
    if answer.status != 200 or isinstance(answer.body, bytes):
        return answer
    return answer.replace(body=MovingEvents(move, request, context, answer.body, shown))


class MovingEvents:
    """The events of a topic: from the source until the topic has moved, then from the dest."""

    def __init__(self, move: Move, request: Request, context: RouterContext, source: Any, shown: bytes) -> None:
        """`shown`: the id after which the stream starts."""
        self.move, self.request, self.context, self.source, self.shown = move, request, context, source, shown
        self.frames: AsyncIterator[bytes] = frames(source)
        self.reading: asyncio.Task[bytes] | None = None
        self.moving: asyncio.Task[Any] | None = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.moving is None:
            self.moving = asyncio.ensure_future(self.move.moved.wait())
        if self.source is not None:
            self.reading = self.reading or asyncio.ensure_future(anext(self.frames))
            await asyncio.wait({self.reading, self.moving}, return_when=asyncio.FIRST_COMPLETED)
            if self.reading.done():
                reading, self.reading = self.reading, None
                frame = reading.result()
                self.shown = Frame(frame).id or self.shown
                return frame
            await self.change()
        return await anext(self.frames)

    async def change(self) -> None:
        """Continues at the dest. Raises TopicsError if the dest does not answer. Then the client reconnects."""
        assert self.reading is not None
        self.reading.cancel()
        await asyncio.gather(self.reading, return_exceptions=True)
        await closed(self.source)
        self.source = self.reading = None
        headers = with_header(self.request.headers, LAST_EVENT_ID, self.shown)
        query = with_parameter(self.request.query, "from_seq", None)
        node = self.context.any_node(self.move.dest)
        answer = await self.context.send_request(node, self.request.replace(headers=headers, query=query))
        if answer.status != 200 or isinstance(answer.body, bytes):
            raise TopicsError(f"the route {self.move.dest!r} answered a stream with {answer.status}")
        self.opened = answer.body
        self.frames = frames(answer.body)

    async def aclose(self) -> None:
        for task in (self.reading, self.moving):
            if task is not None:
                task.cancel()
        await closed(self.source)
        await closed(getattr(self, "opened", None))


# -- Jobs --------------------------------------------------------------------------------------------------------------

MOVED = (
    b'event: error\ndata: {"code":"shutting_down","error":"the queue has moved to another server: connect again"}\n\n'
)


async def jobs(move: Move, request: Request, context: RouterContext) -> Response:
    """Answers `GET …/work` of a queue that can move. The stream ends when the queue has moved, and the worker connects again.

    The leases have moved, too. So a worker can finish its jobs, and no job goes to another worker before its deadline.
    """
    await move.begin_stream(context)
    route = move.live
    answer = await context.send_request(context.any_node(route), request)
    if route == move.dest or answer.status != 200 or isinstance(answer.body, bytes):
        return answer
    return answer.replace(body=Jobs(move, request, context, answer.body, b""))


class Jobs(MovingEvents):
    """The jobs of a queue, until the queue has moved."""

    async def change(self) -> None:
        await self.aclose()
        self.source, self.frames = None, ended()


async def ended() -> AsyncIterator[bytes]:
    yield MOVED
    raise BrokenOff  # so that the worker connects again


# -- Watches -----------------------------------------------------------------------------------------------------------


class MovingWatch(msgspec.Struct):
    """The content of a watch's id.

    `wids`: the session on each route. `topics`: the topics of each session. `starts`: the topics that had not moved, with the
    client's options and the start seq. `options`: options of the whole watch.
    """

    wids: dict[str, str]
    topics: dict[str, list[str]]
    starts: dict[str, dict[str, Any]]
    options: dict[str, Any]


async def begin(
    moves: Mapping[str, Move], source: str, dest: str, request: Request, context: RouterContext
) -> Response:
    """Answers `POST /v0/watch`: starts a session on each server that has one of the topics."""
    body = await request.json()
    topics = body.get("topics")
    if not isinstance(topics, dict) or not moves.keys() & topics.keys():
        return await context.send_request(context.any_node(source), request)
    await begin_streams(moves, topics, context)
    named: dict[str, list[str]] = {}
    for name in topics:
        named.setdefault(moves[name].live if name in moves else source, []).append(name)
    raws = await request.json(Raws)
    wanted = msgspec.json.decode(raws["topics"], type=Raws)
    requests = {
        route: (
            request.replace(body=msgspec.json.encode(raws | {"topics": raw({name: wanted[name] for name in names})})),
            SAME,
        )
        for route, names in named.items()
    }
    answer = await begin_watches(context, requests, lenient=parameter(request.query, "lenient") in ("true", "1"))
    if answer.status != 200:
        return answer
    said = await answer.decoded()
    starts = {}
    for name in said["topics"]:
        if name in moves and not moves[name].has_moved:
            asked = {key: value for key, value in topics[name].items() if key not in START}
            starts[name] = {**asked, "from_seq": said["topics"][name]["from_seq"]}
    options = {key: value for key, value in body.items() if key != "topics"}
    wids = decompose(context, "wid", said["wid"], list(named))
    wid = context.seal("wid", msgspec.to_builtins(MovingWatch(wids, named, starts, options)))
    if len(wid) > LONGEST_WID:
        raise InvalidRequest("too many nodes for a watch of a moving topic: send fewer", field="node")
    return answer.replace(body=msgspec.json.encode({**said, "wid": wid, "stream_url": f"/v0/watch/{wid}"}))


async def begin_streams(moves: Mapping[str, Move], topics: Iterable[str], context: RouterContext) -> None:
    """Finds out which of the topics have moved, before a stream of them opens. Raises TopicsError."""
    await asyncio.gather(*(moves[name].begin_stream(context) for name in topics if name in moves))


async def watch(
    moves: Mapping[str, Move], source: str, dest: str, request: Request, context: RouterContext
) -> Response:
    """Answers `GET /v0/watch/:wid` for a session from `begin`."""
    try:
        watched = msgspec.convert(context.unseal("wid", request.name or ""), MovingWatch)
    except (InvalidRequest, msgspec.ValidationError) as error:
        raise no_session() from error
    position = position_of(request)
    await begin_streams(moves, watched.starts, context)
    moved = [name for name in watched.starts if name not in moves or moves[name].has_moved]
    stream = Moving(moves, watched, position, source, dest, request, context)
    try:
        for route, wid in watched.wids.items():
            names = [name for name in watched.topics[route] if route == dest or name not in moved]
            if names:
                own = {name: position[name] for name in names if name in position}
                headers = at_position(request.headers, own)
                refused = await stream.open(route, request.replace(path=f"/v0/watch/{wid}", headers=headers))
                if refused is not None:
                    await stream.aclose()
                    return refused
        for name in moved:
            await stream.go_on(name)
    except BaseException:
        await stream.aclose()
        raise
    stream.unheard = set() if position else set(stream.sources)
    return Response(200, stream.headers, stream)


class Moving(JoinedStream):
    """A watch that continues while its topics change servers."""

    def __init__(
        self,
        moves: Mapping[str, Move],
        watched: MovingWatch,
        position: dict[str, Any],
        source: str,
        dest: str,
        request: Request,
        context: RouterContext,
    ) -> None:
        super().__init__({}, position)
        self.moves, self.watched, self.source, self.dest = moves, watched, source, dest
        self.request, self.context = request, context
        self.left: set[str] = set()  # topics that the source's session no longer serves
        self.caught_up: set[str] = set()
        self.headers: Any = ()
        self.following: list[asyncio.Task[None]] = []

    async def __anext__(self) -> bytes:
        if not self.following and not self.ended:
            loop = asyncio.get_running_loop()
            waiting = self.watched.starts.keys() - self.left
            self.following = [loop.create_task(self.follow(name)) for name in waiting]
        return await super().__anext__()

    async def open(self, key: str, request: Request) -> Response | None:
        """Opens one source. Returns a refusal, or None if the stream started."""
        route = self.source if key == self.source else self.dest
        answer = await self.context.send_request(self.context.any_node(route), request)
        if answer.status != 200:
            return answer
        self.sources[key] = answer.body, SAME.to_client
        self.headers = self.headers or answer.headers
        return None

    async def follow(self, name: str) -> None:
        """Waits until a topic has moved, then reads the topic from the dest."""
        await self.moves[name].moved.wait()
        try:
            async with self.putting:  # no frame of the source still waits for the queue
                await self.go_on(name)
            self.tasks[name] = asyncio.get_running_loop().create_task(self.read(name, *self.sources[name]))
        except TopicsError:
            self.was_cut = True
            await self.queue.put(None)  # the client reconnects with its last id

    async def go_on(self, name: str) -> None:
        """Reads a topic from the dest, after the last record that the client got. Raises TopicsError."""
        self.left.add(name)
        start = self.watched.starts[name]
        # From now on the position contains the topic, even if the client got no record of the topic yet.
        topics = {name: {**start, "from_seq": self.position.setdefault(name, start["from_seq"])}}
        body = msgspec.json.encode({**self.watched.options, "topics": topics})
        headers = without(self.request.headers, LAST_EVENT_ID, b"accept")
        post = Request("POST", "/v0/watch", "", [*headers, *copies.JSON], body)
        begun = await gather(self.context, {self.dest: post})
        if begun.errors or begun.answers[self.dest].status != 200:
            raise RoutesFailed(begun.errors or {self.dest: {"code": "topic_not_found"}})
        wid = (await begun.answers[self.dest].decoded())["wid"]
        stream = self.request.replace(path=f"/v0/watch/{wid}", headers=without(self.request.headers, LAST_EVENT_ID))
        if await self.open(name, stream) is not None:
            raise RoutesFailed({self.dest: {"code": "not_ready"}})
        if self.source in self.sources and self.left.issuperset(self.watched.topics.get(self.source, ())):
            await self.end(self.source)

    async def end(self, key: str) -> None:
        """Closes a source without remaining topics. The stream continues."""
        body, _ = self.sources.pop(key)
        self.unheard.discard(key)
        if (task := self.tasks.pop(key, None)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await closed(body)

    def is_of(self, route: str, topic: str) -> bool:
        return route != self.source or topic not in self.left

    async def passes(self, route: str, frame: Frame) -> bool:
        if frame.data is None or not frame.event or frame.event == b"error":
            return True
        name = msgspec.json.decode(frame.data, type=dict[str, msgspec.Raw]).get("topic")
        topic = msgspec.json.decode(name, type=str) if name is not None else ""
        if frame.event == b"topic-deleted" and route == self.source and topic in self.watched.starts:
            await self.moves[topic].look(self.context)  # the operator may have deleted the moved topic at the source
            if self.moves[topic].has_moved:
                return False
        if not self.is_of(route, topic):
            return False
        if frame.event == b"caught-up":
            is_first = topic not in self.caught_up
            self.caught_up.add(topic)
            return is_first
        return True

    async def aclose(self) -> None:
        for task in self.following:
            task.cancel()
        await super().aclose()
