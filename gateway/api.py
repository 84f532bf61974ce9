"""The API for plugins of the gateway: routers and filters, requests and responses.

A plugin is an ordinary Python package. The package names its factory as an entry point, in the group `topics.routers` or
`topics.filters`. The entry point's name is the `type` in the configuration:

    [project.entry-points."topics.routers"]
    ByHour = "my_package:ByHourFactory"

A router chooses the route of each request:

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

    class ByHourFactory:
        def initialize(self, context: RouterFactoryContext, config: ByHourConfig) -> ByHourConfig:
            if config.night_route not in context.route_names:
                raise PluginConfigError(f"nightRoute: route {config.night_route!r} does not exist")
            return config

        def create_router(self, context: RouterFactoryContext, data: ByHourConfig) -> ByHour:
            day, = set(context.route_names) - {data.night_route}
            return ByHour(data.night_route, day)

A filter can inspect and change requests and answers, and can answer requests:

    class Stamp:
        async def on_request(self, operation, request, context):
            return request.replace(headers=[*request.headers, (b"x-stamp", b"1")])

A plugin need not define the methods that have a default here, such as `static_routes`, `on_response` and `close`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from base.bodies import ArrivingBody, gathered
from base.errors import (
    Forbidden,
    InvalidRequest,
    NotFound,
    NotReady,
    PayloadTooLarge,
    Throttled,
    TopicNotFound,
    TopicsError,
    Unauthorized,
)
from contract import cloudevents
from contract.operations import Operation, called
from contract.paths import canonical
from gateway.bodies import HeldBody
from gateway.configuration.shapes import EVERYWHERE, Place
from http1.messages import find
from wire.request.inflate import gunzip, is_gzip

__all__ = [
    "ANONYMOUS",
    "Filter",
    "FilterContext",
    "FilterFactory",
    "FilterFactoryContext",
    "Forbidden",
    "Headers",
    "InvalidRequest",
    "NoConfig",
    "NodeState",
    "NotFound",
    "NotReady",
    "Operation",
    "Place",
    "PluginConfigError",
    "Request",
    "Response",
    "Router",
    "RouterContext",
    "RouterFactory",
    "RouterFactoryContext",
    "RouterResponse",
    "Subject",
    "Throttled",
    "TopicNotFound",
    "TopicState",
    "TopicsError",
    "TopologyService",
    "Unauthorized",
    "VirtualNode",
    "without",
]

Headers = Sequence[tuple[bytes, bytes]]  # names in lower case
MOST_BODY_BYTES = 64 * 1024 * 1024  # limit of `await response.read()`, and of `await request.body()` for large calls
MOST_CALL_BYTES = 1024 * 1024  # limit of `await request.body()` for all other calls: a server's default takes no more
CONTENT_ENCODING = b"content-encoding"
C = TypeVar("C", contravariant=True)
I = TypeVar("I")  # noqa: E741


class NoConfig(msgspec.Struct, forbid_unknown_fields=True):
    """For plugins without configuration."""


class PluginConfigError(Exception):
    """The configuration of a plugin cannot work.

    The message says what to change. If the message begins with a key (`nightRoute: …`), the report has the line of the key.
    """


@dataclass(frozen=True)
class Subject:
    """The client that sends a request, as identified by the virtual cluster's filters.

    Example: `Subject("billing", roles=("reader",))`. `name` is None for an anonymous client.
    """

    name: str | None
    roles: tuple[str, ...] = ()
    claims: Mapping[str, Any] = field(default_factory=dict, compare=False, hash=False)

    @property
    def is_anonymous(self) -> bool:
        return self.name is None


ANONYMOUS = Subject(None)


class Request:
    """One request on its way to a server. A request is immutable: `replace` returns a changed copy.

    `path` begins with `/v0/…`, without the prefix of the virtual cluster. In it only those characters are encoded that must be.
    `topic` is the topic in the path, or None. `name` is the other name in the path (cursor, router, wid, seq). `query` is the
    raw query string.

    Example: `request.replace(topic=f"eu.{request.topic}", headers=without(request.headers, b"authorization"))`.
    """

    __slots__ = ("_body", "_is_upgrade", "headers", "held", "method", "name", "operation", "path", "query", "topic")

    def __init__(
        self,
        method: str,
        path: str,
        query: str = "",
        headers: Headers = (),
        body: bytes | ArrivingBody = b"",
        *,
        is_upgrade: bool = False,
        held: HeldBody | None = None,
    ) -> None:
        """`held` counts the bytes that the gateway holds of a client's body. The gateway's own requests have none."""
        self.method, self.path, self.query, self.headers, self._body = method, canonical(path), query, headers, body
        self.operation, self.topic, self.name = called(method, self.path)
        self._is_upgrade, self.held = is_upgrade, held
        if is_upgrade:
            self.operation = Operation.UPGRADE

    def header(self, name: bytes) -> bytes | None:
        """Returns the last value of a header, as a server reads a repeated one, or None."""
        return find(self.headers, name)

    async def body(self) -> bytes:
        """Returns the whole body, unzipped, and keeps the body, so the request can still be sent.

        CloudEvents become the same append in JSON. The body has no Content-Encoding any more, so read the body before the
        headers. Raises TopicsError for a body that is not a valid gzip body or CloudEvent, and for one above 1 MiB, or 64 MiB if
        the call is an append, a publish, a handover or a part of a topic's state. Raises Throttled if the bodies of all requests
        of this process have 256 MiB.
        """
        try:
            self._body = await self._whole(MOST_BODY_BYTES if self.operation.is_large else MOST_CALL_BYTES)
        except PayloadTooLarge as error:
            raise too_large(error.detail["max"]) from error
        self.headers = without(self.headers, CONTENT_ENCODING)
        if self.operation is Operation.APPEND and cloudevents.is_sent(by_name := dict(self.headers)):
            self._body = cloudevents.as_append(by_name, self._body)
            self.headers = cloudevents.without_event(self.headers)
        return self._body

    async def _whole(self, most: int) -> bytes:
        """Returns the body, unzipped. Raises TopicsError."""
        if not isinstance(self._body, bytes):
            self._body = await gathered(self._body, most, self._hold)
        encoding = self.header(CONTENT_ENCODING)  # a server looks at the last header of a name only
        if encoding is None or not is_gzip(encoding):
            return self._body
        whole = gunzip(self._body, most)
        self._hold(len(whole))
        return whole

    def _hold(self, size: int) -> None:
        if self.held is not None:
            self.held.hold(size)

    async def json(self, shape: Any = dict[str, Any]) -> Any:
        """Returns the body as `shape`. An empty body counts as `{}`. Raises InvalidRequest."""
        try:
            return msgspec.json.decode(await self.body() or b"{}", type=shape)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"unreadable body: {error}") from error
        except RecursionError as error:
            raise InvalidRequest("the JSON is nested too deeply") from error

    @property
    def raw_body(self) -> bytes | ArrivingBody:
        """The body without reading: bytes, or a stream that can be sent once."""
        return self._body

    def replace(
        self,
        *,
        method: str | None = None,
        path: str | None = None,
        topic: str | None = None,
        query: str | None = None,
        headers: Headers | None = None,
        body: bytes | ArrivingBody | None = None,
    ) -> Request:
        """Returns this request with changes. `topic` also changes the topic in the path."""
        if topic is not None and path is None and self.topic is not None:
            path = rename_topic(self.path, topic)
        return Request(
            self.method if method is None else method,
            self.path if path is None else path,
            self.query if query is None else query,
            self.headers if headers is None else headers,
            self._body if body is None else body,
            is_upgrade=self._is_upgrade,
            held=self.held,
        )

    def __repr__(self) -> str:
        return f"<Request {self.operation.value} {self.method} {self.path}>"


def too_large(most: int) -> PayloadTooLarge:
    """Returns the refusal of a body that the gateway would have to hold. The server can take larger ones."""
    return PayloadTooLarge(f"the body is too large: the gateway reads it, and expects at most {most} bytes", max=most)


def rename_topic(path: str, topic: str) -> str:
    """Returns the path with another topic in the segment after `topics/` or `topic/`."""
    segments = path.split("/")
    for place_, segment in enumerate(segments[:-1]):
        if segment in ("topics", "topic"):
            segments[place_ + 1] = topic
            break
    return "/".join(segments)


def without(headers: Headers, *names: bytes) -> Headers:
    """Returns the headers except the headers with these names."""
    return [each for each in headers if each[0] not in names]


class Response:
    """An answer on its way to the client.

    `body` is bytes, or an async iterator of chunks. `length`: the length of a stream, if known.

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
        """Returns the last value of a header, as a server reads a repeated one, or None."""
        return find(self.headers, name)

    async def read(self) -> bytes:
        """Returns the whole body and keeps the body. Raises TopicsError above 64 MiB."""
        if not isinstance(self.body, bytes):
            parts = []
            size = 0
            async for part in self.body:
                size += len(part)
                if size > MOST_BODY_BYTES:
                    raise TopicsError("the answer is too large")
                parts.append(part)
            self.body, self.length = b"".join(parts), None
        return self.body

    async def decoded(self, shape: Any = dict[str, Any]) -> Any:
        """Returns the body as `shape`. Raises msgspec.MsgspecError if the body has another shape."""
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
    """A node of a route, from a router's view: opaque, hashable, comparable.

    Routers get nodes from their context, and pass them to `send_request`.

    Example: `node = context.any_node("eu"); answer = await context.send_request(node, request)`.
    """

    __slots__ = ("_is_any", "_node", "_place", "_route")

    def __init__(self, place: str, route: str, node: int | None, is_any: bool = False) -> None:
        """Only for the gateway itself. `place`: the router in the graph. `node`: None if an inner router decides."""
        self._place, self._route, self._node, self._is_any = place, route, node, is_any

    @property
    def route(self) -> str:
        """The name of its route."""
        return self._route

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
    """The decision of a router. Only the methods of RouterContext create decisions.

    Example: `return context.respond_with(response)`.
    """

    __slots__ = ("close_connection", "is_reply", "response")

    def __init__(self, response: Response | None, *, close_connection: bool = False) -> None:
        self.response, self.close_connection = response, close_connection
        self.is_reply = response is not None


