"""Sends one request to a server and returns the answer: chooses nodes, retries, and streams bodies.

The gateway repeats a request if the request did not reach a server, is a read, or is an append with an idempotency key. An
append without a key gets a key, unless its cluster has `addKeys: false`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from base.errors import Throttled
from gateway.api import Operation, Request, Response
from gateway.bodies import HeldBody
from gateway.configuration.graph import ClusterPlace
from gateway.errors import NodeUnreachable, NotSupported, UnknownRoute, UpstreamTimeout
from gateway.proxy.forwarded import Client, of_a_proxy
from gateway.proxy.streams import Streamed
from gateway.proxy.tunnel import Upgraded
from gateway.proxy.upstreams import ClusterEngine, Node
from gateway.rewrite.identifiers import hands_out, unwrapped, wrapped
from http1 import Answer, Body, Failure

# Headers of the connection, not of the message.
OF_THE_CONNECTION = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"host",
        b"expect",
        b"http2-settings",
    )
)
MOST_TRIES = 3
WHY = {  # what a client learns of a Failure
    "connect": "no connection",
    "full": "all connections are in use",
    "timeout": "no answer in time",
    "closed": "the connection ended before the answer",
    "malformed": "the answer is not valid HTTP/1.1",
}
REPLAYED_BYTES = 1024 * 1024  # bytes of a body that are kept for a retry


class Asker(Protocol):
    """The call whose request is sent (calls.RoutedCall)."""

    route: str | None
    client: Client | None
    maybe_written: bool

    @property
    def wraps(self) -> bool: ...
    def new_key(self) -> bytes: ...
    def wrap(self, kind: str, way: Sequence[str], identifier: str) -> str: ...
    def unwrap(self, kind: str, wrapped: str) -> tuple[tuple[str, ...], str]: ...


async def send(call: Asker, place: ClusterPlace, request: Request, node_id: int | None, *, is_any: bool) -> Response:
    """Returns the answer of a node of the cluster.

    `node_id`: the node to ask first. `is_any`: another node may answer instead. Raises NodeUnreachable, UpstreamTimeout,
    UnknownRoute.
    """
    cluster, operation = place.cluster, request.operation
    route = call.route or place.name
    wraps = call.wraps

    def wrap(kind: str, found: str) -> str:
        return call.wrap(kind, place.way, found)

    if wraps:
        request = unwrapped(request, place.way, call.unwrap)
    if cluster.engine is not None:
        response = await answered_here(call, cluster.engine, request, cluster.longest_wait(operation))
        return await wrapped(operation, response, wrap) if hands_out(operation) else response
    is_read_here = wraps and hands_out(operation)
    left_out = OF_THE_CONNECTION | {b"accept-encoding"} if is_read_here else OF_THE_CONNECTION
    headers = [each for each in request.headers if each[0] not in left_out and not of_a_proxy(each[0])]
    if call.client is not None:
        headers += call.client.headers
    if operation is Operation.UPGRADE:
        headers += (b"connection", b"Upgrade"), (b"upgrade", b"websocket")
    is_safe = operation.is_read
    if operation is Operation.APPEND:
        is_safe = cluster.adds_keys or request.header(b"idempotency-key") is not None
        if cluster.adds_keys and request.header(b"idempotency-key") is None:
            headers.append((b"idempotency-key", call.new_key()))
    target = f"{request.path}?{request.query}" if request.query else request.path
    method, line = request.method.encode("ascii"), target.encode("ascii", "surrogateescape")
    wait = cluster.longest_wait(operation)
    tried: list[Node] = []
    failed: tuple[Node, Failure] | None = None
    with sendable(request) as body:
        length = body.length if isinstance(body, Replay) else None
        for _ in range(MOST_TRIES):
            node = next_node(place, node_id, is_any, tried)
            if node is None:
                break
            tried.append(node)
            try:
                answer = await node.send(
                    method, line, headers, body if isinstance(body, bytes) else aiter(body), length=length, wait=wait
                )
            except Failure as error:
                failed = node, error
                if error.reached and operation.is_write:
                    call.maybe_written = True
                if isinstance(body, Replay) and not body.is_whole:
                    break
                if error.kind == "timeout" or (error.reached and not is_safe):
                    break
                if error.stale:
                    tried.pop()
                continue
            if operation.is_write and not 400 <= answer.status < 500:  # a refusal changed nothing
                call.maybe_written = True
            response = answered(answer)
            if is_read_here:
                response = await wrapped(operation, response, wrap)
            return response
    if failed is None:
        if node_id is not None and node_id not in cluster.by_id:
            raise UnknownRoute(f"the route {route!r} has no node {node_id}")
        raise NodeUnreachable(route, "none of its nodes is up")
    node, failure = failed
    why = node.told(WHY[failure.kind], failure)
    if failure.kind == "timeout":
        raise UpstreamTimeout(route, why, call.maybe_written)
    raise NodeUnreachable(route, why, call.maybe_written)


async def answered_here(call: Asker, engine: ClusterEngine, request: Request, seconds: float) -> Response:
    """Returns the answer of an engine. Raises TopicsError."""
    operation = request.operation
    if operation in engine.offers_not:
        raise NotSupported(engine.offers_not[operation], operation=operation.value)
    call.maybe_written = call.maybe_written or operation.is_write
    return await engine.answer(request, seconds)


def next_node(place: ClusterPlace, node_id: int | None, is_any: bool, tried: list[Node]) -> Node | None:
    """Returns the router's node first. Later, if any node may answer, returns a live node that was not tried."""
    cluster = place.cluster
    if node_id is not None and (not tried or not is_any):
        return cluster.by_id.get(node_id)
    return cluster.live(tried)


class Replay:
    """A body that is sent while the body arrives, and again from its start in a retry.

    `is_whole`: all parts so far are kept for a retry, because they are small, and the process may hold them.
    """

    def __init__(self, body: Body, held: HeldBody) -> None:
        self.body, self.held, self.length = body, held, body.length
        self.parts: list[bytes] = []
        self.size = 0
        self.is_whole = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part
        while part := await self.body.next():
            if self.is_whole:
                self.keep(part)
            yield part

    def keep(self, part: bytes) -> None:
        self.size += len(part)
        try:
            self.held.hold(len(part))
        except Throttled:
            self.forget()
            return
        self.parts.append(part)
        if self.size > REPLAYED_BYTES:
            self.forget()

    def forget(self) -> None:
        self.is_whole = False
        self.parts.clear()
        self.held.release()


@contextmanager
def sendable(request: Request) -> Iterator[bytes | Replay]:
    """Yields the body to send. Afterwards no part of it is kept, also if a server answered before it had all parts."""
    body, held = request.raw_body, request.held
    if isinstance(body, bytes):
        yield body
        return
    assert isinstance(body, Body)
    assert held is not None
    if body.complete:
        yield held.take(body)
        return
    replay = Replay(body, held)
    try:
        yield replay
    finally:
        replay.forget()


def answered(answer: Answer) -> Response:
    headers = [each for each in answer.headers if each[0] not in OF_THE_CONNECTION]
    if answer.status == 101:
        return Response(101, headers, Upgraded(answer))
    if answer.body.complete:
        body = answer.body.take()
        length = None
        if not body:  # the answer to a HEAD
            length = next((int(value) for name, value in answer.headers if name == b"content-length"), None)
        return Response(answer.status, headers, body, length=length)
    return Response(answer.status, headers, Streamed(answer), length=answer.body.length)
