"""A gateway process: address, virtual clusters, own pages, reload and shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import time
import traceback
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from base.bodies import Bodies
from base.descriptors import none_free
from base.errors import NotFound, Throttled, TopicsError
from contract.paths import canonical
from gateway import plugins, status
from gateway.api import Headers, Operation, Request, Response, VirtualNode, without
from gateway.bodies import MOST_BODIES_BYTES, HeldBody
from gateway.configuration import offers
from gateway.configuration.document import Fault
from gateway.configuration.graph import (
    Builder,
    ClusterPlace,
    Faults,
    RouterPlace,
    VirtualClusterPlace,
    clusters,
    contexts,
    nodes,
)
from gateway.configuration.load import Configuration, Faulty, load
from gateway.configuration.shapes import ClusterDefinition
from gateway.errors import UnknownRoute
from gateway.metrics import KINDS, Gauge, Labels, Metrics, ProcessCounts, summed, text
from gateway.proxy import background, events, streams
from gateway.proxy.answers import refusal
from gateway.proxy.calls import RoutedCall, Session, new_session_id
from gateway.proxy.forwarded import Client, client_of
from gateway.proxy.pass_through import ADDRESSES, PassThrough, only_cluster
from gateway.proxy.tunnel import Upgraded, is_websocket, upgrade
from gateway.proxy.upstreams import Cluster
from gateway.rewrite.ids import Seal
from gateway.siblings import Siblings
from gateway.watched_file import Stamp, stamp_or_none
from http1 import Body, Limits, Refused, Server
from http1 import Request as Received
from http1 import Response as Sent
from http1.acceptor import TlsContexts
from http1.connection import SPARE

log = logging.getLogger(__name__)

NODE_PATH = re.compile(r"/node/(\d{1,18})(/.*)")
DRAIN_SECONDS = 20.0
SESSIONS = "sessions"  # in the state of a connection: its sessions by the name of the virtual cluster
READ_HERE = frozenset((Operation.WATCH, Operation.SCHEMA))  # the server must not compress these answers
LIMITS = Limits(
    body_bytes=2**62,  # the servers limit bodies. The gateway passes bodies on as they arrive
    in_flight=1,  # so pipelined appends of one connection are stored in their order, as a server does
)


@contextmanager
def loaded(file: Path, seal: Seal, siblings: Siblings | None = None) -> Iterator[Gateway]:
    """Yields a gateway with the configuration in a file, and then closes its plugins. Raises Faulty."""
    gateway = Gateway(file, seal, siblings=siblings)
    gateway.load()
    try:
        yield gateway
    finally:
        gateway.close()


class Gateway:
    """Serves one configuration file.

    `load` checks and activates a configuration. `reload` changes the configuration without a restart.
    """

    def __init__(self, file: Path, seal: Seal, limits: Limits | None = None, siblings: Siblings | None = None) -> None:
        self.file, self.folder, self.seal = file, file.parent, seal
        self.siblings = siblings or Siblings()
        self.metrics = Metrics()
        self.bodies = Bodies(MOST_BODIES_BYTES)
        if (left := self.siblings.left()) is not None:
            self.metrics.continued(left)
        self.sites: dict[str, VirtualClusterPlace] = {}
        self.hosts: dict[str, VirtualClusterPlace] = {}
        self.prefixes: list[tuple[str, VirtualClusterPlace]] = []  # longest prefix first
        self.shared: list[tuple[ClusterDefinition, Cluster]] = []
        # By virtual cluster: the cluster that gets all bytes unparsed.
        self.passed_through: dict[str, ClusterPlace | None] = {}
        self.parsed: tuple[bytes, ...] = ()  # prefixes of paths that must be parsed
        self.generation = 0  # number of activated configurations
        self.labels: dict[tuple[VirtualClusterPlace, Operation], Labels] = {}
        self.configuration: Configuration | None = None
        self.version: Stamp | None = None  # of the file with this configuration
        self.fault = ""  # why the last reload failed, as the log tells
        self.server = Server(self.handle, limits=limits or LIMITS, on_error=self.refused, on_close=self.closed)
        self.retired: list[VirtualClusterPlace] = []  # replaced or removed, but not closed yet
        self.scheme, self.behind_proxy = b"http", False  # of the address that `listen` serves

    # -- Configuration -------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Activates the current file. Raises Faulty, and then changes nothing."""
        version = stamp_or_none(self.file)  # first, so a change while the file is read makes another version
        configuration = load(self.file, plugins.installed())
        shared, made = list(self.shared), dict[str, VirtualClusterPlace]()
        try:
            self._make(configuration, made, shared)
        except Exception:
            for name, site in made.items():
                if self.sites.get(name) is not site:
                    site.close()
            raise
        self._take(configuration, made, shared)
        self.version = version

    def _make(
        self,
        configuration: Configuration,
        made: dict[str, VirtualClusterPlace],
        shared: list[tuple[ClusterDefinition, Cluster]],
    ) -> None:
        """Adds the virtual clusters to `made`, and new clusters to `shared`. Raises Faulty, or the error of a plugin."""
        old = self.configuration
        builder = Builder(configuration, self.folder, shared)
        faults: list[Fault] = []
        for name in configuration.virtual_clusters:
            kept = self.sites.get(name)
            if kept is not None and old is not None and old.reachable(name) == configuration.reachable(name):
                made[name] = kept
                continue
            try:
                site = made[name] = builder.virtual_cluster(name)
            except Faults as error:
                faults += error.faults
                continue
            background.bind(site)
            site.not_offered = offers.not_offered(site)
            if found := offers.broken(site):
                line = configuration.line("virtual cluster", name, "without")
                end = f"Remove the plugin from this path, or add {offers.line_to_add(site, found)!r} to virtual cluster {name!r}."
                faults += [Fault(line, f"virtual cluster {name!r}: {each}. {end}") for each in found]
        if faults:
            raise Faulty(self.file, sorted(set(faults)))

    def _take(
        self,
        configuration: Configuration,
        made: dict[str, VirtualClusterPlace],
        shared: list[tuple[ClusterDefinition, Cluster]],
    ) -> None:
        used = {id(cluster) for site in made.values() for cluster in clusters(site.root)}
        retired = [site for name, site in self.sites.items() if made.get(name) is not site]
        unused = [cluster for _, cluster in shared if id(cluster) not in used]
        self.configuration, self.sites = configuration, made
        self.shared = [(definition, cluster) for definition, cluster in shared if id(cluster) in used]
        self.hosts = {host: site for site in made.values() for host in site.hosts}
        self.prefixes = sorted(
            ((prefix, site) for site in made.values() for prefix in site.prefixes),
            key=lambda each: len(each[0]),
            reverse=True,
        )
        self.passed_through = {name: only_cluster(site) for name, site in made.items()}
        self.parsed = (*ADDRESSES, *(prefix.encode() for prefix, _ in self.prefixes))
        self.labels.clear()
        self.generation += 1
        self.retired = [site for site in [*self.retired, *retired] if not site.is_closed]
        for site in retired:
            site.retired = True
            streams.end_all(site, streams.CHANGED)
            site.close_if_unused()
        for cluster in unused:
            cluster.close(at_once=False)

    def renew(self) -> None:
        """Uses changed files of clusters, for example certificates."""
        for _, cluster in self.shared:
            cluster.renew()

    def reload(self) -> bool:
        """Activates the current file and returns True. A file with faults changes nothing, and the log gets its report once."""
        before = self.configuration.fingerprint if self.configuration is not None else ""
        try:
            self.load()
        except Exception as error:  # of a plugin, unless it is Faulty
            fault = str(error) if isinstance(error, Faulty) else traceback.format_exc()
            if fault != self.fault:
                self.fault = fault
                log.error("The changed configuration is invalid. The gateway keeps the running one:\n%s", fault)
            return False
        self.fault = ""
        self.start()
        assert self.configuration is not None
        if before != self.configuration.fingerprint:
            log.info("Serving configuration %s", self.configuration.fingerprint)
        return True

    # -- Start and end -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the probes of the upstreams and the background work of the routers."""
        for _, cluster in self.shared:
            cluster.start()
        for site in self.sites.values():
            background.start(site)

    async def listen(
        self,
        host: str,
        port: int,
        sock: socket.socket | None = None,
        tls: TlsContexts | None = None,
        *,
        behind_proxy: bool = False,
    ) -> int:
        """Serves on an address, and returns the port. `behind_proxy`: the headers of a proxy have the client's address."""
        self.start()
        self.scheme, self.behind_proxy = b"http" if tls is None else b"https", behind_proxy
        return await self.server.listen(host, port, sock=sock, tls=tls, factory=lambda: PassThrough(self))

    async def drain(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Ends streams, lets requests finish, and stops. Returns whether all requests finished in time."""
        draining = asyncio.ensure_future(self.server.drain(seconds))
        await asyncio.sleep(0)
        for site in self.running:
            streams.end_all(site, streams.STOPPED)
        finished = await draining
        for _, cluster in self.shared:
            cluster.close()
        self.close()
        return finished

    def close(self) -> None:
        """Closes all plugins. Nothing is served any more. A second call changes nothing."""
        for site in self.running:
            site.close()

    @property
    def running(self) -> list[VirtualClusterPlace]:
        """The virtual clusters of all generations that are not closed."""
        return [site for site in [*self.retired, *self.sites.values()] if not site.is_closed]

    async def check_streams(self) -> None:
        """Ends open streams whose way changed without a reload, for example by a decision of a router or a file of keys."""
        while True:
            await asyncio.sleep(streams.CHECK_SECONDS)
            await streams.check(self.running)

    # -- Requests ------------------------------------------------------------------------------------------------------

    def handle(self, received: Received) -> Sent | Awaitable[Sent]:
        target = received.target.decode("ascii")
        path, _, query = target.partition("?")
        if path.startswith("/gateway/"):
            return sent(self.own_page(path))
        if SPARE in received.state:
            return sent(refusal(none_free()))
        site, prefix = self.site(received, path)
        if site is None:
            self.metrics.failed("", "unknown_route")
            return sent(refusal(UnknownRoute("unknown host or prefix: expected an address of a virtual cluster")))
        path = path[len(prefix) :] or "/"
        # Some clients append the stream_url, which begins with the prefix, to their base, which ends with it.
        if prefix and path.startswith(prefix + "/"):
            path = path[len(prefix) :]
        return self.call(site, prefix, received, path, query)

    def site(self, received: Received, path: str) -> tuple[VirtualClusterPlace | None, str]:
        """Returns the virtual cluster of a request, and the prefix of its paths."""
        for prefix, site in self.prefixes:
            if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("/", ""):
                return site, prefix
        return self.hosts.get(host_of(received)), ""

    def client(self, peer: str, headers: Headers) -> Client:
        return client_of(peer, self.scheme, headers, behind_proxy=self.behind_proxy)

    def headers(self, received: Received) -> Headers:
        """Returns the headers for the server. A WebSocket of a page of this gateway comes without its origin.

        A server compares the origin with its own host, which the page does not have. The gateway makes the same comparison.
        It knows its hosts, so a hostile name that points to this gateway is no host of a page.
        """
        origin, headers = received.header(b"origin"), received.headers
        if origin is None or not is_websocket(received) or host_of(received) not in self.hosts:
            return headers
        is_own = origin.partition(b"://")[2].lower() == (received.header(b"host") or b"").lower()
        return without(headers, b"origin") if is_own else headers

    async def call(self, site: VirtualClusterPlace, prefix: str, received: Received, path: str, query: str) -> Sent:
        started = time.perf_counter()
        site.in_flight += 1
        session = self.session(site, received)
        body: Body | bytes = received.body
        held = HeldBody(self.bodies)
        close = False
        call: RoutedCall | None = None
        request: Request | None = None
        virtual_node: VirtualNode | None = None
        real_node: int | None = None
        unknown: TopicsError | None = None
        try:
            try:
                if received.body.complete:
                    body = held.take(received.body)
            except Throttled as error:
                unknown = error
            try:
                virtual_node, real_node, path = self.addressed(site, path)
            except UnknownRoute as error:
                unknown, path = error, NODE_PATH.sub(r"\2", path)
            try:
                path = canonical(path)
            except NotFound as error:
                unknown, path = error, "/"  # what a filter would read is not what a server reads
            request = Request(
                received.method,
                path,
                query,
                self.headers(received),
                body,
                is_upgrade=is_websocket(received),
                held=held,
            )
            call = RoutedCall(session, request.operation, self.client(received.origin, received.headers))
            if request.operation in READ_HERE:
                request = request.replace(headers=without(request.headers, b"accept-encoding"))
            topic = request.topic
            if wants_events := events.are_wanted(request):
                request = events.as_plain(request)
            own = self.nodes(site, prefix) if request.operation is Operation.LIST_NODES else None
            decided = await call.run(request, virtual_node, real_node, unknown, own)
            close, response = decided.close_connection, decided.response or Response(202)
            if prefix and request.operation is Operation.WATCH:
                response = await at_prefix(response, prefix)
            elif site.not_offered and request.operation is Operation.SCHEMA:
                response = await offered(response, site.not_offered)
            elif wants_events:
                response = await events.answered(response, str(topic))
        except (TopicsError, Refused) as error:
            response = refusal(error) if call is None else call.answer_to(error)
            if isinstance(error, TopicsError) and error.code in KINDS:
                self.metrics.failed(site.name, error.code)
        except Exception:
            log.exception("A request failed in the gateway itself. The client got 500")
            response = refusal(RuntimeError())
        finally:
            held.release()
            site.in_flight -= 1
            site.close_if_unused()
        root = site.root.name if isinstance(site.root, RouterPlace) else ""
        operation = request.operation.value if request is not None else "other"
        route = (call.route if call is not None else None) or ""
        mode = call.mode if call is not None else "dynamic"
        self.metrics.count((site.name, root, route, operation, mode), time.perf_counter() - started, response.status)
        if isinstance(response.body, Upgraded):
            assert call is not None
            return upgrade(received, response, response.body, call.way)
        return outgoing(call, response, close)

    def session(self, site: VirtualClusterPlace, received: Received) -> Session:
        """Returns the session of this connection at this virtual cluster. After a reload the connection gets a new session."""
        state = received.state
        sessions: dict[str, Session] = state.setdefault(SESSIONS, {})
        session = sessions.get(site.name)
        if session is None or session.site is not site:
            if session is not None:
                session.close()
            id = next((each.id for each in sessions.values()), None) or new_session_id()
            session = sessions[site.name] = Session(site, self.seal, id, state.get("certificate"))
        return session

    def addressed(self, site: VirtualClusterPlace, path: str) -> tuple[VirtualNode | None, int | None, str]:
        """Returns the node whose own address the client used, and the rest of the path. Raises UnknownRoute."""
        if not path.startswith("/node/"):
            return None, None, path
        found = NODE_PATH.fullmatch(path)
        if found is None:
            raise UnknownRoute("unknown path: expected /node/ID/v0/…")
        number, rest = int(found[1]), found[2]
        if isinstance(site.root, ClusterPlace):
            if number not in site.root.cluster.by_id:
                raise UnknownRoute(f"node {number} does not exist here: GET /v0/nodes lists the nodes")
            return None, number, rest
        node = site.root.node_for_id(number)
        if node is None:
            raise UnknownRoute(f"node {number} does not exist here: GET /v0/nodes lists the nodes")
        return node, None, rest

    def static_labels(self, site: VirtualClusterPlace, operation: Operation) -> Labels:
        found = self.labels.get((site, operation))
        if found is None:
            root = site.root
            route = root.static if isinstance(root, RouterPlace) and isinstance(root.static, str) else ""
            name = root.name if isinstance(root, RouterPlace) else ""
            found = self.labels[site, operation] = site.name, name, route, operation.value, "static"
        return found

    def refused(self, error: Refused) -> Sent:
        return sent(refusal(error))

    def closed(self, state: dict[str, Any]) -> None:
        for session in state.get(SESSIONS, {}).values():
            session.close()

    # -- The gateway's own pages ---------------------------------------------------------------------------------------

    def own_page(self, path: str) -> Response:
        if path == "/gateway/health":
            health = self.health()
            health["processes"] = [
                {"pid": each.pid, "status": each.status, "configuration": each.configuration}
                for each in self.siblings.all(self.told())
            ]
            return Response.json(503 if health["status"] in ("starting", "draining") else 200, health)
        if path == "/gateway/graph":
            return Response.json(200, {**self.health(), **status.graph(self.sites, self.siblings.all(self.told()))})
        if path == "/gateway/metrics":
            body = text(summed(self.siblings.all(self.told())))
            return Response(200, [(b"content-type", CONTENT_TYPE_LATEST.encode())], body)
        return refusal(UnknownRoute("unknown path: expected /gateway/health, /gateway/graph or /gateway/metrics"))

    def told(self) -> ProcessCounts:
        """Returns the report of this process to the other processes."""
        health, metrics = self.health(), self.metrics
        return ProcessCounts(
            os.getpid(),
            health["status"],
            health["configuration"],
            list(metrics.requests.items()),
            list(metrics.errors.items()),
            {site.name: site.in_flight for site in self.sites.values()},
            [(node.cluster, node.id, node.breaker.state) for _, each in self.shared for node in each.nodes],
            [
                (Gauge(name, help, site.name, router, route), number)
                for site in self.sites.values()
                for router, context in contexts(site).items()
                for name, help, read in context.gauges
                for route, number in read().items()
            ],
        )

    def health(self) -> dict[str, Any]:
        """Returns the status of this process.

        The status is `starting`, `ready`, `degraded` (with the routes whose cluster has no live node) or `draining`.
        """
        down = sorted(
            f"{site.name}/{'/'.join(way)}" if way else site.name
            for site in self.sites.values()
            for way, cluster in ends(site.root)
            if cluster.state == "down"
        )
        states = {cluster.state for _, cluster in self.shared}
        if self.server.draining:
            status = "draining"
        elif "starting" in states:
            status = "starting"
        else:
            status = "degraded" if down else "ready"
        assert self.configuration is not None
        found: dict[str, Any] = {"status": status, "configuration": self.configuration.fingerprint}
        return {**found, "degraded": down} if down else found

    def nodes(self, site: VirtualClusterPlace, prefix: str) -> Response:
        """Answers GET /v0/nodes: every node behind the virtual cluster, with the node's address at this gateway."""
        listed = [
            {"id": number, "route": "/".join(way), "state": node.state, "address": f"{prefix}/node/{number}"}
            for number, way, node in sorted(nodes(site.root), key=lambda each: each[0])
        ]
        return Response.json(200, {"nodes": listed, "performance": {"server_total_ms": 0.0}})


def host_of(received: Received) -> str:
    """Returns the name in the header Host, without a port."""
    host = (received.header(b"host") or b"").decode("latin-1").lower()
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


async def at_prefix(response: Response, prefix: str) -> Response:
    """Returns the answer to POST /v0/watch, with the stream's address from the client's view."""
    if response.status != 200 or not response.is_json or response.header(b"content-encoding") is not None:
        return response
    body = await response.decoded(dict[str, msgspec.Raw])
    url = msgspec.json.decode(body["stream_url"], type=str)
    return response.replace(body=msgspec.json.encode({**body, "stream_url": prefix + url}))


async def offered(response: Response, not_offered: Mapping[Operation, str]) -> Response:
    """Returns a server's schema without the calls or streams that the virtual cluster does not offer."""
    try:
        schema = msgspec.json.decode(await response.read())
    except msgspec.MsgspecError:
        return response  # not JSON: YAML
    missing = {operation.value for operation in not_offered}
    if isinstance(schema, dict) and "asyncapi" in schema:
        without_channels(schema, missing)
    elif isinstance(schema, dict) and "openapi" in schema:
        without_paths(schema, missing)
    else:
        return response  # a refusal
    return response.replace(body=msgspec.json.encode(schema))


def without_paths(schema: dict[str, Any], missing: set[str]) -> None:
    paths = schema["paths"]
    for path, calls in list(paths.items()):
        for method, call in list(calls.items()):
            if isinstance(call, dict) and call.get("operationId") in missing:
                del calls[method]
        if not calls:
            del paths[path]


def without_channels(schema: dict[str, Any], missing: set[str]) -> None:
    """Removes channels, which have the ids of their calls, and all that happens in them."""
    gone = {f"#/channels/{name}" for name in missing}
    schema["channels"] = {name: each for name, each in schema["channels"].items() if name not in missing}
    schema["operations"] = {
        name: each for name, each in schema["operations"].items() if each["channel"]["$ref"] not in gone
    }


def ends(place: ClusterPlace | RouterPlace) -> list[tuple[tuple[str, ...], Cluster]]:
    if isinstance(place, ClusterPlace):
        return [(place.way, place.cluster)]
    return [each for route in place.routes.values() for each in ends(route.target)]


def outgoing(call: RoutedCall | None, response: Response, close: bool) -> Sent:
    body = response.body
    if (
        call is not None
        and not isinstance(body, bytes)
        and (response.header(b"content-type") or b"").startswith(b"text/event-stream")
    ):
        body = streams.Events(call.way, body)
    return Sent(response.status, response.headers, body, length=response.length, close=close)


def sent(response: Response) -> Sent:
    assert isinstance(response.body, bytes)
    return Sent(response.status, response.headers, response.body, length=response.length)
