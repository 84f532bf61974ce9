"""What a plugin of the gateway is written against: routers and filters, requests and responses.

A plugin is an ordinary Python package. It names its factory as an entry point, in the group `topics.routers` or `topics.filters`;
the entry point's name is the `type` in the configuration:

    [project.entry-points."topics.routers"]
    ByHour = "my_package:ByHourFactory"

A router decides for each request which route it takes:

    import msgspec
    from gateway.api import Operation, Request, Router, RouterContext, RouterFactoryContext, RouterResponse

    class ByHourConfig(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
        night_route: str

    class ByHour:
        def __init__(self, night: str, day: str) -> None:
            self.night, self.day = night, day

        async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
            route = self.night if is_night() else self.day
            return context.respond_with(await context.send_request(context.any_node(route), request))

        def static_routes(self):
            return {}

        def close(self) -> None:
            pass

    class ByHourFactory:
        def initialize(self, context: RouterFactoryContext, config: ByHourConfig) -> ByHourConfig:
            if config.night_route not in context.route_names:
                raise PluginConfigError(f"nightRoute: there is no route {config.night_route!r}")
            return config

        def create_router(self, context: RouterFactoryContext, data: ByHourConfig) -> ByHour:
            day, = set(context.route_names) - {data.night_route}
            return ByHour(data.night_route, day)

        def close(self, data: ByHourConfig) -> None:
            pass

A filter looks at what passes, and may change it or answer itself:

    class Stamp:
        async def on_request(self, operation, request, context):
            return request.replace(headers=[*request.headers, (b"x-stamp", b"1")])

        async def on_response(self, operation, response, context):
            return response
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from base.errors import InvalidRequest, TopicsError
from gateway.operations import Operation, place

__all__ = [
    "ANONYMOUS",
    "Filter",
    "FilterContext",
    "FilterFactory",
    "FilterFactoryContext",
    "Headers",
    "NodeState",
    "Operation",
    "PluginConfigError",
    "Request",
    "Response",
    "Router",
    "RouterContext",
    "RouterFactory",
    "RouterFactoryContext",
    "RouterResponse",
    "Subject",
    "TopicState",
    "TopologyService",
    "VirtualNode",
]

Headers = Sequence[tuple[bytes, bytes]]  # names in lower case
MOST_BODY_BYTES = 64 * 1024 * 1024  # what `await request.body()` and `await response.read()` hold
C = TypeVar("C", contravariant=True)
I = TypeVar("I")  # noqa: E741


class PluginConfigError(Exception):
    """The configuration of a plugin cannot work. The message says what to change. If it begins with a key (`nightRoute: …`), the
    report has the line of that key."""


@dataclass(frozen=True)
class Subject:
    """Who asks, as the virtual cluster's filters found out.

    Example: `Subject("billing", roles=("reader",))`. `name` is None for a client that said nothing of itself.
    """

    name: str | None
    roles: tuple[str, ...] = ()
    claims: Mapping[str, Any] = field(default_factory=dict, compare=False, hash=False)

    @property
    def is_anonymous(self) -> bool:
        return self.name is None


ANONYMOUS = Subject(None)


class Stream(Protocol):
    """A body that is still arriving (http1.Body)."""

    length: int | None

    async def read(self, most: int | None = None) -> bytes: ...
    def __aiter__(self) -> AsyncIterator[bytes]: ...


class Request:
    """One request on its way to a server. It is not changed: `replace` makes another one.

    `path` begins with `/v0/…`, without the prefix of the virtual cluster. `topic` is the topic in the path, None where there is
    none; `name` the other name in it (cursor, router, wid, seq). `query` is the raw query string.

    Example: `request.replace(topic=f"eu.{request.topic}", headers=without(request.headers, b"authorization"))`.
    """

    __slots__ = ("_body", "_is_upgrade", "headers", "method", "name", "operation", "path", "query", "topic")

    def __init__(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers = (),
        body: bytes | Stream = b"",
        *,
        is_upgrade: bool = False,
    ) -> None:
        self.method, self.path, self.query, self.headers, self._body = method, path, query, headers, body
        self.operation, self.topic, self.name = place(method, path)
        self._is_upgrade = is_upgrade
        if is_upgrade:
            self.operation = Operation.UPGRADE

    def header(self, name: bytes) -> bytes | None:
        """Returns the first value of a header, None where it is absent."""
        for each, value in self.headers:
            if each == name:
                return value
        return None

    async def body(self) -> bytes:
        """Returns the whole body, and keeps it: the request may still be sent. Raises TopicsError for one that is too large."""
        if not isinstance(self._body, bytes):
            self._body = await self._body.read(MOST_BODY_BYTES)
        return self._body

    async def json(self, shape: Any = dict[str, Any]) -> Any:
        """Returns the body as `shape`, an empty one as `{}`. Raises InvalidRequest."""
        try:
            return msgspec.json.decode(await self.body() or b"{}", type=shape)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"the body cannot be read: {error}") from error

    @property
    def raw_body(self) -> bytes | Stream:
        """The body as it is: bytes, or a stream that can be sent once."""
        return self._body

    def replace(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        topic: str | None = None,
        query: str | None = None,
        headers: Headers | None = None,
        body: bytes | Stream | None = None,
    ) -> Request:
        """Returns this request with changes. `topic` changes the topic within the path."""
        if topic is not None and path is None and self.topic is not None:
            path = rename_topic(self.path, topic)
        return Request(
            self.method if method is None else method,
            self.path if path is None else path,
            self.query if query is None else query,
            self.headers if headers is None else headers,
            self._body if body is None else body,
            is_upgrade=self._is_upgrade,
        )

    def __repr__(self) -> str:
        return f"<Request {self.operation.value} {self.method} {self.path}>"


def rename_topic(path: str, topic: str) -> str:
    """Returns the path with another topic in the place of its own: behind `topics/` or `topic/`."""
    segments = path.split("/")
    for place_, segment in enumerate(segments[:-1]):
        if segment in ("topics", "topic"):
            segments[place_ + 1] = topic
            break
    return "/".join(segments)


def without(headers: Headers, *names: bytes) -> Headers:
    """Returns the headers without those of these names."""
    return [each for each in headers if each[0] not in names]


class Response:
    """An answer on its way to the client. `body` is bytes, or an async iterator of chunks. `length`: of a stream.

    Example: `Response(200, [(b"content-type", b"application/json")], b"{}")`, or `Response.json(200, {"topics": []})`.
    """

    __slots__ = ("body", "headers", "length", "status")

    def __init__(
        self, status: int, headers: Headers = (), body: bytes | AsyncIterator[bytes] = b"", *, length: int | None = None
    ) -> None:
        self.status, self.headers, self.body, self.length = status, headers, body, length

    @classmethod
    def json(cls, status: int, value: Any, headers: Headers = ()) -> Response:
        return cls(status, [(b"content-type", b"application/json"), *headers], msgspec.json.encode(value))

    def header(self, name: bytes) -> bytes | None:
        """Returns the first value of a header, None where it is absent."""
        for each, value in self.headers:
            if each == name:
                return value
        return None

    async def read(self) -> bytes:
        """Returns the whole body, and keeps it."""
        if not isinstance(self.body, bytes):
            parts = []
            size = 0
            async for part in self.body:
                size += len(part)
                if size > MOST_BODY_BYTES:
                    raise TopicsError("an answer is too large to be read whole")
                parts.append(part)
            self.body, self.length = b"".join(parts), None
        return self.body

    async def decoded(self, shape: Any = dict[str, Any]) -> Any:
        """Returns the body as `shape`. Raises msgspec.MsgspecError for one that is not of that shape."""
        return msgspec.json.decode(await self.read(), type=shape)

    def replace(
        self,
        *,
        status: int | None = None,
        headers: Headers | None = None,
        body: bytes | AsyncIterator[bytes] | None = None,
    ) -> Response:
        """Returns this answer with changes."""
        return Response(
            self.status if status is None else status,
            self.headers if headers is None else headers,
            self.body if body is None else body,
            length=self.length if body is None else None,
        )

    @property
    def is_json(self) -> bool:
        return (self.header(b"content-type") or b"").startswith(b"application/json")


class VirtualNode:
    """A node of a route, as routers know it: opaque, hashable, comparable. Routers get nodes from their context and hand them
    back to `send_request`.

    Example: `node = context.any_node("eu"); answer = await context.send_request(node, request)`.
    """

    __slots__ = ("_is_any", "_node", "_place", "_route")

    def __init__(self, place: str, route: str, node: int | None, is_any: bool = False) -> None:
        """For the runtime alone. `place`: the router in the graph. `node`: None where an inner router decides."""
        self._place, self._route, self._node, self._is_any = place, route, node, is_any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VirtualNode) and (self._place, self._route, self._node) == (
            other._place,
            other._route,
            other._node,
        )

    def __hash__(self) -> int:
        return hash((self._place, self._route, self._node))

    def __repr__(self) -> str:
        return f"<VirtualNode of {self._route}>"


class RouterResponse:
    """The decision of a router. Made by the builders of RouterContext alone.

    Example: `return context.respond_with(response)`.
    """

    __slots__ = ("close_connection", "is_reply", "response")

    def __init__(self, response: Response | None, *, close_connection: bool = False) -> None:
        self.response, self.close_connection = response, close_connection
        self.is_reply = response is not None


@runtime_checkable
class Router(Protocol):
    """One instance for each client connection. It keeps what belongs to that connection in plain attributes.

    Example: see the head of this module.
    """

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        """Decide on one request. Several requests of one connection may be in flight; the answers leave in their order.

        An exception is 502 `router_failed`; a TopicsError is the answer that it says.
        """
        ...

    def static_routes(self) -> Mapping[Operation, str] | str:
        """The routes of operations that need no decision: those are sent without a call of `on_request`. A route's name alone
        says that every operation goes there, so that whole connections pass unparsed."""
        ...

    def close(self) -> None:
        """The client's connection ended."""
        ...


