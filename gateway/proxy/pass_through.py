"""Passes bytes of requests unparsed to the only cluster of a virtual cluster.

A virtual cluster needs no parsed heads if the virtual cluster has no filters, and if its routers use one static route without
filters. Then the bytes of a request go to a connection of a node, and the bytes of the answer come back. The gateway only finds
the ends of requests and answers. All unusual requests go to `Connection` of http1, which parses everything: heads in several
pieces, chunks, upgrades, streams, the gateway's own addresses, another virtual cluster.

If this module and the server disagree about the end of a request, other clients are safe: the connection serves no other client
until every answer has arrived.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from time import perf_counter
from typing import NamedTuple, Protocol, cast

from base.descriptors import is_full, reserve
from contract.operations import called
from gateway.api import Headers, Operation
from gateway.configuration.graph import ClusterPlace, RouterPlace, VirtualClusterPlace
from gateway.errors import NodeUnreachable, UpstreamTimeout
from gateway.metrics import KINDS, Labels, Metrics
from gateway.proxy.answers import refusal
from gateway.proxy.exchange import WHY
from gateway.proxy.forwarded import Client, of_a_proxy
from gateway.proxy.upstreams import Node
from http1.chunks import Chunks
from http1.deadlines import NEVER
from http1.limits import too_slow
from http1.messages import BODILESS, status_line
from http1.server import Server

# A head in one piece, like almost all clients send. `UNUSUAL` lists the requests for http1.
HEAD = re.compile(rb"(GET|POST|PUT|DELETE) (/[!-~]*) HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)+)\r\n")
HOST = re.compile(rb"(?:^|\n)host: *([^\r\n:]*)(?::\d+)?\r", re.IGNORECASE)
KEY = re.compile(rb"(?:^|\n)idempotency-key:", re.IGNORECASE)
LENGTH = re.compile(rb"(?:^|\n)content-length:([^\r\n]*)\r", re.IGNORECASE)
UNUSUAL = re.compile(
    rb"(?:^|\n)(?:transfer-encoding|upgrade|expect|prefer|connection:(?! *keep-alive *\r)|accept: *text/event-stream)",
    re.IGNORECASE,
)
ADDRESSES = (b"/gateway/", b"/node/", b"/v0/nodes", b"/v0/watch/")  # the gateway's own addresses, and streams
ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n")
MOST_WRITTEN = 256 * 1024  # bytes that wait for a slow reader
MOST_SAFE = 256 * 1024  # bytes of a request whose body comes in parts, to be sent again
MOST_IN_FLIGHT = 16
MOST_HEAD = 64 * 1024  # bytes of an answer's head
CHUNKED = re.compile(rb"(?:^|\n)transfer-encoding: *chunked *\r", re.IGNORECASE)
CLOSES = re.compile(rb"(?:^|\n)connection: *close *\r", re.IGNORECASE)


def only_cluster(site: VirtualClusterPlace) -> ClusterPlace | None:
    """Returns the cluster that gets every request of a virtual cluster unparsed, or None if requests must be parsed."""
    if site.filters or site.not_offered:
        return None
    found: ClusterPlace | RouterPlace = site.root
    while isinstance(found, RouterPlace):
        static = found.static_routes()
        if not isinstance(static, str):
            return None
        route = found.routes[static]
        if route.filters:
            return None
        found = route.target
    return found if found.cluster.engine is None else None


class Known(NamedTuple):
    """A parsed head with the results of its lookup, valid for one generation of the configuration.

    `sent`: the head for the node, with the gateway's headers about the client instead of the client's own.
    """

    head: bytes
    sent: bytes
    length: int
    site: VirtualClusterPlace
    cluster: ClusterPlace
    labels: Labels
    wait: float
    is_safe: bool
    generation: int


class InFlight(NamedTuple):
    """A request without its whole answer. `wait`: seconds for the answer, from the request's last byte."""

    started: float
    labels: Labels
    wait: float


class PassingGateway(Protocol):
    """The active configuration and its counts (server.Gateway)."""

    server: Server
    metrics: Metrics
    hosts: dict[str, VirtualClusterPlace]
    passed_through: dict[str, ClusterPlace | None]
    parsed: tuple[bytes, ...]
    generation: int

    def client(self, peer: str, headers: Headers) -> Client: ...
    def static_labels(self, site: VirtualClusterPlace, operation: Operation) -> Labels: ...


