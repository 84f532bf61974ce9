"""The path of a request: filters of the virtual cluster, router, filters of the route, server, and back.

A `Session` is one client connection at one virtual cluster, with its own routers and filters. A `RoutedCall` is one request of a
session.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from base.errors import InvalidRequest, TopicsError
from gateway.api import (
    ANONYMOUS,
    Filter,
    FilterContext,
    Operation,
    Request,
    Response,
    Router,
    RouterContext,
    RouterResponse,
    Subject,
    VirtualNode,
    without,
)
from gateway.configuration.graph import ClusterPlace, FilterPlace, RoutePlace, RouterPlace, VirtualClusterPlace
from gateway.errors import NodeUnreachable, NotOffered, RouterFailed, UnknownRoute
from gateway.proxy import exchange
from gateway.proxy.answers import refusal
from gateway.proxy.forwarded import Client
from gateway.proxy.streams import Way
from gateway.rewrite.frames import ChangedIds
from gateway.rewrite.identifiers import identifier_in
from gateway.rewrite.ids import Foreign, Seal
from gateway.rewrite.names import LAST_EVENT_ID, with_header, with_last_id
from http1 import Refused

log = logging.getLogger(__name__)
Next = Callable[[Request], Awaitable[Response]]
PREFER_NO_ANSWER = b"respond-async"
CLIENT_LEFT = 499  # what filters see if the client ended its connection before the answer. It is never sent
Shown = tuple[tuple[str, ...], str | None]  # of a wrapped id: the way to its server, and the subject's name
NO_ID_OF_THIS_STREAM = "invalid Last-Event-ID: this stream gave out other ids. Connect without it"


class Session:
    """One client connection at one virtual cluster."""

    def __init__(
        self, site: VirtualClusterPlace, seal: Seal, session_id: str, certificate: Mapping[str, Any] | None
    ) -> None:
        self.site, self.seal, self.id, self.certificate = site, seal, session_id, certificate
        self.routers: dict[RouterPlace, Router] = {}
        self.filters: dict[FilterPlace, Filter] = {}
        self.key, self.keys = b"", 0  # prefix of the session's idempotency keys, and their count
        site.sessions.add(self)

    def send(
        self, call: RoutedCall, place: ClusterPlace, request: Request, node_id: int | None, *, is_any: bool
    ) -> Coroutine[Any, Any, Response]:
        return exchange.send(call, place, request, node_id, is_any=is_any)

    def new_key(self) -> bytes:
        """Returns a unique idempotency key for an append without a key."""
        if not self.keys:
            self.key = secrets.token_hex(16).encode()
        self.keys += 1
        return b"gateway-%b-%d" % (self.key, self.keys)

    def router(self, place: RouterPlace) -> Router:
        if place not in self.routers:
            self.routers[place] = place.create()
        return self.routers[place]

    def filter(self, place: FilterPlace) -> Filter:
        if place not in self.filters:
            self.filters[place] = place.create()
        return self.filters[place]

    def close(self) -> None:
        """Closes the routers. A second call changes nothing."""
        self.site.sessions.discard(self)
        routers, self.routers = self.routers, {}
        for router in routers.values():
            try:
                router.close()
            except Exception:
                log.exception("A router failed at the end of its connection")


class RoutedCall:
    """One request of a session.

    `client`: None for a request of the gateway itself. `maybe_written`: a write was sent and may have happened. `route`: the last
    way of the request (`outer/inner`).
    """

    def __init__(self, session: Session, operation: Operation, client: Client | None = None) -> None:
        self.session, self.operation, self.client = session, operation, client
        self.subject: Subject = ANONYMOUS
        self.maybe_written = self.wants_no_answer = self.closes = False
        self.route: str | None = None
        self.mode = "dynamic"
        self.filters_asking = 0  # own requests of filters in flight: their answers are not the client's
        self.shown: Shown | None = None  # the signed content of the client's Last-Event-ID
        self.stream_way: tuple[str, ...] = ()  # the way to the server of a watch stream; empty for a stream of a router
        self.way = Way(session.site)  # of a stream
        self.refused: tuple[Exception, Response] | None = None  # the last error, and its answer as filters changed it
        self.hopeless: TopicsError | None = (
            None  # what the client will be told, unless a filter refuses the request before
        )

    @property
    def is_stream(self) -> bool:
        return self.operation.is_stream or self.operation is Operation.UPGRADE

    async def run(
        self,
        request: Request,
        virtual_node: VirtualNode | None,
        real_node: int | None,
        refused: TopicsError | None = None,
        own: Response | None = None,
    ) -> RouterResponse:
        """Runs a request through the whole path.

        `real_node`: the node that the client chose, in a virtual cluster without a router. `refused`: the request cannot be
        answered, but the filters see it and its refusal. `own`: the gateway's own answer, which the filters also see. Raises
        TopicsError.
        """
        site, self.hopeless = self.session.site, refused
        prefer = request.header(b"prefer")
        self.wants_no_answer = prefer is not None and PREFER_NO_ANSWER in prefer.lower()
        has_ids = site.wraps and request.operation is Operation.FOLLOW_WATCH
        try:
            if request.operation.is_stream:
                request = with_last_id(request)
            if has_ids:
                request = self.without_wrapped_id(request)
        except InvalidRequest as error:
            self.hopeless = self.hopeless or error

        async def last(request: Request) -> Response:
            if self.hopeless is not None:
                raise self.hopeless
            if own is not None and request.operation not in site.without:
                return own
            return await self.decided(request, virtual_node, real_node)

        response = await (self.filtered(site.filters, request, last) if site.filters else last(request))
        if has_ids and response.status == 200 and not isinstance(response.body, bytes):
            response = response.replace(body=ChangedIds(response.body, self.wrap_id))
        return RouterResponse(response, close_connection=self.closes)

    async def decided(self, request: Request, virtual_node: VirtualNode | None, real_node: int | None) -> Response:
        """Runs the request after the filters of the virtual cluster. Raises TopicsError."""
        decided = await self.root(request, virtual_node, real_node)
        if not self.filters_asking:
            self.closes = decided.close_connection
            self.check_reply(decided)
        return decided.response if decided.response is not None else Response(202)

    def check_reply(self, decided: RouterResponse) -> None:
        """Warns about a router that answers although no answer is wanted, or the reverse."""
        root = self.session.site.root
        if not isinstance(root, RouterPlace) or self.mode == "static":
            return
        if self.wants_no_answer and decided.is_reply:
            warn_once(root.name, "answered a request with Prefer: respond-async, which expects no answer")
        elif not self.wants_no_answer and not decided.is_reply:
            warn_once(root.name, "did not answer a request that expects an answer")

    async def root(self, request: Request, virtual_node: VirtualNode | None, real_node: int | None) -> RouterResponse:
        site, operation = self.session.site, request.operation
        if operation in site.without:
            raise NotOffered(operation.value, site.not_offered[operation])
        root = site.root
        if isinstance(root, ClusterPlace):
            return RouterResponse(await self.session.send(self, root, request, real_node, is_any=real_node is None))
        issued = self.issuer(request)
        self.stream_way = issued or ()
        if self.shown is not None and self.shown != (self.stream_way, self.subject.name):
            raise InvalidRequest(NO_ID_OF_THIS_STREAM)
        if issued is not None:
            return RouterResponse(await self.deliver_to(root, issued, request))
        return await self.ask(root, request, virtual_node)

    async def filtered(self, places: Sequence[FilterPlace], request: Request, last: Next, first: int = 0) -> Response:
        """Runs the filters from number `first` on, and then in reverse order the filters that the request passed.

        The filters also see the answer to a request that failed or was refused behind them. Then raises its error, because
        routers decide by errors. `answer_to` returns the answer as the filters changed it.
        """
        passed: list[tuple[FilterPlace, Filter, RequestContext]] = []
        error: Exception | None = None
        try:
            response = await self.forward(places, request, last, first, passed)
        except asyncio.CancelledError:
            await self.back(passed, Response(CLIENT_LEFT))
            raise
        except Exception as failure:
            error = failure
            response = self.answer_to(failure)
        response, failed = await self.back(passed, response)
        error = failed or error
        if error is not None:
            self.refused = error, response
            raise error
        return response

    async def forward(
        self,
        places: Sequence[FilterPlace],
        request: Request,
        last: Next,
        first: int,
        passed: list[tuple[FilterPlace, Filter, RequestContext]],
    ) -> Response:
        """Runs the filters and what is behind them. Adds each filter that let the request pass to `passed`."""
        for number in range(first, len(places)):
            place = places[number]
            if request.operation in place.offers_not:
                raise self.hopeless or NotOffered(request.operation.value, place.offers_not[request.operation])
            context = RequestContext(self, places, number, last, request)
            try:
                filter_ = self.session.filter(place)
                result = await filter_.on_request(request.operation, request, context)
            except Exception as error:
                raise self.failed(f"filter {place.name}", error) from error
            if isinstance(result, Response):
                return result
            request = result
            passed.append((place, filter_, context))
        if self.is_stream and not self.filters_asking:
            self.way.passed += [(filter_, context) for _, filter_, context in passed]
        return await last(request)

    async def back(
        self, passed: Sequence[tuple[FilterPlace, Filter, RequestContext]], response: Response
    ) -> tuple[Response, Exception | None]:
        """Shows an answer to the filters in reverse order. Returns the changed answer, and the error of a filter that failed."""
        failed: Exception | None = None
        for place, filter_, context in reversed(passed):
            try:
                response = await filter_.on_response(context.request.operation, response, context)
            except Exception as error:
                failed = self.failed(f"filter {place.name}", error)
                response = refusal(failed, self.operation.is_bus)
        return response, failed

    def answer_to(self, error: Exception) -> Response:
        """Returns the answer to a request that failed, as the filters behind have changed it."""
        if self.refused is not None and self.refused[0] is error:
            return self.refused[1]
        return refusal(error, self.operation.is_bus)

    async def ask(self, place: RouterPlace, request: Request, virtual_node: VirtualNode | None) -> RouterResponse:
        """Asks a router for its decision. Raises TopicsError."""
        session = self.session
        context = RouteDecision(self, place, virtual_node)
        try:
            router = session.router(place)
            static = place.static
            route = static if isinstance(static, str) else static.get(request.operation) if static else None
            # A request to a node's own address goes to the node, whatever the router offers for several nodes.
            is_past = virtual_node is not None and request.operation is not Operation.UPGRADE
            if not is_past and request.operation in place.offers_not:
                raise NotOffered(request.operation.value, place.offers_not[request.operation])
            if route is not None:
                self.mode = "static"
                node = virtual_node if virtual_node is not None else context.any_node(route)
                return RouterResponse(await context.send_request(node, request))
            return await router.on_request(request.operation, request, context)
        except Exception as error:
            raise self.failed(place.name, error) from error

    async def deliver(self, place: RouterPlace, node: VirtualNode, request: Request) -> Response:
        """Sends a request through its route's filters. Raises TopicsError."""
        if node._place != place.label or node._route not in place.routes:
            raise UnknownRoute(f"the router {place.name!r} does not have this node")
        route = place.routes[node._route]
        self.route = "/".join((*place.way, route.name))

        if route.filters:
            response = await self.filtered(route.filters, request, lambda request: self.arrive(route, node, request))
        else:
            response = await self.arrive(route, node, request)
        if place.context.topology is not None:
            place.context.topology.learn(route.name, request, response)
        return response

    def arrive(self, route: RoutePlace, node: VirtualNode, request: Request) -> Coroutine[Any, Any, Response]:
        """Sends the request to the target of the route: a cluster, or another router."""
        if isinstance(route.target, ClusterPlace):
            return self.session.send(self, route.target, request, node._node, is_any=node._is_any)
        return self.arrive_at_router(route, route.target, node, request)

    async def arrive_at_router(
        self, route: RoutePlace, target: RouterPlace, node: VirtualNode, request: Request
    ) -> Response:
        inner = target.node_for_id(node._node) if node._node is not None else None
        decided = await self.ask(target, request, inner)
        if decided.close_connection:
            log.error("The nested router %r cannot close the client's connection. The request failed", target.name)
            raise RouterFailed(target.name, route.name, self.maybe_written)
        return decided.response if decided.response is not None else Response(202)

    async def deliver_to(self, place: RouterPlace, way: tuple[str, ...], request: Request) -> Response:
        """Sends a request along a way to its cluster, through the filters of the routes. The routers on the way are skipped.

        A router with `decides_identifiers` is not skipped, because the identifier's server may be the wrong server now.
        """
        if place.factory.decides_identifiers:
            decided = await self.ask(place, request, None)
            return decided.response if decided.response is not None else Response(202)
        route = place.routes[way[0]]
        self.route = "/".join((*place.way, route.name))

        async def last(request: Request) -> Response:
            if isinstance(route.target, ClusterPlace):
                return await self.session.send(self, route.target, request, None, is_any=True)
            return await self.deliver_to(route.target, way[1:], request)

        return await self.filtered(route.filters, request, last)

    def failed(self, name: str, error: Exception) -> Exception:
        """Returns the error for the client. A refusal stays the same. Other exceptions become RouterFailed."""
        if isinstance(error, (TopicsError, Refused)):
            return error
        log.error("%s failed on %s", name, self.operation.value, exc_info=error)
        return RouterFailed(name, self.route, self.maybe_written)

    # -- Identifiers that belong to one server -------------------------------------------------------------------------

    def purpose(self, kind: str) -> str:
        """Returns the purpose of an identifier: one kind of call, one virtual cluster and one subject."""
        return f"{kind}\0{self.session.site.name}\0{self.subject.name or ''}"

    @property
    def wraps(self) -> bool:
        """Whether the client gets ids of the virtual cluster, not of a server."""
        return self.session.site.wraps

    def new_key(self) -> bytes:
        return self.session.new_key()

    def wrap(self, kind: str, way: Sequence[str], identifier: str) -> str:
        # The identifier contains the way, because virtual ids change when a route is added.
        return self.session.seal.wrap(self.purpose(kind), 0, f"{'/'.join(way)} {identifier}")

    def unwrap(self, kind: str, wrapped: str) -> tuple[tuple[str, ...], str]:
        """Returns the way and the server's identifier. Raises Foreign."""
        way, _, identifier = self.session.seal.unwrap(self.purpose(kind), wrapped).identifier.partition(" ")
        return tuple(way.split("/")) if way else (), identifier

    def wrap_id(self, identifier: bytes) -> bytes:
        """Returns the signed id of an event of this stream. The id is valid for one virtual cluster, one subject and one way."""
        text = identifier.decode("latin-1")
        told = msgspec.json.encode((self.stream_way, self.subject.name)).decode()
        # The id follows the signature unencoded. An id of 256 topics that is encoded twice would not fit into a head.
        return f"{self.session.seal.wrap(self.id_purpose(text), 0, told)}.{text}".encode("latin-1")

    def without_wrapped_id(self, request: Request) -> Request:
        """Returns the request with the server's own Last-Event-ID. Raises InvalidRequest if the id was altered."""
        headers = without(request.headers, b"accept-encoding")  # the gateway reads the ids in the answer
        shown = request.header(LAST_EVENT_ID)
        if shown:
            wrapped, _, text = shown.decode("latin-1").strip().partition(".")
            try:
                told = self.session.seal.unwrap(self.id_purpose(text), wrapped).identifier
                # `root` checks the subject in the id after the filters have identified the client.
                self.shown = msgspec.json.decode(told, type=Shown)
            except (Foreign, msgspec.MsgspecError) as error:
                raise InvalidRequest(NO_ID_OF_THIS_STREAM) from error
            headers = with_header(headers, LAST_EVENT_ID, text.encode("latin-1"))
        return request.replace(headers=headers)

    def id_purpose(self, identifier: str) -> str:
        return f"event\0{self.session.site.name}\0{identifier}"

    def issuer(self, request: Request) -> tuple[str, ...] | None:
        """Returns the way to the server that issued the identifier in this request, or None."""
        if not self.session.site.wraps:
            return None
        found = identifier_in(request)
        if found is None:
            return None
        try:
            way, _ = self.unwrap(*found)
        except Foreign:
            return None  # issued by a router, or invalid: the router decides
        place: ClusterPlace | RouterPlace = self.session.site.root
        for step in way:
            if not isinstance(place, RouterPlace) or step not in place.routes:
                return None
            place = place.routes[step].target
        return way if isinstance(place, ClusterPlace) else None