class RouterContext(Protocol):
    """What a router may do with one request.

    Example: `return context.respond_with(await context.send_request(context.any_node("eu"), request))`.
    """

    virtual_node: VirtualNode | None
    """The node whose address the client used; None at the virtual cluster's own address."""
    session_id: str
    """Stays with the client connection, for all routers and filters."""
    authenticated_subject: Subject

    def any_node(self, route: str) -> VirtualNode:
        """Returns one of the route's live nodes, each in turn. Raises UnknownRoute, NodeUnreachable."""
        ...

    def node_for_id(self, virtual_node_id: int) -> VirtualNode:
        """Returns the node with this virtual id. Raises UnknownRoute."""
        ...

    async def send_request(self, node: VirtualNode, request: Request) -> Response:
        """Send a request through the route's filters to its node. Raises TopicsError where no answer comes."""
        ...

    def respond_with(self, response: Response, *, close_connection: bool = False) -> RouterResponse: ...

    def respond_with_error(
        self, request: Request, error: Exception, *, close_connection: bool = False
    ) -> RouterResponse:
        """The error in the wire's shape. An error that is no TopicsError is told as 502 without its message."""
        ...

    def respond_without_reply(self) -> RouterResponse:
        """For a client that asked for no answer (`Prefer: respond-async`): 202 without a body."""
        ...

    def seal(self, kind: str, value: Any) -> str:
        """Returns an identifier that holds `value`, JSON of the router's own, signed: a cursor or a wid of several servers."""
        ...

    def unseal(self, kind: str, identifier: str) -> Any:
        """Returns the value of an identifier that `seal` made, for this client. Raises InvalidRequest."""
        ...