class PassThrough(asyncio.Protocol):
    """One client. A client has an upstream connection only while requests are in flight."""

    def __init__(self, gateway: PassingGateway) -> None:
        self.gateway = gateway
        self.deadline = NEVER
        self.upstream: Upstream | None = None
        self.site: VirtualClusterPlace | None = None
        self.pending = b""  # received, but not parsed yet
        self.unsent = b""  # parsed, for the connection that is being opened
        self.body_left = 0  # bytes of the last request that have not arrived yet
        self.arrived = 0  # bytes of a body since the deadline was set
        self.unwritten: int | None = None  # bytes that a slow client has not taken. None: the client keeps up
        self.in_flight: deque[InFlight] = deque()
        self.connecting: asyncio.Task[None] | None = None
        self.hands_over = self.closing = self.lost = self.paused = False
        self.is_half_closed = False  # the client sends no more, and waits for its answers
        self.known: Known | None = None
        self.is_safe = False
        self.safe = b""  # what was sent of the only request in flight, if the request can be repeated

    # -- The client ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(MOST_WRITTEN)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        self.loop = asyncio.get_running_loop()
        self.server = self.gateway.server
        self.server.enter(self)
        self.mark()

    def data_received(self, data: bytes) -> None:
        if self.closing:
            return
        if self.pending or self.connecting is not None:
            self.pending += data
            return
        self.forward(data)

    def eof_received(self) -> bool:
        self.is_half_closed = bool(self.in_flight) and not self.body_left
        return self.is_half_closed

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = self.closing = True
        self.server.leave(self)
        if self.connecting is not None:
            self.connecting.cancel()
        if self.upstream is not None:
            self.upstream.abort()
            self.upstream = None
        self.forget()

    def pause_writing(self) -> None:
        self.unwritten = self.transport.get_write_buffer_size()
        if self.upstream is not None:
            self.upstream.transport.pause_reading()
        self.mark()

    def resume_writing(self) -> None:
        self.unwritten = None
        if self.upstream is not None:
            self.upstream.transport.resume_reading()
        self.mark()

    def pause(self) -> None:
        if not self.paused and not self.lost:
            self.paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.paused and not self.lost:
            self.paused = False
            self.transport.resume_reading()

    def forward(self, data: bytes) -> None:
        """Forwards usual requests.

        After the first unusual request, http1 takes the connection when all answers have been sent.
        """
        if self.body_left:
            if len(data) <= self.body_left:
                self.body_left -= len(data)
                self.arrived += len(data)
                if self.safe:
                    self.safe = self.safe + data if len(self.safe) + len(data) <= MOST_SAFE else b""
                self.write(data)
                limits = self.server.limits
                if not self.body_left or self.arrived >= limits.upload_grace_seconds * limits.upload_bytes_a_second:
                    self.mark()
                return
            first, data = data[: self.body_left], data[self.body_left :]
            self.body_left = 0
            self.safe = b""
            self.write(first)
        at = 0
        parts: list[bytes] = []
        while at < len(data):
            end = self.request(data, at)
            if end is None:
                break
            assert self.known is not None
            parts += self.known.sent, data[at + len(self.known.head) : end]
            at = end
            if len(self.in_flight) >= MOST_IN_FLIGHT:
                break
        if at:
            passed = b"".join(parts)
            # Only these bytes may be sent again: the bytes behind them can belong to another virtual cluster.
            self.safe = passed if len(self.in_flight) == 1 and self.is_safe else b""
            self.write(passed)
            self.mark()
        if at < len(data) and not self.closing:
            self.pending = data[at:]
            self.pause()
            if not self.in_flight:
                self.hand_over()

    def request(self, data: bytes, at: int) -> int | None:
        """Parses the head of a request. Returns the end of the request in `data`, or None for an unusual request."""
        known = self.known
        # Clients repeat themselves: most heads equal the previous head byte by byte.
        if known is None or known.generation != self.gateway.generation or not data.startswith(known.head, at):
            known = self.known = self.look(data, at)
            if known is None:
                return None
        if self.in_flight:
            if known.site is not self.site:
                return None
        else:
            self.site, self.cluster = known.site, known.cluster
        end = at + len(known.head) + known.length
        self.body_left = max(0, end - len(data))
        self.is_safe = known.is_safe
        known.site.in_flight += 1
        self.in_flight.append(InFlight(perf_counter(), known.labels, known.wait))
        return min(end, len(data))

    def look(self, data: bytes, at: int) -> Known | None:
        """Parses a head. Returns None for an unusual head."""
        found = HEAD.match(data, at)
        if found is None:
            return None
        method, target, headers = found.groups()
        gateway = self.gateway
        host, lengths = HOST.findall(headers), LENGTH.findall(headers)
        if len(host) != 1 or len(lengths) > 1 or UNUSUAL.search(headers) or target.startswith(gateway.parsed):
            return None
        site = gateway.hosts.get(host[0].decode("latin-1").lower())
        cluster = gateway.passed_through.get(site.name) if site is not None else None
        text = lengths[0].strip() if lengths else b"0"
        if site is None or cluster is None or not text.isdigit() or len(text) > 15:
            return None
        path = target.partition(b"?")[0].decode("ascii")
        operation = called(method.decode("ascii"), path).operation
        if operation.is_stream or operation is Operation.LIST_NODES:
            return None
        wait = cluster.cluster.longest_wait(operation)
        labels = gateway.static_labels(site, operation)
        sent = self.told(b"%b %b HTTP/1.1\r\n" % (method, target), headers)
        is_safe = operation.is_read or (operation is Operation.APPEND and KEY.search(headers) is not None)
        return Known(found[0], sent, int(text), site, cluster, labels, wait, is_safe, gateway.generation)

    def told(self, line: bytes, headers: bytes) -> bytes:
        """Returns a head for the node."""
        split = (each.partition(b":") for each in headers.split(b"\r\n")[:-1])
        listed = [(name.lower(), value.strip(b" \t")) for name, _, value in split]
        told = self.gateway.client(self.peer, listed).headers
        kept = [*(each for each in listed if not of_a_proxy(each[0])), *told]
        return b"".join((line, *(b"%b: %b\r\n" % each for each in kept), b"\r\n"))

    def write(self, data: bytes) -> None:
        upstream = self.upstream
        if upstream is None:
            node = self.cluster.cluster.live()
            if node is None:
                self.fail(NodeUnreachable(self.cluster.name, "none of its nodes is up"))
                return
            upstream = from_idle(node)
            if upstream is None:
                self.unsent = data
                self.pause()
                self.connecting = self.loop.create_task(self.connect(node))
                return
            self.take(upstream)
        upstream.transport.write(data)

    def take(self, upstream: Upstream) -> None:
        upstream.client, self.upstream = self, upstream
        if self.unwritten is not None:
            upstream.transport.pause_reading()

    async def connect(self, node: Node) -> None:
        """Opens a connection and forwards the pending bytes. Also tries other nodes."""
        tried: list[Node] = []
        upstream: Upstream | None = None
        last: NodeUnreachable | None = None
        chosen: Node | None = node
        while chosen is not None and upstream is None:
            tried.append(chosen)
            try:
                upstream = await connected(chosen)
            except OSError as error:
                if is_full(error):
                    reserve.tell("connect to a node", error)
                    last = NodeUnreachable(self.cluster.name, WHY["full"])
                    break
                chosen.fail()
                last = NodeUnreachable(self.cluster.name, chosen.told("no connection", error))
                chosen = self.cluster.cluster.live(tried)
        self.connecting = None
        data, self.unsent = self.unsent, b""
        if self.lost:
            if upstream is not None:
                upstream.abort()
            return
        if upstream is None:
            self.fail(last or NodeUnreachable(self.cluster.name, "none of its nodes is up"))
            return
        self.take(upstream)
        upstream.transport.write(data)
        self.mark()
        if self.body_left:
            self.go_on()
        elif not self.pending:
            self.resume()

    def go_on(self) -> None:
        """Handles the bytes that arrived meanwhile."""
        data, self.pending = self.pending, b""
        self.resume()
        if data:
            self.forward(data)

    # -- Answers -------------------------------------------------------------------------------------------------------

    def answered(self, status: int) -> None:
        """Handles the end of the first answer in flight."""
        started, labels, _ = self.in_flight.popleft()
        self.gateway.metrics.count(labels, perf_counter() - started, status)
        site = self.site
        assert site is not None
        site.in_flight -= 1
        site.close_if_unused()
        if self.in_flight:
            self.mark()
            return
        self.safe = b""
        upstream, self.upstream = self.upstream, None
        if upstream is not None:
            upstream.release(self.body_left > 0)
        if self.body_left or self.server.draining:  # the answer came before the request was sent completely
            self.close()
            return
        if self.is_half_closed and not self.pending:
            self.close()
            return
        self.mark()
        self.go_on()

    def ended(self, status: int) -> None:
        """Handles an answer that ends with its connection. The client learns of the end in the same way."""
        self.answered(status)
        self.forget()
        self.close()

    def failed(self, has_begun: bool, why: str) -> None:
        """Handles the end of the upstream connection with requests in flight."""
        if has_begun:
            self.abort()
            return
        again, self.safe = self.safe, b""
        self.upstream = None
        if again:
            self.write(again)
            self.mark()
            return
        self.fail(NodeUnreachable(self.cluster.name, why, maybe_written=True))

    def fail(self, error: Exception) -> None:
        """Answers every request in flight with an error and closes the connection, because the outcome is unknown."""
        response = refusal(error)
        assert isinstance(response.body, bytes)
        head = [
            status_line(response.status),
            *(part for name, value in response.headers for part in (name, b": ", value, b"\r\n")),
        ]
        head += [b"content-length: %d\r\nconnection: close\r\n\r\n" % len(response.body), response.body]
        if self.in_flight and not self.closing:
            self.transport.write(b"".join(head))
            self.count_failed(error, response.status)
        self.forget()
        self.close()

    def count_failed(self, error: Exception, status: int) -> None:
        """Counts every request in flight as failed, but counts only one error of the gateway."""
        metrics, now = self.gateway.metrics, perf_counter()
        for started, labels, _ in self.in_flight:
            metrics.count(labels, now - started, status)
        assert self.site is not None
        code = getattr(error, "code", "internal")
        if code in KINDS:
            metrics.failed(self.site.name, code)

    def forget(self) -> None:
        if self.site is not None:
            self.site.in_flight -= len(self.in_flight)
            self.site.close_if_unused()
        self.in_flight.clear()

    # -- The end, and unusual requests ---------------------------------------------------------------------------------

    def hand_over(self) -> None:
        """Gives the connection with the pending bytes to http1, permanently."""
        data, self.pending = self.pending, b""
        self.server.leave(self)
        self.lost = True
        connection = self.server.protocol()
        if self.paused:
            self.transport.resume_reading()
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        connection.data_received(data)
        if self.is_half_closed and not connection.eof_received():
            self.transport.close()

    def drain(self) -> None:
        if not self.in_flight and self.connecting is None:
            self.transport.close()

    def abort(self) -> None:
        self.closing = True
        self.transport.abort()

    def close(self) -> None:
        """Closes the connection after the written bytes. A client that still sends has time to read its answer."""
        self.closing = True
        if self.upstream is not None:
            self.upstream.abort()
            self.upstream = None
        limits = self.server.limits
        self.unwritten = self.transport.get_write_buffer_size() or None
        self.deadline = self.loop.time() + (limits.write_seconds if self.unwritten else limits.linger_seconds)
        if self.lost or not self.body_left or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.resume()

    # -- Time ----------------------------------------------------------------------------------------------------------

    @property
    def is_uploading(self) -> bool:
        """Whether the client has to send the rest of the only request in flight."""
        return self.body_left > 0 and len(self.in_flight) == 1

    def mark(self) -> None:
        """Sets the deadline for the next thing that the client or the node has to do."""
        if self.closing:
            return
        limits, upstream = self.server.limits, self.upstream
        self.arrived = 0
        if self.unwritten is not None:
            seconds = limits.write_seconds
        elif not self.in_flight:
            seconds = limits.idle_seconds
        elif upstream is None:
            seconds = NEVER  # each attempt to connect has its own limit
        elif upstream.is_slow:
            seconds = self.in_flight[0].wait
        elif upstream.has_begun:
            seconds = upstream.node.pool.waits.silence
        elif self.is_uploading:
            seconds = limits.upload_grace_seconds
        else:
            seconds = self.in_flight[0].wait
        self.deadline = self.loop.time() + seconds

    def expire(self, now: float) -> None:
        """Handles a missed deadline. Only a deadline that the node missed counts as a failure of the node."""
        upstream = self.upstream
        if self.unwritten is not None:
            left = self.transport.get_write_buffer_size()
            if left < self.unwritten:  # the client is slow, but it reads
                self.unwritten, self.deadline = left, now + self.server.limits.write_seconds
            else:
                self.abort()
        elif self.closing:
            self.abort()
        elif not self.in_flight or upstream is None:
            self.transport.close()
        elif upstream.has_begun:
            self.abort()
        elif self.is_uploading and not upstream.is_slow:
            self.fail(too_slow(self.server.limits))
        else:
            upstream.node.fail()
            self.fail(UpstreamTimeout(self.cluster.name, "no answer", maybe_written=True))


