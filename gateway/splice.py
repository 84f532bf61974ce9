"""Passes bytes of requests unparsed to the only cluster of a virtual cluster.

A virtual cluster needs no parsed heads if the virtual cluster has no filters, and if its routers use one static route without
filters. Then the bytes of a request go to a connection of a node, and the bytes of the answer come back. The gateway only finds
the ends of requests and answers, with one search per piece. All unusual requests go to `Connection` of http1, which parses
everything: heads in several pieces, chunks, upgrades, streams, the gateway's own addresses, another virtual cluster.

If this module and the server disagree about the end of a request, other clients are safe: the connection serves no other client
until every answer has arrived.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from time import perf_counter
from typing import NamedTuple, Protocol, cast

from gateway.answers import refusal
from gateway.api import Operation
from gateway.errors import NodeUnreachable, UpstreamTimeout
from gateway.graph import ClusterPlace, RouterPlace, VirtualClusterPlace
from gateway.metrics import Labels, Metrics
from gateway.operations import LONG_POLLS, LONGEST_POLL_SECONDS, place
from gateway.upstreams import Node
from http1.deadlines import NEVER
from http1.messages import status_line
from http1.server import Server

# A head in one piece, like almost all clients send. `UNUSUAL` lists the requests for http1.
HEAD = re.compile(rb"(GET|POST|PUT|DELETE) (/[!-~]*) HTTP/1\.1\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*\r\n)+)\r\n")
HOST = re.compile(rb"(?:^|\n)host: *([^\r\n:]*)(?::\d+)?\r", re.IGNORECASE)
LENGTH = re.compile(rb"(?:^|\n)content-length:([^\r\n]*)\r", re.IGNORECASE)
UNUSUAL = re.compile(
    rb"(?:^|\n)(?:transfer-encoding|upgrade|expect|prefer|connection:(?! *keep-alive *\r)|accept: *text/event-stream)",
    re.IGNORECASE,
)
ADDRESSES = (b"/gateway/", b"/node/", b"/v0/nodes", b"/v0/watch/")  # the gateway's own addresses, and streams
ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n")
MOST_WRITTEN = 256 * 1024  # bytes that wait for a slow reader
MOST_IN_FLIGHT = 16
MOST_HEAD = 64 * 1024  # bytes of an answer's head
ENDLESS = 1 << 62  # length of an answer whose end is not searched


def spliced_cluster(site: VirtualClusterPlace) -> ClusterPlace | None:
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
    return found


class Known(NamedTuple):
    """A parsed head with the results of its lookup, valid for one generation of the configuration."""

    head: bytes
    length: int
    site: VirtualClusterPlace
    cluster: ClusterPlace
    labels: Labels
    wait: float
    is_safe: bool
    generation: int


class Gateway(Protocol):
    """The active configuration and its counts (server.Gateway)."""

    server: Server
    metrics: Metrics
    hosts: dict[str, VirtualClusterPlace]
    spliced: dict[str, ClusterPlace | None]
    unspliced: tuple[bytes, ...]
    generation: int

    def static_labels(self, site: VirtualClusterPlace, operation: Operation) -> Labels: ...
    def end_if_unused(self, site: VirtualClusterPlace) -> None: ...


class Splice(asyncio.Protocol):
    """One client. A client has an upstream connection only while requests are in flight."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.deadline = NEVER
        self.upstream: Upstream | None = None
        self.site: VirtualClusterPlace | None = None
        self.pending = b""  # received, but not parsed yet
        self.unsent = b""  # parsed, for the connection that is being opened
        self.body_left = 0  # bytes of the last request that have not arrived yet
        self.in_flight: deque[tuple[float, Labels]] = deque()
        self.connecting: asyncio.Task[None] | None = None
        self.hands_over = self.closing = self.lost = self.paused = False
        self.known: Known | None = None
        self.is_safe = False
        self.safe = b""  # the only request in flight, if the request can be repeated

    # -- The client ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(MOST_WRITTEN)
        self.loop = asyncio.get_running_loop()
        self.server = self.gateway.server
        self.server.enter(self)
        self.deadline = self.loop.time() + self.server.limits.idle_seconds

    def data_received(self, data: bytes) -> None:
        if self.closing:
            return
        if self.pending or self.connecting is not None:
            self.pending += data
            return
        self.forward(data)

    def eof_received(self) -> bool:
        return bool(self.in_flight) and not self.body_left

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
        if self.upstream is not None:
            self.upstream.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.upstream is not None:
            self.upstream.transport.resume_reading()

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
                self.write(data)
                return
            first, data = data[: self.body_left], data[self.body_left :]
            self.body_left = 0
            self.write(first)
        at = 0
        while at < len(data):
            end = self.request(data, at)
            if end is None:
                break
            at = end
            if len(self.in_flight) >= MOST_IN_FLIGHT:
                break
        if at:
            self.safe = data if len(self.in_flight) == 1 and self.is_safe and not self.body_left else b""
            self.write(data[:at] if at < len(data) else data)
        if at < len(data):
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
            self.deadline = self.loop.time() + known.wait
        end = at + len(known.head) + known.length
        self.body_left = max(0, end - len(data))
        self.is_safe = known.is_safe
        known.site.in_flight += 1
        self.in_flight.append((perf_counter(), known.labels))
        return min(end, len(data))

    def look(self, data: bytes, at: int) -> Known | None:
        """Parses a head. Returns None for an unusual head."""
        found = HEAD.match(data, at)
        if found is None:
            return None
        method, target, headers = found.groups()
        gateway = self.gateway
        host, lengths = HOST.findall(headers), LENGTH.findall(headers)
        if len(host) != 1 or len(lengths) > 1 or UNUSUAL.search(headers) or target.startswith(gateway.unspliced):
            return None
        site = gateway.hosts.get(host[0].decode("latin-1").lower())
        cluster = gateway.spliced.get(site.name) if site is not None else None
        text = lengths[0].strip() if lengths else b"0"
        if site is None or cluster is None or not text.isdigit() or len(text) > 15:
            return None
        path = target.partition(b"?")[0].decode("ascii")
        operation = place(method.decode("ascii"), path).operation
        if operation.is_stream:
            return None
        wait = cluster.cluster.waits.answer + (LONGEST_POLL_SECONDS if operation in LONG_POLLS else 0)
        labels = gateway.static_labels(site, operation)
        return Known(found[0], int(text), site, cluster, labels, wait, operation.is_read, gateway.generation)

    def write(self, data: bytes) -> None:
        upstream = self.upstream
        if upstream is None:
            node = self.cluster.cluster.live()
            if node is None:
                self.fail(NodeUnreachable(self.cluster.name, "none of its nodes is up"))
                return
            upstream = idle(node)
            if upstream is None:
                self.unsent = data
                self.pause()
                self.connecting = self.loop.create_task(self.connect(node))
                return
            upstream.client, self.upstream = self, upstream
        upstream.transport.write(data)

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
                chosen.fail()
                last = NodeUnreachable(self.cluster.name, f"no connection to {chosen.url}: {error}")
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
        upstream.client, self.upstream = self, upstream
        upstream.transport.write(data)
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
        started, labels = self.in_flight.popleft()
        self.gateway.metrics.count(labels, perf_counter() - started, status)
        site = self.site
        assert site is not None
        site.in_flight -= 1
        if site.retired:
            self.gateway.end_if_unused(site)
        if self.in_flight:
            return
        self.safe = b""
        upstream, self.upstream = self.upstream, None
        if upstream is not None:
            upstream.release(self.body_left > 0)
        if self.body_left or self.server.draining:  # the answer came before the request was sent completely
            self.closing = True
            self.transport.close()
            return
        self.deadline = self.loop.time() + self.server.limits.idle_seconds
        self.go_on()

    def failed(self, has_begun: bool, why: str) -> None:
        """Handles the end of the upstream connection with requests in flight."""
        if has_begun:
            self.abort()
            return
        again, self.safe = self.safe, b""
        self.upstream = None
        if again:
            self.write(again)
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
        self.closing = True
        self.transport.close()

    def count_failed(self, error: Exception, status: int) -> None:
        """Counts every request in flight as failed, but counts only one error of the gateway."""
        metrics, now = self.gateway.metrics, perf_counter()
        for started, labels in self.in_flight:
            metrics.count(labels, now - started, status)
        assert self.site is not None
        metrics.failed(self.site.name, getattr(error, "code", "internal"))

    def forget(self) -> None:
        if self.site is not None:
            self.site.in_flight -= len(self.in_flight)
            if self.site.retired:
                self.gateway.end_if_unused(self.site)
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

    def drain(self) -> None:
        if not self.in_flight and self.connecting is None:
            self.transport.close()

    def abort(self) -> None:
        self.closing = True
        self.transport.abort()

    def expire(self, now: float) -> None:
        self.deadline = NEVER
        if not self.in_flight:
            self.transport.close()
        elif self.upstream is not None and self.upstream.has_begun:
            self.abort()
        else:
            if self.upstream is not None:
                self.upstream.node.fail()
            self.fail(UpstreamTimeout(self.cluster.name, "no answer", maybe_written=True))


