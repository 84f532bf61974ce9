"""SpliceRouter: joins several topics, one after another, into one topic. Seqs continue from each topic to the next."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from base.patterns import matches
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
from gateway.rewrite.names import JOINING, UNKNOWN, topics_of
from gateway.routers.splice.calls import CALLS as PLAIN_CALLS
from gateway.routers.splice.calls import to_last
from gateway.routers.splice.cursors import CURSOR_CALLS
from gateway.routers.splice.listing import list_topics
from gateway.routers.splice.segments import Segment, SegmentRefused
from gateway.routers.splice.topic import Spliced
from gateway.routers.splice.watch import stream, topic_events, watch, watched

CALLS = {**PLAIN_CALLS, **CURSOR_CALLS, Operation.FOLLOW_TOPIC: topic_events}

Seq = Annotated[int, Meta(ge=0, le=2**62)]
TopicName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}\Z")]


class SegmentConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A segment of a spliced topic."""

    route: str | None = None
    """The route of the segment. A segment with `upto` alone stands for records that no server has."""
    topic: TopicName | None = None
    """The server's topic."""
    upto: Seq | None = None
    """The last seq that is shown. Every segment except the last needs it."""
    start: Seq = msgspec.field(name="from", default=0)
    """The last seq that is not shown."""


class SpliceConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The spliced topics."""

    topics: Annotated[dict[TopicName, list[SegmentConfig]], Meta(min_length=1)]
    """The segments of each spliced topic, the oldest first."""
    default: str | None = None
    """The route of all other topics and calls. Without it they are 404 `unknown_route`."""


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
        except SegmentRefused as refusal:
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
        if operation in JOINING:
            await self.check_others(request)
        if operation is Operation.FOLLOW_WATCH:
            return await stream(topics, default, context, request)
        return await context.send_request(context.any_node(self.default(request)), request)

    async def check_others(self, request: Request) -> None:
        """Raises NotOffered if the body names a spliced topic: as a source, dest, dead letter topic or queue, for example.

        A server would use its own topic of this name, which no reader of the spliced topic sees.
        """
        for given in await topics_of(request):  # a redrive without a queue names all of them
            name = next((each for each in self.splices.topics if matches(given, each)), None)
            if name is not None:
                raise NotOffered(
                    request.operation.value,
                    f"the body names {given!r}, and {name!r} consists of topics of several servers: name a topic of one server",
                )

    def default(self, request: Request) -> str:
        if self.splices.default is not None:
            return self.splices.default
        topic = request.topic
        raise UnknownRoute(
            f"no route takes {f'the topic {topic!r}' if topic else 'this call'}: the splice has no default",
            **({"topic": topic} if topic else {}),
        )

    def explain(self, request: Request) -> str:
        found = self.splices.topics.get(request.topic or "")
        if found is None:
            return "the call concerns no spliced topic"
        return " then ".join(f"{each.topic} of {each.route}" for each in found.segments if each.route is not None)


class SpliceRouterFactory:
    """Joins several topics, one after another, into one topic."""

    offers_not: ClassVar = {
        **UNKNOWN,
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
