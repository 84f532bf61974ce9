"""The running configuration: each virtual cluster is a tree of routers, routes and clusters.

The definitions form a graph without cycles. In the tree, each (outer route, router) is a separate place. So a definition that
is used twice has two instances.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway import plugins
from gateway.api import Filter, Operation, PluginConfigError, Router, RouterContext, VirtualNode
from gateway.configuration.document import Fault
from gateway.configuration.load import Configuration
from gateway.configuration.shapes import ClusterDefinition, KafkaDefinition, Target
from gateway.proxy.topology import Topology
from gateway.proxy.upstreams import Cluster, ClusterEngine, Node, NodeAddress
from gateway.rewrite.ids import from_virtual, to_virtual
from gateway.watched_file import WatchedFiles
from http1 import Waits

log = logging.getLogger(__name__)
Work = Callable[[RouterContext], Awaitable[None]]
Initialized = tuple[Any, Any]  # a factory, and the data of one `initialize`


@dataclass(eq=False)
class ClusterPlace:
    """The end of a way: a cluster. `way`: the routes from the virtual cluster to this place."""

    name: str
    way: tuple[str, ...]
    cluster: Cluster


@dataclass(eq=False)
class FilterPlace:
    """A filter in the tree. `route`: None on a virtual cluster."""

    name: str
    route: str | None
    factory: Any
    context: FilterPlaceContext
    data: Any

    def __post_init__(self) -> None:
        self.offers_not = offers_not(self.factory)

    def create(self) -> Filter:
        made: Filter = plugins.complete(self.factory.create_filter(self.context, self.data), Filter)
        return made


@dataclass(eq=False)
class RoutePlace:
    name: str
    id: int
    filters: list[FilterPlace]
    target: ClusterPlace | RouterPlace


@dataclass(eq=False)
class RouterPlace:
    """A router in the tree. Its nodes have virtual ids: V = route.id + S · node.id, with S routes."""

    name: str
    way: tuple[str, ...]
    routes: dict[str, RoutePlace]
    factory: Any
    context: RouterPlaceContext
    data: Any
    static: Mapping[Operation, str] | str | None = None  # static routes, after the first router was created

    def create(self) -> Router:
        made: Router = plugins.complete(self.factory.create_router(self.context, self.data), Router)
        if self.static is None:
            self.static = made.static_routes()
        return made

    def __post_init__(self) -> None:
        self.offers_not = offers_not(self.factory)

    def static_routes(self) -> Mapping[Operation, str] | str:
        """Returns the routes of operations that need no decision."""
        if self.static is None:
            self.create().close()  # each router of this place has the same static routes
        assert self.static is not None
        return self.static

    def crossed(self, operation: Operation) -> list[RoutePlace]:
        """Returns the routes that an operation can take."""
        static = self.static_routes()
        route = static if isinstance(static, str) else static.get(operation)
        return [self.routes[route]] if route is not None else list(self.routes.values())

    @property
    def label(self) -> str:
        return "/".join(self.way)

    def node_for_id(self, virtual_id: int) -> VirtualNode | None:
        """Returns the node with a virtual id, or None."""
        if virtual_id < 0:
            return None
        route_id, inner = from_virtual(len(self.routes), virtual_id)
        for route in self.routes.values():
            if route.id == route_id and has_node(route.target, inner):
                return VirtualNode(self.label, route.name, inner)
        return None

    def virtual_id(self, route: str, node: int) -> int:
        return to_virtual(len(self.routes), self.routes[route].id, node)


def offers_not(factory: Any) -> Mapping[Operation, str]:
    """Returns the operations that a plugin refuses, each with the reason."""
    found: Mapping[Operation, str] = factory.offers_not
    if factory.passes_upgrades:
        return found
    name = type(factory).__name__.removesuffix("Factory")
    return {Operation.UPGRADE: f"{name} cannot read the frames of a WebSocket", **found}


def has_node(place: ClusterPlace | RouterPlace, node: int) -> bool:
    if isinstance(place, ClusterPlace):
        return node in place.cluster.by_id
    return place.node_for_id(node) is not None


def nodes(place: ClusterPlace | RouterPlace) -> Iterator[tuple[int, tuple[str, ...], Node]]:
    """Yields the virtual id, the way and the node for each node behind a place."""
    if isinstance(place, ClusterPlace):
        yield from ((node.id, place.way, node) for node in place.cluster.nodes)
        return
    for route in place.routes.values():
        for inner, way, node in nodes(route.target):
            yield place.virtual_id(route.name, inner), way, node


def clusters(place: ClusterPlace | RouterPlace) -> list[Cluster]:
    if isinstance(place, ClusterPlace):
        return [place.cluster]
    return [cluster for route in place.routes.values() for cluster in clusters(route.target)]


@dataclass(eq=False)
class RouterPlaceContext:
    """Implements api.RouterFactoryContext."""

    virtual_cluster_name: str
    router_name: str
    route_names: Sequence[str]
    folder: Path
    topology: Topology | None = None
    allows_shared: bool = False
    works: list[Work] = field(default_factory=list)
    gauges: list[tuple[str, str, Callable[[], Mapping[str, float]]]] = field(default_factory=list)

    def allow_shared_cluster_targets(self) -> None:
        self.allows_shared = True

    def plugin_instance(self, kind: str, name: str) -> Any:
        return plugins.factory(kind, name)

    def plugin_names(self, kind: str) -> Sequence[str]:
        return plugins.names(kind)

    def file(self, name: str) -> Path:
        return self.folder / name

    def topology_service(self) -> Any:
        if self.topology is None:
            self.topology = Topology()
        return self.topology

    def gauge(self, name: str, help: str, read: Callable[[], Mapping[str, float]]) -> None:
        self.gauges.append((name, help, read))

    def background(self, work: Work) -> None:
        self.works.append(work)


@dataclass(eq=False)
class FilterPlaceContext:
    """Implements api.FilterFactoryContext."""

    virtual_cluster_name: str
    filter_name: str
    route: str | None
    folder: Path

    def file(self, name: str) -> Path:
        return self.folder / name


@dataclass(eq=False)
class VirtualClusterPlace:
    """A running virtual cluster.

    `in_flight`: its current requests. A `retired` virtual cluster is closed once it has neither requests nor streams.
    """

    name: str
    hosts: list[str]
    prefixes: list[str]
    filters: list[FilterPlace]
    root: ClusterPlace | RouterPlace
    without: frozenset[Operation] = frozenset()  # operations that the operator gave up
    not_offered: Mapping[Operation, str] = field(default_factory=dict)  # each with the reason (offers.py)
    in_flight: int = 0
    retired: bool = False
    is_closed: bool = False
    streams: set[Any] = field(default_factory=set)  # open ones (gateway/proxy/streams.py)
    sessions: set[Any] = field(default_factory=set)  # of client connections, with routers and filters (calls.Session)
    working: list[asyncio.Task[None]] | None = (
        None  # background work of the routers (proxy/background.py), after the start
    )
    plugins: list[Initialized] = field(default_factory=list)

    def __post_init__(self) -> None:
        # With only one server, all identifiers go back to this server, and need no wrapping. An engine keeps no identifiers: what
        # they stand for is in them, and the wrapping signs them.
        found = clusters(self.root)
        self.wraps = len({id(each) for each in found}) > 1 or any(each.engine is not None for each in found)

    def close_if_unused(self) -> None:
        if self.retired and not self.in_flight and not self.streams:
            self.close()

    def close(self) -> None:
        """Closes the routers of all connections, and then the plugins. A second call changes nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        for task in self.working or ():
            task.cancel()
        for session in list(self.sessions):
            session.close()
        close_all(self.plugins)


