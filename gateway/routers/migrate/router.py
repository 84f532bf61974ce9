"""MigrateRouter: moves topics to another server while clients append, read and watch (docs/gateway.md).

Only the two servers store the state of a move, by sealing their topics:

| source | dest | state |
|---|---|---|
| open | absent or sealed | the source is live; a sealed dest is its copy |
| sealed | sealed | the last records are copied; writers wait |
| sealed | open | the topic has moved: the dest is live |

At most one of the two topics is open at any time, so at most one accepts writes. steps.py seals and opens the topics.
A server marks each answer about a sealed topic. A gateway that does not know of the move yet asks the source, sees the mark, and
reads the state of both servers.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from base.errors import HIDDEN, CursorMoved, InvalidRequest, NotReady
from contract.operations import Resource, about
from gateway.api import (
    Operation,
    PluginConfigError,
    Request,
    Response,
    RouterContext,
    RouterFactoryContext,
    RouterResponse,
)
from gateway.blocks import Listed, merged_list
from gateway.errors import BeingMoved, NotOffered
from gateway.rewrite.names import ANY, JOINING, UNKNOWN, Raws, Renaming, renamed_response, topics_of
from gateway.routers import copies
from gateway.routers.migrate import streams
from gateway.routers.migrate.moves import Move, Moves

SEALED = b"topics-sealed"  # header of every answer about a sealed topic
WAIT_SECONDS = 10.0  # longest wait of a writer while the last records are copied
OF_RECORDS = about(Resource.JOBS) | {Operation.APPEND, Operation.DELETE_RECORDS}  # calls that a sealed topic refuses
NOT_MOVED = about(Resource.GROUPS, Resource.MIRRORS, Resource.SCHEDULES, Resource.COPIES)
WRITES = OF_RECORDS | {Operation.PUT_CURSOR, Operation.DELETE_CURSOR}


class MigrateConfig(msgspec.Struct, forbid_unknown_fields=True, rename={"source": "from", "dest": "to"}):
    """The two routes and the topics of a move."""

    source: str
    """The route that has the topics."""
    dest: str
    """The route that gets them."""
    topics: list[str]
    """The topics that may move. Every other request goes to `from`."""


class MigrateRouter:
    def __init__(self, moves: Moves) -> None:
        self.moves = moves

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        return context.respond_with(await self.answer(operation, request, context))

    async def answer(self, operation: Operation, request: Request, context: RouterContext) -> Response:
        """Returns the answer to a request. Raises TopicsError."""
        if context.virtual_node is not None:
            return await context.send_request(context.virtual_node, request)
        if operation in JOINING and operation is not Operation.PUT_ROUTER:  # it has a check of its own
            await self.check_one_server(request)
        move = self.moves.topics.get(request.topic) if request.topic is not None and not operation.is_bus else None
        if move is not None:
            return await self.about(move, operation, request, context)
        if operation is Operation.WATCH:
            return await streams.begin(self.moves.topics, self.moves.source, self.moves.dest, request, context)
        if operation is Operation.FOLLOW_WATCH:
            return await streams.watch(self.moves.topics, self.moves.source, self.moves.dest, request, context)
        if operation is Operation.LIST_TOPICS:
            return await self.list(request, context)
        if operation is Operation.PUT_ROUTER:
            await self.check_router(request)
        return await self.send(self.moves.source, request, context)

    async def check_one_server(self, request: Request) -> None:
        """Raises InvalidRequest if a dead letter topic is on another server than its queue, which could not reach it.

        A redrive of a pattern of queues moves the letters of those that are on the server of the dead letter topic.
        """
        names = [name for name in await topics_of(request) if not name.endswith(ANY)]
        moves = self.moves
        if len({moves.topics[name].live if name in moves.topics else moves.source for name in names}) > 1:
            raise InvalidRequest(
                f"the topics of this {request.operation.value} are on several servers: name topics of one server",
                topics=names,
            )

    async def send(self, route: str, request: Request, context: RouterContext) -> Response:
        return await context.send_request(context.any_node(route), request)

    async def about(self, move: Move, operation: Operation, request: Request, context: RouterContext) -> Response:
        """Answers a request about a topic that is moving or has moved."""
        if operation is Operation.FOLLOW_TOPIC:
            return await streams.events(move, request, context)
        if operation is Operation.WORK:
            return await streams.jobs(move, request, context)
        if operation in NOT_MOVED:
            message = f"{move.topic!r} may be moved: call its server for consumer groups, mirrors and schedules"
            raise NotOffered(operation.value, message)
        if operation is Operation.DELETE_TOPIC:
            raise BeingMoved(move.topic)
        if operation is Operation.PUT_TOPIC:
            return await self.configure(move, request, context)
        if operation not in WRITES:
            return await self.read(move, request, context)
        await request.body()  # the body may be sent twice
        return await self.write(move, operation, request, context)

    async def read(self, move: Move, request: Request, context: RouterContext) -> Response:
        if not move.has_moved:
            await request.body()  # the body may be sent twice
        route = move.live
        answer = await self.send(route, request, context)
        if route == move.source and answer.header(SEALED) is not None:
            await move.look(context)
            if move.has_moved:  # the source's answer may lack appends at the dest
                return await self.send(move.dest, request, context)
        return answer

    async def write(self, move: Move, operation: Operation, request: Request, context: RouterContext) -> Response:
        """Sends a write to the live server. Raises NotReady if the last records are not copied in time."""
        deadline = time.monotonic() + WAIT_SECONDS
        done: Response | None = None  # the source's answer to a change of a cursor, which its seal allows
        while True:
            if operation is Operation.DELETE_RECORDS and not move.has_moved:
                await move.look(context)  # a copy must lose the same records
            route = move.live
            answer = await self.send(route, request, context)
            if done is not None and await is_repeat(answer, done):
                answer = done.replace(headers=answer.headers)
            elif answer.status in (200, 201):
                done = done or answer
            if answer.header(SEALED) is None or route == move.dest:
                if (
                    operation is Operation.DELETE_RECORDS
                    and route == move.source
                    and move.is_copied
                    and answer.status == 200
                ):
                    await copies.forward_delete(context, request, answer, move.dest)
                return answer
            if operation in OF_RECORDS and not await is_sealed(answer):
                return answer  # an append whose key the source knows, or a refusal
            await move.look(context)
            if move.has_moved:
                continue
            if move.both_sealed_since is None:
                return answer  # an operator has sealed the topic, and no move is running
            if time.monotonic() > deadline:
                raise NotReady(f"topic {move.topic!r} is being moved to another server: try again")
            await asyncio.sleep(0.05)

    async def configure(self, move: Move, request: Request, context: RouterContext) -> Response:
        body = await request.json(Raws)
        if "sealed" in body:
            raise InvalidRequest(
                f"sealed: topic {move.topic!r} is being moved, and the move seals the topic", field="sealed"
            )
        await move.look(context)
        if move.both_sealed_since is not None:
            raise NotReady(f"topic {move.topic!r} is being moved to another server: try again")
        answer = await self.send(move.live, request, context)
        if move.is_copied and not move.has_moved and answer.status == 200:
            await copies.configure(context, move.topic, move.dest, copies.of_a_copy(body))
        return answer

    async def list(self, request: Request, context: RouterContext) -> Response:
        """Returns the topics of both servers, with each moving or moved topic once."""

        def hiding(route: str) -> Renaming:
            """Returns a renaming that hides the second topic of a name, and other topics of the dest."""

            def shown(name: str) -> str:
                move = self.moves.topics.get(name)
                own = self.moves.source if move is None else move.live
                return name if own == route else HIDDEN

            return Renaming(str, shown)

        async def renamed(response: Response, route: str) -> Response:
            return await renamed_response(Operation.LIST_TOPICS, response, hiding(route))

        plain = request.replace(headers=[each for each in request.headers if each[0] != b"accept-encoding"])
        if not any(move.has_moved for move in self.moves.topics.values()):
            return await self.send(self.moves.source, request, context)
        parts = {
            route: Listed(plain, lambda response, route=route: renamed(response, route))  # type: ignore[misc]
            for route in (self.moves.source, self.moves.dest)
        }
        return await merged_list(context, request, parts, "topics", "topic")

    async def check_router(self, request: Request) -> None:
        """Raises BeingMoved for a router with a moving topic, because a router forwards within one server and cannot move."""
        body = await request.json()
        for key in ("source", "dest"):
            if body.get(key) in self.moves.topics:
                raise BeingMoved(str(body[key]))

    def explain(self, request: Request) -> str:
        if request.topic in self.moves.topics:
            return f"the topic may move: the route is {self.moves.source!r} before its flip, and {self.moves.dest!r} after it"
        return f"the topic does not move: the route is {self.moves.source!r}"


async def is_sealed(answer: Response) -> bool:
    """Returns whether a server refused a write because the topic is sealed."""
    if answer.status != 409 or not answer.is_json:
        return False
    error = (await answer.decoded()).get("error", {})
    return bool(error.get("code") == "topic_sealed")


async def is_repeat(answer: Response, done: Response) -> bool:
    """Returns whether a server has nothing to change at a cursor, because the change was done before, or was copied."""
    if not answer.is_json:
        return False
    told = await answer.decoded()
    error = told.get("error", {})
    is_there = error.get("code") == CursorMoved.code and error["detail"]["seq"] == (await done.decoded()).get("seq")
    return is_there or told.get("deleted") is False


class MigrateRouterFactory:
    """Moves live topics to another server."""

    offers_not = UNKNOWN

    def initialize(self, context: RouterFactoryContext, config: MigrateConfig) -> Moves:
        for name, route in (("from", config.source), ("to", config.dest)):
            if route not in context.route_names:
                raise PluginConfigError(f"{name}: route {route!r} does not exist.")
        if config.source == config.dest:
            raise PluginConfigError("to: expected another route than `from`.")
        if unused := set(context.route_names) - {config.source, config.dest}:
            raise PluginConfigError(f"routes: {', '.join(sorted(unused))} is never used: remove it.")
        moves = Moves(config.source, config.dest, config.topics)
        context.background(moves.follow)
        return moves

    def create_router(self, context: RouterFactoryContext, data: Moves) -> MigrateRouter:
        return MigrateRouter(data)
