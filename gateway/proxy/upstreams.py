"""Clusters and their nodes: connections, breakers and probes.

After several failures in a row, a node gets no requests for a while: its breaker is open. Then one request, or a probe, tries
the node (half open). An answer closes the breaker.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from contract.operations import LONGEST_WAIT_MS, Operation
from gateway.api import Request, Response
from gateway.watched_file import WatchedFiles
from http1 import Answer, Failure, Pool, Waits

log = logging.getLogger(__name__)

FAILURES = 3  # in a row, until the breaker opens
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 0.5, 10.0
PROBE_SECONDS = 2.0
MOST_CONNECTIONS = 10_000  # per process and node: an open stream and a long poll hold one each
PROBE_PATH = b"/v0/ready"


class Breaker:
    """Decides whether a node may get requests. `state`: `closed`, `open` or `half_open`."""

    __slots__ = ("failures", "rest", "state", "until")

    def __init__(self) -> None:
        self.state, self.failures, self.until, self.rest = "closed", 0, 0.0, FIRST_REST_SECONDS

    def allows(self, now: float) -> bool:
        """Returns whether a request may be sent now. After the pause, one request per pause is allowed."""
        if self.state == "closed":
            return True
        if now < self.until:
            return False
        self.state, self.until = "half_open", now + self.rest
        return True

    def succeeded(self) -> None:
        if self.failures or self.state != "closed":
            self.state, self.failures, self.rest = "closed", 0, FIRST_REST_SECONDS

    def failed(self, now: float) -> None:
        self.failures += 1
        if self.state == "half_open":
            self.rest = min(self.rest * 2, LONGEST_REST_SECONDS)
        if self.state == "half_open" or self.failures >= FAILURES:
            self.state, self.until = "open", now + self.rest


class Node:
    """One address of a cluster. `state`: `unknown`, `up` or `down`, from the last probe or request."""

    def __init__(self, cluster: str, number: int, url: str, waits: Waits, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        is_tls = parts.scheme == "https"
        self.cluster, self.id, self.url = cluster, number, url
        self.host, self.port = parts.hostname or "", parts.port or (443 if is_tls else 80)
        context = (tls or ssl.create_default_context()) if is_tls else None
        self.pool = Pool(self.host, self.port, tls=context, waits=waits, most=MOST_CONNECTIONS)
        self.breaker = Breaker()
        self.idle: list[Any] = []  # idle connections of gateway/proxy/pass_through.py
        self.state = "unknown"

    async def send(
        self,
        method: bytes,
        target: bytes,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes | AsyncIterator[bytes],
        *,
        length: int | None = None,
        wait: float | None = None,
    ) -> Answer:
        """Sends a request to the node. Raises http1.Failure."""
        try:
            answer = await self.pool.send(method, target, headers, body, length=length, wait=wait)
        except Failure as failure:
            # A stale kept connection, or the gateway's own limit, proves nothing about the node.
            if not failure.stale and failure.kind != "full":
                self.fail()
            raise
        self.succeed()
        return answer

    def succeed(self) -> None:
        self.breaker.succeeded()
        self.state = "up"

    def fail(self) -> None:
        self.breaker.failed(time.monotonic())
        if self.breaker.state != "closed":
            self.state = "down"

    def told(self, why: str, error: Exception) -> str:
        """Returns what a client learns of a failure. Only the log gets the address, and the error, which may contain it."""
        log.warning("node %d of the cluster %s (%s): %s", self.id, self.cluster, self.url, error)
        return f"node {self.id}: {why}"

    async def probe(self) -> None:
        """Asks the node whether the node is ready.

        503 means that the node serves no requests now, and counts as a failure.
        """
        try:
            answer = await self.pool.send(b"GET", PROBE_PATH, [(b"accept", b"application/json")], wait=PROBE_SECONDS)
            await answer.body.read(1024 * 1024)
        except Exception as failure:
            log.debug("probe of %s failed: %s", self.url, failure)
            if isinstance(failure, Failure) and failure.kind == "full":
                return
            self.fail()
            if self.state == "unknown":
                self.state = "down"
            return
        if answer.status == 503:
            self.fail()
            self.state = "down"
        else:
            self.succeed()

    def close(self, *, at_once: bool) -> None:
        for upstream in list(self.idle):
            upstream.abort()
        if at_once:
            self.pool.close()
        else:
            self.pool.retire()


@dataclass(frozen=True)
class NodeAddress:
    id: int
    url: str


class ClusterEngine(Protocol):
    """A cluster that is no server of `/v0`: this process itself answers the requests with it (gateway/kafka/).

    `url` is its address for an operator. `offers_not`: the operations that it refuses, each with the reason.
    """

    url: str
    offers_not: Mapping[Operation, str]

    async def answer(self, request: Request, seconds: float) -> Response:
        """Returns the answer to a request, within this time. Raises TopicsError."""
        ...

    async def is_ready(self, seconds: float) -> bool: ...
    def renew(self) -> None: ...
    def close(self) -> None: ...


class EngineNode(Node):
    """The only node of a cluster with an engine. The engine itself retries, so requests are sent to it also while it is away."""

    def __init__(self, cluster: str, engine: ClusterEngine) -> None:
        self.cluster, self.id, self.url, self.engine = cluster, 0, engine.url, engine
        self.breaker, self.state = Breaker(), "unknown"

    def fail(self) -> None:
        self.state = "down"

    async def probe(self) -> None:
        try:
            is_ready = await self.engine.is_ready(PROBE_SECONDS)
        except Exception as failure:
            log.debug("probe of %s failed: %s", self.url, failure)
            is_ready = False
        if is_ready:
            self.succeed()
        else:
            self.fail()

    def close(self, *, at_once: bool) -> None:
        self.engine.close()


class Cluster:
    """A topics server with one or more nodes, which share their storage, or an engine."""

    def __init__(
        self,
        name: str,
        nodes: Sequence[NodeAddress] | ClusterEngine,
        waits: Waits,
        tls: WatchedFiles[ssl.SSLContext] | None = None,
        *,
        adds_keys: bool = True,
    ) -> None:
        self.name, self.waits, self.adds_keys, self.tls = name, waits, adds_keys, tls
        context = tls.value if tls is not None else None
        self.engine = None if isinstance(nodes, Sequence) else nodes
        self.nodes: list[Node] = (
            [Node(name, each.id, each.url, waits, context) for each in nodes]
            if isinstance(nodes, Sequence)
            else [EngineNode(name, nodes)]
        )
        self.by_id = {node.id: node for node in self.nodes}
        self.turns = itertools.count()
        self.probing: asyncio.Task[None] | None = None

    def longest_wait(self, operation: Operation) -> float:
        """Returns how many seconds a node may take until the head of its answer."""
        return self.waits.answer + (LONGEST_WAIT_MS / 1000 if operation.waits else 0)

    def live(self, not_among: Sequence[Node] = ()) -> Node | None:
        """Returns a node that may get requests, in turn, or None."""
        now = time.monotonic()
        if len(self.nodes) == 1 and not not_among:
            node = self.nodes[0]
            return node if node.breaker.allows(now) else None
        first = next(self.turns)
        for step in range(len(self.nodes)):
            node = self.nodes[(first + step) % len(self.nodes)]
            if node not in not_among and node.state != "down" and node.breaker.allows(now):
                return node
        for step in range(len(self.nodes)):
            node = self.nodes[(first + step) % len(self.nodes)]
            if node not in not_among and node.breaker.allows(now):
                return node
        return None

    @property
    def state(self) -> str:
        """`up`: at least one node is up. `starting`: no node is up, and one is still unknown. `down`: all nodes are down."""
        states = {node.state for node in self.nodes}
        return "up" if "up" in states else "starting" if "unknown" in states else "down"

    def renew(self) -> None:
        """Uses changed files. Connections in use keep the earlier certificates until they are idle."""
        if self.engine is not None:
            self.engine.renew()
        if self.tls is None:
            return
        for node in self.nodes:
            if node.pool.tls not in (None, self.tls.value):
                node.pool.renew(self.tls.value)
                for upstream in list(node.idle):
                    upstream.abort()

    def start(self) -> None:
        """Starts the probes of the nodes."""
        if self.probing is None:
            self.probing = asyncio.get_running_loop().create_task(self._probe())

    async def _probe(self) -> None:
        while True:
            await asyncio.gather(*(node.probe() for node in self.nodes))
            await asyncio.sleep(PROBE_SECONDS)

    def close(self, *, at_once: bool = True) -> None:
        if self.probing is not None:
            self.probing.cancel()
        for node in self.nodes:
            node.close(at_once=at_once)