class Upstream(asyncio.Protocol):
    """A connection to a node, for one client at a time. `left`: bytes of the first answer that have not arrived yet."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.client: Splice | None = None
        self.rest = b""  # the start of a head
        self.left = self.status = 0
        self.has_begun = self.lost = self.ends = False

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
        while at < len(data):
            if not self.left:
                found = ANSWER.match(data, at)
                if len(finished) >= len(client.in_flight) or (found is None and len(data) - at > MOST_HEAD):
                    self.abort()  # an answer without a request, or not an answer
                    client.failed(True, "")
                    return
                if found is None:
                    self.rest, data = data[at:], data[:at]
                    break
                self.has_begun = True
                self.status = int(found[1])
                self.left = body_length(found[2], self.status)
                self.ends = self.ends or b"onnection: close" in found[2]
                at = found.end()
                if self.status < 200:
                    continue
            if self.left == ENDLESS:
                at = len(data)
                # Chunked: the end is a last piece with the final chunk. A body's piece that looks the same only ends the count
                # too early.
                if data.endswith(b"0\r\n\r\n"):
                    self.left = 0
                    finished.append(self.status)
                    self.has_begun = False
                continue
            step = min(self.left, len(data) - at)
            at += step
            self.left -= step
            if not self.left:
                finished.append(self.status)
                self.has_begun = False
        if data:
            client.transport.write(data)
        if finished:
            self.node.succeed()
            for status in finished:
                client.answered(status)

    def pause_writing(self) -> None:
        if self.client is not None:
            self.client.pause()

    def resume_writing(self) -> None:
        if self.client is not None and not self.client.pending:
            self.client.resume()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        client, self.client = self.client, None
        if self in self.node.spliced:
            self.node.spliced.remove(self)
        if client is not None and not client.lost and client.upstream is self:
            client.upstream = None
            client.failed(self.has_begun or bool(self.rest), f"{self.node.url} closed the connection")

    def release(self, unclean: bool) -> None:
        """Makes the connection available to the next client, because all answers are complete."""
        self.client = None
        if unclean or self.ends or self.rest or self.left or self.lost:
            self.abort()
        else:
            self.node.spliced.append(self)

    def abort(self) -> None:
        self.client = None
        if not self.lost:
            self.transport.abort()


def body_length(headers: bytes, status: int) -> int:
    if status in (204, 304) or status < 200:
        return 0
    lengths = LENGTH.findall(headers)
    return int(lengths[0]) if lengths else ENDLESS


def idle(node: Node) -> Upstream | None:
    while node.spliced:
        upstream: Upstream = node.spliced.pop()
        if not upstream.lost and not upstream.transport.is_closing():
            return upstream
    return None


async def connected(node: Node) -> Upstream:
    """Opens a connection to a node. Raises OSError."""
    pool = node.pool
    async with asyncio.timeout(pool.waits.connect):
        _, upstream = await asyncio.get_running_loop().create_connection(
            lambda: Upstream(node), node.host, node.port, ssl=pool.tls, server_hostname=node.host if pool.tls else None
        )
    return upstream