@runtime_checkable
class Router(Protocol):
    """Decides on requests. Each client connection has its own instance, which can keep state in plain attributes.

    Example: see the head of this module.
    """

    async def on_request(self, operation: Operation, request: Request, context: RouterContext) -> RouterResponse:
        """Decides on one request. The next request of the connection waits for its answer, so writes keep their order.

        An exception becomes 502 `router_failed`. A TopicsError becomes its own answer.
        """
        ...

    def static_routes(self) -> Mapping[Operation, str] | str:
        """Returns the routes of operations that need no decision.

        Such operations are sent without a call of `on_request`. A single route name means that every operation takes the route.
        Then whole connections pass unparsed.
        """
        return {}

    def close(self) -> None:
        """Called when the client's connection ends."""
        return

    def still_leads_to(self, route: str, request: Request) -> bool:
        """Returns whether a new request like this would take the same route.

        Called every second for each open stream that this router sent to the route. After False, the stream ends, and its client
        connects again.
        """
        return True

    def explain(self, request: Request) -> str | None:
        """Returns the reason for the decision on a request, for `topics gateway explain`, or None."""
        return None


class RouterContext(Protocol):
    """The calls that a router can make for one request.

    Example: `return context.respond_with(await context.send_request(context.any_node("eu"), request))`.
    """

    virtual_node: VirtualNode | None
    """The node whose address the client used, or None at the virtual cluster's own address."""
    session_id: str
    """The id of the client connection, for all routers and filters."""
    authenticated_subject: Subject

    def any_node(self, route: str) -> VirtualNode:
        """Returns one of the route's live nodes, in turn. Raises UnknownRoute, NodeUnreachable."""
        ...

    def node_for_id(self, virtual_node_id: int) -> VirtualNode:
        """Returns the node with this virtual id. Raises UnknownRoute."""
        ...

    async def send_request(self, node: VirtualNode, request: Request) -> Response:
        """Sends a request through the route's filters to its node. Raises TopicsError if no answer arrives."""
        ...

    def respond_with(self, response: Response, *, close_connection: bool = False) -> RouterResponse: ...

    def respond_with_error(
        self, request: Request, error: Exception, *, close_connection: bool = False
    ) -> RouterResponse:
        """Returns the error in the error format of `/v0`. An error other than a TopicsError becomes 502 without its message."""
        ...

    def respond_without_reply(self) -> RouterResponse:
        """Returns 202 without a body, for a client that wants no answer (`Prefer: respond-async`)."""
        ...

    def seal(self, kind: str, value: Any) -> str:
        """Returns a signed identifier that contains `value`, a JSON value of the router.

        Used for cursors and wids of several servers.
        """
        ...

    def unseal(self, kind: str, identifier: str) -> Any:
        """Returns the value of an identifier that `seal` created for this client. Raises InvalidRequest."""
        ...