def close_all(plugins: list[Initialized]) -> None:
    """Closes plugins in the reverse order of their `initialize`. If one fails, the others are closed nevertheless."""
    for factory, data in reversed(plugins):
        try:
            factory.close(data)
        except Exception:
            log.exception("%s failed in close", type(factory).__name__)


def places(site: VirtualClusterPlace) -> Iterator[FilterPlace | RouterPlace]:
    """Yields every filter and router of a virtual cluster, for each place."""
    yield from site.filters

    def below(place: ClusterPlace | RouterPlace) -> Iterator[FilterPlace | RouterPlace]:
        if isinstance(place, RouterPlace):
            yield place
            for route in place.routes.values():
                yield from route.filters
                yield from below(route.target)

    yield from below(site.root)


def contexts(site: VirtualClusterPlace) -> dict[str, RouterPlaceContext]:
    """Returns the context of each router, by name."""
    return {each.name: each.context for each in places(site) if isinstance(each, RouterPlace)}


class Faults(Exception):
    """Some definitions cannot be used, for example because a plugin refuses its configuration."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(each.text for each in faults))
        self.faults = faults


class Builder:
    """Creates virtual clusters from a configuration. Clusters with equal definitions are shared."""

    def __init__(
        self, configuration: Configuration, folder: Path, shared: list[tuple[ClusterDefinition, Cluster]]
    ) -> None:
        self.configuration, self.folder, self.shared = configuration, folder, shared
        self.faults: list[Fault] = []

    def virtual_cluster(self, name: str) -> VirtualClusterPlace:
        """Creates a virtual cluster. Raises Faults with all faults of its plugins."""
        definition = self.configuration.virtual_clusters[name]
        self.faults, self.name = [], name
        self.initialized: dict[str, tuple[RouterPlaceContext, Any]] = {}
        self.opened: list[Initialized] = []
        assert definition.target is not None
        made = VirtualClusterPlace(
            name,
            [each.host.lower() for each in definition.gateways if each.host is not None],
            [each.prefix for each in definition.gateways if each.prefix is not None],
            self.chain(definition.filters, None),
            self.target(definition.target, ()),
            frozenset(each for each in Operation if each.value in definition.without),
            plugins=self.opened,
        )
        if self.faults:
            close_all(self.opened)
            raise Faults(self.faults)
        return made

    def chain(self, names: Sequence[str], route: str | None) -> list[FilterPlace]:
        return [self.filter(name, route) for name in names]

    def filter(self, name: str, route: str | None) -> FilterPlace:
        definition = self.configuration.filters[name]
        made = plugins.factory("filter", definition.type)
        context = FilterPlaceContext(self.name, name, route, self.folder)
        data = self.initialized_data("filter", definition, made, context)
        return FilterPlace(name, route, made, context, data)

    def initialized_data(self, kind: str, definition: Any, made: Any, context: Any) -> Any:
        """Returns the result of a plugin's `initialize`. If the plugin refuses, adds a fault and returns None."""
        try:
            data = made.initialize(context, definition.config)
            self.opened.append((made, data))
            return data
        except PluginConfigError as error:
            said, line = str(error), self.configuration.line_of_key(kind, definition.name, str(error))
        except Exception as error:
            trace = "".join(traceback.format_exception(error)).rstrip()
            said = f"initialize failed with {type(error).__name__}: {error}\n{trace}"
            line = self.configuration.line(kind, definition.name)
        self.faults.append(Fault(line, f"{kind} {definition.name!r} ({definition.type}): {said}"))
        return None

    def target(self, target: Target, way: tuple[str, ...]) -> ClusterPlace | RouterPlace:
        if target.cluster is not None:
            return ClusterPlace(target.cluster, way, self.cluster(target.cluster))
        assert target.router is not None
        return self.router(target.router, way)

    def router(self, name: str, way: tuple[str, ...]) -> RouterPlace:
        definition = self.configuration.routers[name]
        made = plugins.factory("router", definition.type)
        if name not in self.initialized:  # once per virtual cluster, however often the router is used
            context = RouterPlaceContext(self.name, name, [route.name for route in definition.routes], self.folder)
            self.initialized[name] = context, self.initialized_data("router", definition, made, context)
        context, data = self.initialized[name]
        routes = {
            route.name: RoutePlace(
                route.name,
                route.id,
                self.chain(route.filters, route.name),
                self.target(route.target, (*way, route.name)),
            )
            for route in definition.routes
        }
        place = RouterPlace(name, way, routes, made, context, data)
        if not context.allows_shared:
            self.no_shared_cluster(place)
        return place

    def no_shared_cluster(self, place: RouterPlace) -> None:
        """Reports two routes to one cluster, because its topics would be counted and listed twice."""
        seen: dict[int, str] = {}
        for route in place.routes.values():
            for cluster in {id(each): each for each in clusters(route.target)}.values():
                other = seen.setdefault(id(cluster), route.name)
                if other != route.name:
                    text = (
                        f"router {place.name!r}: the routes {other!r} and {route.name!r} both lead to the cluster"
                        f" {cluster.name!r}: remove one of the two"
                    )
                    number = list(place.routes).index(route.name)
                    line = self.configuration.line("router", place.name, "routes", number)
                    self.faults.append(Fault(line, text))

    def cluster(self, name: str) -> Cluster:
        definition = self.configuration.clusters[name]
        for known, cluster in self.shared:
            if known == definition:
                return cluster
        times = definition.timeouts
        waits = Waits(connect=times.connect_ms / 1000, answer=times.answer_ms / 1000)
        if definition.kafka is not None:
            cluster = Cluster(name, self.kafka(name, definition.kafka, waits.answer) or (), waits)
        else:
            addresses = [NodeAddress(node.id, node.url) for node in definition.nodes or ()]
            adds_keys = definition.add_keys is not False
            cluster = Cluster(name, addresses, waits, self.tls(definition), adds_keys=adds_keys)
        self.shared.append((definition, cluster))
        return cluster

    def kafka(self, name: str, definition: KafkaDefinition, seconds: float) -> ClusterEngine | None:
        """Returns the engine of a Kafka cluster. Loads its library, which other configurations can do without."""
        from gateway.kafka.serve import KafkaEngine

        try:
            return KafkaEngine(definition, self.folder, seconds)
        except (OSError, ValueError) as error:
            text = f"cluster {name!r}: kafka: invalid files: {error}"
            self.faults.append(Fault(self.configuration.line("cluster", name, "kafka", "security"), text))
            return None

    def tls(self, definition: ClusterDefinition) -> WatchedFiles[ssl.SSLContext] | None:
        if definition.tls is None:
            return None
        ca, certificate, key = (
            self.folder / each if each else None
            for each in (definition.tls.ca, definition.tls.certificate, definition.tls.key)
        )

        def read() -> ssl.SSLContext:
            tls = ssl.create_default_context(cafile=ca)
            if certificate is not None:
                tls.load_cert_chain(certificate, key)
            return tls

        try:
            return WatchedFiles([each for each in (ca, certificate, key) if each is not None], read)
        except (OSError, ValueError) as error:
            text = f"cluster {definition.name!r}: tls: invalid files: {error}"
            self.faults.append(Fault(self.configuration.line("cluster", definition.name, "tls"), text))
            return None