class RouterFactory(Protocol[C, I]):
    """Makes the routers of one virtual cluster. The type of `config` is the annotation in `initialize`: a msgspec.Struct, whose
    faults are reported with their line in the file.

    A factory, also of a filter, may declare `offers_not` and `breaks`, each a mapping from Operation to a reason
    (docs/gateway.md, "What a plugin breaks"):

        offers_not = {Operation.METRICS: "counters of several servers are not one server's"}
        breaks = {Operation.WATCH_STREAM: "a stream ends at each switch"}

    `passes_upgrades = True` says that the plugin decides without a look into the frames of a WebSocket. Without it, requests
    for a WebSocket are 501 behind the plugin.

    Example: see the head of this module.
    """

    def initialize(self, context: RouterFactoryContext, config: C) -> I:
        """Once for each virtual cluster, at the start and at a reload. Raises PluginConfigError."""
        ...

    def create_router(self, context: RouterFactoryContext, data: I) -> Router:
        """Once for each client connection."""
        ...

    def close(self, data: I) -> None:
        """The virtual cluster ended, and every router of it is closed."""
        ...


class RouterFactoryContext(Protocol):
    """Where a router stands in the configuration.

    Example: `if config.default not in context.route_names: raise PluginConfigError("default: no such route")`.
    """

    virtual_cluster_name: str
    router_name: str
    route_names: Sequence[str]

    def allow_shared_cluster_targets(self) -> None:
        """Called in `initialize` by a router whose routes may reach the same cluster."""
        ...

    def plugin_instance(self, kind: str, name: str) -> Any:
        """Returns the factory of a plugin. `kind`: `router` or `filter`; `name`: its type. Raises PluginConfigError."""
        ...

    def plugin_names(self, kind: str) -> Sequence[str]: ...

    def file(self, name: str) -> Path:
        """Returns the path of a file that the configuration names, relative to the configuration's folder."""
        ...

    def topology_service(self) -> TopologyService:
        """Returns the topology of this router's routes. A router that never asks pays nothing."""
        ...

    def gauge(self, name: str, help: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Called in `initialize`: show a number by route in the gateway's metrics, as `topics_gateway_<name>`.

        `read` returns the numbers of this process. Of several processes, the largest number is shown.
        """
        ...

    def background(self, work: Callable[[RouterContext], Awaitable[None]]) -> None:
        """Called in `initialize`: each gateway process does `work` from when it serves the virtual cluster until that ends. The
        context sends requests of the router's own. `work` is cancelled at the end. After an exception it begins again.
        """
        ...


@dataclass(frozen=True)
class TopicState:
    """A topic as a route's server told of it, at one moment.

    Example: `(await topology.topics("eu", ["orders"]))["orders"].exists`.
    """

    exists: bool
    head_seq: int = 0
    earliest_seq: int = 1


@dataclass(frozen=True)
class NodeState:
    """A node of a route, as the gateway's probes see it. `state`: `up`, `down` or `unknown`."""

    node: VirtualNode
    state: str


class TopologyService(Protocol):
    """What is known of topics and nodes behind the routes: immutable snapshots, cached for all connections of one router. It is
    a hint for routing, and never decides what a client may do.

    Example: `found = await topology.topics("eu", [request.topic]); route = "eu" if found[request.topic].exists else "us"`.
    """

    async def topics(self, route: str, names: Iterable[str]) -> Mapping[str, TopicState]: ...
    def nodes(self, route: str) -> Sequence[NodeState]: ...
    def invalidate_route(self, route: str) -> None: ...


@runtime_checkable
class Filter(Protocol):
    """Sees what passes a route, or a virtual cluster before its router. One instance for each place in the configuration and
    each client connection.

    Example: see the head of this module.
    """

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        """Returns the request to send on, or the answer, which then goes back through the filters before this one."""
        ...

    async def on_response(self, operation: Operation, response: Response, context: FilterContext) -> Response:
        """Returns the answer to hand back."""
        ...


class FilterContext(Protocol):
    """What a filter may do with one request.

    Example: `context.authenticated_subject = Subject("billing")`, in a filter of a virtual cluster.
    """

    virtual_cluster_name: str
    route: str | None
    """The route that the filter stands on; None: on the virtual cluster."""
    session_id: str
    authenticated_subject: Subject
    """Set by a virtual cluster's filters, before the router sees the request."""
    origin: str
    """The client's address."""
    peer_certificate: Mapping[str, Any] | None
    """The client's certificate, as ssl.SSLSocket.getpeercert has it; None without TLS or certificate."""
    request: Request
    """The request as the filter got it: `on_response` may need to know."""

    async def send_request(self, request: Request) -> Response:
        """Send a request of the filter's own. It passes the filters between this one and the server, and no others."""
        ...


class FilterFactory(Protocol[C, I]):
    """Makes the filters of one place in the configuration, as RouterFactory makes routers.

    Example:

        class StampFactory:
            def initialize(self, context: FilterFactoryContext, config: StampConfig) -> StampConfig: return config
            def create_filter(self, context: FilterFactoryContext, data: StampConfig) -> Stamp: return Stamp()
            def close(self, data: StampConfig) -> None: ...
    """

    def initialize(self, context: FilterFactoryContext, config: C) -> I: ...
    def create_filter(self, context: FilterFactoryContext, data: I) -> Filter: ...
    def close(self, data: I) -> None: ...


class FilterFactoryContext(Protocol):
    """Where a filter stands in the configuration. `route`: None on a virtual cluster."""

    virtual_cluster_name: str
    filter_name: str
    route: str | None

    def file(self, name: str) -> Path:
        """Returns the path of a file that the configuration names, relative to the configuration's folder."""
        ...