class RouterFactory(Protocol[C, I]):
    """Creates the routers of one virtual cluster.

    The type of `config` is the annotation in `initialize`: a msgspec.Struct. Faults in the configuration are reported with
    their line in the file.

    Example: see the head of this module.
    """

    offers_not: Mapping[Operation, str] = {}
    """Operations that the plugin cannot serve, each with the reason. They are 501.

    Example: `offers_not = {Operation.GET_METRICS: "counters of several servers are not one server's"}`.
    """
    breaks: Mapping[Operation, str] = {}
    """Operations that pass and lose a promise of the server, each with the reason (docs/gateway-plugins.md)."""
    passes_upgrades: bool = False
    """Whether a WebSocket passes, because the plugin decides without its frames. Otherwise requests for one are 501."""
    decides_identifiers: bool = False
    """Whether the router is also asked about identifiers that one of its servers issued (a watch id, a cursor of a list).

    Otherwise such a request goes to the server that issued the identifier, without a call of `on_request`.
    """

    def initialize(self, context: RouterFactoryContext, config: C) -> I:
        """Called once per virtual cluster in each process, at the start and at a reload that changes the virtual cluster.

        While the changed file has a fault, the reload is repeated every second. `create_router` and, at the end, `close` get the
        returned object. Raises PluginConfigError.
        """
        ...

    def create_router(self, context: RouterFactoryContext, data: I) -> Router:
        """Called once per client connection."""
        ...

    def close(self, data: I) -> None:
        """Called when the virtual cluster has ended and all its routers are closed."""
        return