class Upstream(asyncio.Protocol):
    """A connection to a node, for one client at a time.

    Of the answer that has begun, `left` bytes have not arrived yet, or `chunks` counts them. An answer with neither ends with the
    connection. `is_slow`: the node does not take the written bytes.
    """

    def __init__(self, node: Node, tls: ssl.SSLContext | None) -> None:
        self.node, self.tls = node, tls
        self.client: PassThrough | None = None
        self.rest = b""  # the start of a head
        self.left: int | None = 0
        self.chunks: Chunks | None = None
        self.status = 0
        self.has_begun = self.lost = self.ends = self.is_slow = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(MOST_WRITTEN)

    def data_received(self, data: bytes) -> None:
        client = self.client
        if client is None:  # no request is in flight
            self.abort()
            return
        if self.rest:
            data, self.rest = self.rest + data, b""
        at = 0
        finished: list[int] = []
        try:
            while at < len(data):
                if not self.has_begun:
                    if len(finished) == len(client.in_flight):
                        raise ValueError("an answer without a request")
                    found = ANSWER.match(data, at)
                    if found is None:
                        self.rest, data = data[at:], data[:at]
                        if len(self.rest) > MOST_HEAD:
                            raise ValueError("not an answer")
                        break
                    at = found.end()
                    if int(found[1]) < 200:
                        continue
                    self.begin(int(found[1]), found[2])
                at = self.body_end(data, at)
                if not self.has_begun:
                    finished.append(self.status)
        except ValueError:
            self.abort()
            client.failed(True, "")
            return
        if data:
            client.transport.write(data)
        if finished:
            self.node.succeed()
            for status in finished:
                client.answered(status)
        if self.has_begun and self.client is not None:
            client.mark()

    def begin(self, status: int, headers: bytes) -> None:
        """Handles the head of an answer. Raises ValueError for an unreadable length."""
        self.has_begun, self.status = True, status
        self.ends = self.ends or CLOSES.search(headers) is not None
        self.left, self.chunks = 0, None
        if status in BODILESS:
            return
        lengths = LENGTH.findall(headers)
        if CHUNKED.search(headers):
            self.chunks = Chunks()
        elif lengths:
            self.left = int(lengths[0])
        else:
            self.left, self.ends = None, True

    def body_end(self, data: bytes, at: int) -> int:
        """Returns where the answer's body ends in `data`, or the end of `data` if the body continues. Raises ValueError."""
        if self.chunks is not None:
            end = self.chunks.end(data, at)
            self.has_begun = end is None
            return len(data) if end is None else end
        if self.left is None:
            return len(data)
        step = min(self.left, len(data) - at)
        self.left -= step
        self.has_begun = self.left > 0
        return at + step

    def pause_writing(self) -> None:
        self.is_slow = True
        if self.client is not None:
            self.client.pause()
            self.client.mark()

    def resume_writing(self) -> None:
        self.is_slow = False
        if self.client is not None:
            if not self.client.pending:
                self.client.resume()
            self.client.mark()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        client, self.client = self.client, None
        if self in self.node.idle:
            self.node.idle.remove(self)
        if client is not None and not client.lost and client.upstream is self:
            client.upstream = None
            if self.has_begun and self.left is None and self.chunks is None and error is None:
                client.ended(self.status)
            else:
                client.failed(
                    self.has_begun or bool(self.rest), f"node {self.node.id}: the connection ended before the answer"
                )

    def release(self, unclean: bool) -> None:
        """Makes the connection available to the next client, because all answers are complete, or ends it."""
        self.client = None
        if unclean or self.ends or self.rest or self.is_slow or self.lost or not self.node.pool.keeps(self.tls):
            self.abort()
            return
        self.transport.resume_reading()  # the client that got the last answer may have been slow
        self.node.idle.append(self)

    def abort(self) -> None:
        self.client = None
        if not self.lost:
            self.transport.abort()


def from_idle(node: Node) -> Upstream | None:
    while node.idle:
        upstream: Upstream = node.idle.pop()
        if not upstream.lost and not upstream.transport.is_closing():
            return upstream
    return None


async def connected(node: Node) -> Upstream:
    """Opens a connection to a node. Raises OSError."""
    pool, tls = node.pool, node.pool.tls
    async with asyncio.timeout(pool.waits.connect):
        _, upstream = await asyncio.get_running_loop().create_connection(
            lambda: Upstream(node, tls), node.host, node.port, ssl=tls, server_hostname=node.host if tls else None
        )
    return upstream