class RouteDecision(RouterContext):
    """Implements api.RouterContext for one request."""

    def __init__(self, call: RoutedCall, place: RouterPlace, virtual_node: VirtualNode | None) -> None:
        self.call, self.place, self.virtual_node = call, place, virtual_node
        self.session_id = call.session.id
        self.authenticated_subject = call.subject

    def any_node(self, route: str) -> VirtualNode:
        if route not in self.place.routes:
            raise UnknownRoute(f"the router {self.place.name!r} has no route {route!r}")
        target = self.place.routes[route].target
        if isinstance(target, RouterPlace):
            return VirtualNode(self.place.label, route, None, True)
        node = target.cluster.live()
        if node is None:
            raise NodeUnreachable(route, "none of its nodes is up")
        return VirtualNode(self.place.label, route, node.id, True)

    def node_for_id(self, virtual_node_id: int) -> VirtualNode:
        node = self.place.node_for_id(virtual_node_id)
        if node is None:
            raise UnknownRoute(f"the router {self.place.name!r} has no node {virtual_node_id}")
        return node

    def send_request(self, node: VirtualNode, request: Request) -> Coroutine[Any, Any, Response]:
        if self.call.is_stream and request.operation.is_stream and self.virtual_node is None:
            self.call.way.led.append((self.call.session.router(self.place), node._route, request))
        return self.call.deliver(self.place, node, request)

    def respond_with(self, response: Response, *, close_connection: bool = False) -> RouterResponse:
        return RouterResponse(response, close_connection=close_connection)

    def respond_with_error(
        self, request: Request, error: Exception, *, close_connection: bool = False
    ) -> RouterResponse:
        told = self.call.failed(self.place.name, error)
        return RouterResponse(refusal(told, request.operation.is_bus), close_connection=close_connection)

    def respond_without_reply(self) -> RouterResponse:
        return RouterResponse(None)

    def seal(self, kind: str, value: Any) -> str:
        text = msgspec.json.encode(value).decode()
        return self.call.session.seal.wrap(self.call.purpose(f"{self.place.label}:{kind}"), 0, text)

    def unseal(self, kind: str, identifier: str) -> Any:
        try:
            purpose = self.call.purpose(f"{self.place.label}:{kind}")
            return msgspec.json.decode(self.call.session.seal.unwrap(purpose, identifier).identifier)
        except (Foreign, msgspec.MsgspecError) as error:
            raise InvalidRequest(
                f"invalid {kind}: this gateway did not give it to this client. Start without it"
            ) from error