class RouterFactoryContext(Protocol):
    """A router's environment in the configuration.

    Example: `if config.default not in context.route_names: raise PluginConfigError("default: no such route")`.
    """

    virtual_cluster_name: str
    router_name: str
    route_names: Sequence[str]

    def allow_shared_cluster_targets(self) -> None:
        """Allows several routes to reach the same cluster. Call this method in `initialize`."""
        ...

    def plugin_instance(self, kind: str, name: str) -> Any:
        """Returns the factory of a plugin.

        `kind`: `router` or `filter`. `name`: the plugin's type. Raises PluginConfigError.
        """
        ...

    def plugin_names(self, kind: str) -> Sequence[str]: ...

    def file(self, name: str) -> Path:
        """Returns the path of a file that the configuration names, relative to the configuration's folder."""
        ...

    def topology_service(self) -> TopologyService:
        """Returns the topology of this router's routes.

        The gateway collects a topology only for routers that call this method.
        """
        ...

    def gauge(self, name: str, help: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Adds a number by route to the gateway's metrics, as `topics_gateway_<name>`. Call this method in `initialize`.

        `read` returns the numbers of this process. The metrics show the largest number of all processes.
        """
        ...

    def background(self, work: Callable[[RouterContext], Awaitable[None]]) -> None:
        """Runs `work` in each gateway process while the process serves the virtual cluster. Call this method in `initialize`.

        The context sends the router's own requests. At the end `work` is cancelled. After an exception `work` starts again.
        """
        ...


@dataclass(frozen=True)
class TopicState:
    """A topic at one moment, as reported by a route's server.

    Example: `(await topology.topics("eu", ["orders"]))["orders"].exists`.
    """

    exists: bool
    head_seq: int = 0
    earliest_seq: int = 1


@dataclass(frozen=True)
class NodeState:
    """A node of a route, in the view of the gateway's probes. `state`: `up`, `down` or `unknown`."""

    node: VirtualNode
    state: str


class TopologyService(Protocol):
    """Cached facts about topics and nodes behind the routes.

    The snapshots are immutable and shared by all connections of a router. Use them only for routing, never for access
    decisions.

    Example: `found = await topology.topics("eu", [request.topic]); route = "eu" if found[request.topic].exists else "us"`.
    """

    async def topics(self, route: str, names: Iterable[str]) -> Mapping[str, TopicState]: ...
    def nodes(self, route: str) -> Sequence[NodeState]: ...
    def invalidate_route(self, route: str) -> None: ...


@runtime_checkable
class Filter(Protocol):
    """Sees all requests and answers of a route, or of a virtual cluster before its router.

    Each position in the configuration has one instance per client connection.

    Example: see the head of this module.
    """

    async def on_request(self, operation: Operation, request: Request, context: FilterContext) -> Request | Response:
        """Returns the request to send on, or an answer. An answer goes back through the earlier filters."""
        ...

    async def on_response(self, operation: Operation, response: Response, context: FilterContext) -> Response:
        """Returns the answer to pass back. Called for each request that `on_request` let pass.

        An error behind the filter is an answer, too. It stays an error for a router in front. The status 499 means that the
        client left before the answer, so the result is discarded.
        """
        return response

    def still_allows(self, context: FilterContext) -> bool:
        """Returns whether this filter would still let the request of an open stream pass. Called every second.

        After False, the stream ends with `unauthorized`.
        """
        return True


class FilterContext(Protocol):
    """The calls that a filter can make for one request.

    Example: `context.authenticated_subject = Subject("billing")`, in a filter of a virtual cluster.
    """

    virtual_cluster_name: str
    route: str | None
    """The filter's route, or None for a filter of the virtual cluster."""
    session_id: str
    authenticated_subject: Subject
    """Set by a virtual cluster's filters, before the router gets the request."""
    origin: str
    """The client's address."""
    peer_certificate: Mapping[str, Any] | None
    """The client's certificate, in the format of ssl.SSLSocket.getpeercert. None without TLS or certificate."""
    request: Request
    """The request as the filter received the request, for use in `on_response`."""
    kept: Any
    """For the filter's own use, from `on_request` to `on_response` and `still_allows`. None at first."""

    async def send_request(self, request: Request) -> Response:
        """Sends a request of the filter itself. The request passes only the filters between this filter and the server."""
        ...


class FilterFactory(Protocol[C, I]):
    """Creates the filters of one place in the configuration, like RouterFactory creates routers.

    Example:

        class StampFactory:
            def initialize(self, context: FilterFactoryContext, config: StampConfig) -> StampConfig: return config
            def create_filter(self, context: FilterFactoryContext, data: StampConfig) -> Stamp: return Stamp()
    """

    places: frozenset[Place] = EVERYWHERE
    """Where the filter may stand in the configuration."""
    once: bool = False
    """Whether a chain may have only one filter of this type."""
    offers_not: Mapping[Operation, str] = {}
    """As of a RouterFactory."""
    breaks: Mapping[Operation, str] = {}
    """As of a RouterFactory."""
    passes_upgrades: bool = False
    """As of a RouterFactory."""

    def initialize(self, context: FilterFactoryContext, config: C) -> I: ...
    def create_filter(self, context: FilterFactoryContext, data: I) -> Filter: ...
    def close(self, data: I) -> None:
        """As of a RouterFactory."""
        return


class FilterFactoryContext(Protocol):
    """A filter's environment in the configuration. `route`: None for a virtual cluster."""

    virtual_cluster_name: str
    filter_name: str
    route: str | None

    def file(self, name: str) -> Path:
        """Returns the path of a file that the configuration names, relative to the configuration's folder."""
        ...
