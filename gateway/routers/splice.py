"""SpliceRouter: joins several topics, one after another, into one topic. Seqs continue from each topic to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from gateway.api import (
    Operation,
    PluginConfigError,
    Request,
    Response,
    RouterContext,
    RouterFactoryContext,
    RouterResponse,
)
from gateway.errors import NotOffered, UnknownRoute
from gateway.segments import Refusal, Segment
from gateway.spliced import Spliced
from gateway.spliced_calls import CALLS as PLAIN_CALLS
from gateway.spliced_calls import to_last, unzipped
from gateway.spliced_cursors import CURSOR_CALLS
from gateway.spliced_list import list_topics
from gateway.spliced_watch import stream, topic_events, watch, watched

CALLS = {**PLAIN_CALLS, **CURSOR_CALLS, Operation.FOLLOW_TOPIC: topic_events}

Seq = Annotated[int, Meta(ge=0, le=2**62)]
TopicName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}\Z")]


class SegmentConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A segment: the records of `topic` at `route` above the seq `from`, up to `upto`.

    The last segment has no `upto`. A segment with only `upto` stands for records that no server has any more.
    """

    route: str | None = None
    topic: TopicName | None = None
    upto: Seq | None = None
    start: Seq = msgspec.field(name="from", default=0)


class SpliceConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """`topics`: the segments of each spliced topic, oldest first. `default`: the route of all other requests."""

    topics: Annotated[dict[TopicName, list[SegmentConfig]], Meta(min_length=1)]
    default: str | None = None


class Splices:
    """The spliced topics of one virtual cluster, and the default route."""

    def __init__(self, config: SpliceConfig) -> None:
        self.topics = {name: spliced(name, segments) for name, segments in config.topics.items()}
        self.default = config.default


def spliced(name: str, configs: list[SegmentConfig]) -> Spliced:
    """Returns the spliced topic of a configuration. Raises PluginConfigError."""
    where = f"topics.{name}"
    segments: list[Segment] = []
    end = 0
    for number, each in enumerate(configs):
        is_last, which = number == len(configs) - 1, f"{where}: segment {number + 1}"
        if (each.route is None) != (each.topic is None) or (each.route is None and is_last):
            raise PluginConfigError(f"{which} needs a route and a topic.")
        if is_last and each.upto is not None:
            raise PluginConfigError(f"{which} is the last segment and takes the appends: remove its upto.")
        if not is_last and each.upto is None:
            raise PluginConfigError(f"{which} needs an upto, because only the last segment can grow.")
        if each.upto is not None and each.upto <= each.start:
            raise PluginConfigError(f"{which} is empty: its upto must be above its from.")
        offset = end - each.start if number else 0
        segments.append(Segment(name, each.route, each.topic or name, each.start, each.upto, offset))
        end = offset + (each.upto or 0)
    if not segments:
        raise PluginConfigError(f"{where}: expected at least one segment.")
    return Spliced(name, segments)


class SpliceRouter:
    def __init__(self, splices: Splices) -> None:
        self.splices = splices

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        try:
            return context.respond_with(await self.answer(operation, request, context))
        except Refusal as refusal:
            return context.respond_with(refusal.response)

    async def answer(self, operation: Operation, request: Request, context: RouterContext) -> Response:
        """Returns the answer to a request. Raises Refusal, TopicsError."""
        if context.virtual_node is not None:
            return await context.send_request(context.virtual_node, request)
        if request.topic in self.splices.topics:
            if request.method == "OPTIONS":
                return await to_last(self.splices.topics[request.topic], context, request)
            if operation not in CALLS:
                raise NotOffered(operation.value, f"{request.topic!r} consists of topics of several servers")
            return await CALLS[operation](self.splices.topics[request.topic], context, request)
        topics, default = self.splices.topics, self.splices.default
        if operation is Operation.WATCH and not topics.keys().isdisjoint(await watched(request)):
            return await watch(topics, default, context, request)
        if operation is Operation.LIST_TOPICS:
            return await list_topics(topics, default, context, request)
        if operation is Operation.PUT_ROUTER:
            await self.check_router(request)
        if operation is Operation.FOLLOW_WATCH:
            return await stream(topics, default, context, request)
        return await context.send_request(context.any_node(self.default(request)), request)

    async def check_router(self, request: Request) -> None:
        """Raises NotOffered for a router with a spliced topic, because a server forwards only its own topics."""
        body = await (await unzipped(request)).json()
        for key in ("source", "dest"):
            if isinstance(name := body.get(key), str) and name in self.splices.topics:
                raise NotOffered(
                    "put_router",
                    f"{key} {name!r} consists of topics of several servers, and a router forwards within one server",
                )

    def default(self, request: Request) -> str:
        if self.splices.default is not None:
            return self.splices.default
        topic = request.topic
        raise UnknownRoute(
            f"no route takes {f'the topic {topic!r}' if topic else 'this call'}: the splice has no default",
            **({"topic": topic} if topic else {}),
        )

    def static_routes(self) -> Mapping[Operation, str]:
        return {}

    def close(self) -> None: ...

    def explain(self, request: Request) -> str:
        found = self.splices.topics.get(request.topic or "")
        if found is None:
            return "the call concerns no spliced topic"
        return " then ".join(f"{each.topic} of {each.route}" for each in found.segments if each.route is not None)


class SpliceRouterFactory:
    """Joins several topics, one after another, into one topic."""

    offers_not: ClassVar = {
        Operation.GET_METRICS: "several servers have separate counters: ask each node of GET /v0/nodes",
    }

    def initialize(self, context: RouterFactoryContext, config: SpliceConfig) -> Splices:
        found = Splices(config)
        used = {each.route for segments in config.topics.values() for each in segments} | {config.default}
        for route in filter(None, used):
            if route not in context.route_names:
                raise PluginConfigError(f"route {route!r} does not exist.")
        if unused := set(context.route_names) - used:
            raise PluginConfigError(f"routes: {', '.join(sorted(unused))} is never used: remove it.")
        return found

    def create_router(self, context: RouterFactoryContext, data: Splices) -> SpliceRouter:
        return SpliceRouter(data)

    def close(self, data: Splices) -> None: ...