class RequestContext(FilterContext):
    """Implements api.FilterContext for one request."""

    def __init__(
        self, call: RoutedCall, places: Sequence[FilterPlace], number: int, last: Next, request: Request
    ) -> None:
        self.call, self.places, self.number, self.last, self.request = call, places, number, last, request
        self.virtual_cluster_name = call.session.site.name
        self.route = places[number].route
        self.session_id = call.session.id
        self.origin = call.client.address if call.client is not None else ""
        self.peer_certificate = call.session.certificate
        self.kept: Any = None

    @property
    def authenticated_subject(self) -> Subject:
        return self.call.subject

    @authenticated_subject.setter
    def authenticated_subject(self, subject: Subject) -> None:
        if self.route is not None:
            raise RuntimeError("only a filter of a virtual cluster can set the subject")
        self.call.subject = subject

    async def send_request(self, request: Request) -> Response:
        self.call.filters_asking += 1
        try:
            return await self.call.filtered(self.places, request, self.last, self.number + 1)
        finally:
            self.call.filters_asking -= 1


_warned: set[tuple[str, str]] = set()


def warn_once(router: str, what: str) -> None:
    if (router, what) not in _warned:
        _warned.add((router, what))
        log.warning("The router %r %s", router, what)


def new_session_id() -> str:
    return secrets.token_hex(8)
