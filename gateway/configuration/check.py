"""Checks that the parts of a gateway's file match. Every check runs, and one report contains all faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path as Folder
from typing import Any
from urllib.parse import urlsplit

import msgspec

from contract.operations import Operation
from gateway.configuration.document import Document, Fault, Path
from gateway.configuration.shapes import (
    ClusterDefinition,
    Entry,
    File,
    KafkaDefinition,
    KafkaSecurity,
    NodeDefinition,
    Place,
    Plugins,
    PluginType,
    RouterDefinition,
    Target,
    Tls,
    VirtualCluster,
)
from gateway.configuration.typed import convert, nearest, shown

OPERATIONS = frozenset(each.value for each in Operation)
RESERVED = "/gateway"  # the gateway's own pages, for example /gateway/health


def check(document: Document, file: File, plugins: Plugins, folder: Folder, faults: list[Fault]) -> File:
    """Returns the file with typed plugin configurations. Adds mistakes to `faults`."""
    return Check(document, file, plugins, folder, faults).run()


class Check:
    def __init__(self, document: Document, file: File, plugins: Plugins, folder: Folder, faults: list[Fault]) -> None:
        self.document, self.file, self.plugins, self.folder, self.faults = document, file, plugins, folder, faults
        self.clusters = {each.name: each for each in file.cluster_definitions}
        self.routers = {each.name: each for each in file.router_definitions}
        self.filters = {each.name: each for each in file.filter_definitions}

    def run(self) -> File:
        file = self.file
        for kind, definitions in self.kinds():
            self.no_name_twice([(each.name, (kind, place, "name")) for place, each in enumerate(definitions)])
        for place, cluster in enumerate(file.cluster_definitions):
            self.cluster(cluster, ("clusterDefinitions", place))
        filters = self.typed("filterDefinitions", file.filter_definitions, self.plugins.filters, "filter")
        routers = self.typed("routerDefinitions", file.router_definitions, self.plugins.routers, "router")
        for place, router in enumerate(file.router_definitions):
            self.router(router, ("routerDefinitions", place))
        for place, virtual_cluster in enumerate(file.virtual_clusters):
            self.virtual_cluster(virtual_cluster, ("virtualClusters", place))
        self.no_address_twice()
        self.no_cycle()
        self.no_definition_unused()
        return msgspec.structs.replace(file, filter_definitions=filters, router_definitions=routers)

    def kinds(self) -> Iterable[tuple[str, Sequence[Any]]]:
        yield "clusterDefinitions", self.file.cluster_definitions
        yield "filterDefinitions", self.file.filter_definitions
        yield "routerDefinitions", self.file.router_definitions
        yield "virtualClusters", self.file.virtual_clusters

    def fault(self, path: Path, text: str) -> None:
        self.faults.append(Fault(self.document.line(path), f"{shown(path)}: {text}"))

    def no_name_twice(self, found: Iterable[tuple[object, Path]]) -> None:
        seen: dict[object, int] = {}
        for name, path in found:
            if name in seen:
                self.fault(path, f"{name!r} is already used in line {seen[name]}: choose another name.")
            seen.setdefault(name, self.document.line(path))

    # -- Clusters ------------------------------------------------------------------------------------------------------

    def cluster(self, cluster: ClusterDefinition, path: Path) -> None:
        if cluster.kafka is not None:
            self.kafka(cluster.kafka, (*path, "kafka"))
        nodes = cluster.nodes or []
        self.no_name_twice([(node.id, (*path, "nodes", place, "id")) for place, node in enumerate(nodes)])
        for place, node in enumerate(nodes):
            self.node(node, (*path, "nodes", place, "url"))
        if cluster.tls is not None:
            self.files(cluster.tls, ("ca", "certificate", "key"), (*path, "tls"))
            if not any(node.url.startswith("https://") for node in nodes):
                self.fault(
                    (*path, "tls"),
                    "tls has no effect, because no node has an https:// URL: remove tls, or use an https:// URL.",
                )

    def kafka(self, kafka: KafkaDefinition, path: Path) -> None:
        if find_spec("confluent_kafka") is None:
            self.fault(path, "the package confluent-kafka is not installed: run `pip install 'topics[kafka]'`.")
        for server in kafka.bootstrap_servers.split(","):
            host, _, port = server.strip().rpartition(":")
            if not host or not port.isdigit() or "/" in server or not 0 < int(port) < 65536:
                self.fault((*path, "bootstrapServers"), f"invalid address {server.strip()!r}: expected HOST:PORT.")
        self.files(kafka.security, ("password_file", "ca", "certificate", "key"), (*path, "security"))

    def node(self, node: NodeDefinition, path: Path) -> None:
        try:
            url = urlsplit(node.url)
            port = url.port
        except ValueError:
            return self.fault(path, f"invalid URL {node.url!r}: expected http://HOST:PORT.")
        plain = not (url.path.rstrip("/") or url.query or url.fragment or url.username or url.password)
        if url.scheme not in ("http", "https") or not url.hostname or port == 0 or not plain:
            self.fault(path, f"invalid node address {node.url!r}: expected http://HOST:PORT or https://HOST:PORT.")
        return None

    def files(self, given: Tls | KafkaSecurity, names: Sequence[str], path: Path) -> None:
        keys = {field.name: field.encode_name for field in msgspec.structs.fields(given)}
        for name in names:
            if getattr(given, name) is None:
                continue
            file, where = self.folder / getattr(given, name), (*path, keys[name])
            try:
                if not file.is_file():
                    self.fault(where, f"file {file} does not exist.")
            except OSError as error:  # its folder cannot be entered, for example
                self.fault(where, f"file {file} cannot be looked at: {error.strerror}.")

    # -- Filters and routers -------------------------------------------------------------------------------------------

    def typed(self, kind: str, definitions: list[Any], known: Any, what: str) -> list[Any]:
        """Returns the definitions with configurations converted to the types of their plugins."""
        found = []
        for place, each in enumerate(definitions):
            plugin: PluginType | None = known.get(each.type)
            if plugin is None:
                self.fault((kind, place, "type"), f"{what} {each.type!r} does not exist{nearest(each.type, known)}")
                continue
            config = convert(self.document, each.config or {}, plugin.config, (kind, place, "config"), self.faults)
            found.append(msgspec.structs.replace(each, config=config))
        return found

    def router(self, router: RouterDefinition, path: Path) -> None:
        routes = router.routes
        self.no_name_twice([(route.name, (*path, "routes", place, "name")) for place, route in enumerate(routes)])
        self.no_name_twice([(route.id, (*path, "routes", place, "id")) for place, route in enumerate(routes)])
        for place, route in enumerate(routes):
            where = (*path, "routes", place)
            if route.id >= len(routes):
                self.fault(
                    (*where, "id"),
                    f"the id {route.id} is too large: expected 0 to {len(routes) - 1} for {count(len(routes), 'route')}.",
                )
            self.target(route.target, (*where, "target"))
            position: Place = "route to a cluster" if route.target.cluster is not None else "route to a router"
            self.chain(route.filters, position, (*where, "filters"))

    def chain(self, names: list[str], position: Place, path: Path) -> None:
        """Checks a chain of filters: each filter exists, is allowed at this position, and is unique if its type must be."""
        kinds: dict[str, str] = {}
        for place, name in enumerate(names):
            where = (*path, place)
            definition = self.refer("filter", name, self.filters, where)
            plugin = self.plugins.filters.get(definition.type) if definition is not None else None
            if definition is None or plugin is None:
                continue
            if position not in plugin.places:
                allowed = " or a ".join(sorted(plugin.places))
                self.fault(where, f"{name!r} is a filter {definition.type}: move it to a {allowed}, its only place.")
            if plugin.once and definition.type in kinds:
                self.fault(
                    where, f"{kinds[definition.type]!r} is already a filter {definition.type}: remove one of the two."
                )
            kinds.setdefault(definition.type, name)

    def refer(self, kind: str, name: str, known: dict[str, Any], path: Path) -> Any:
        """Returns the definition that a name refers to, or None."""
        if name not in known:
            self.fault(path, f"{kind} {name!r} does not exist{nearest(name, known)}")
            return None

        return known[name]

    def target(self, target: Target, path: Path) -> None:
        if target.cluster is not None:
            self.refer("cluster", target.cluster, self.clusters, (*path, "cluster"))
        if target.router is not None:
            self.refer("router", target.router, self.routers, (*path, "router"))

    # -- Virtual clusters ----------------------------------------------------------------------------------------------

    def virtual_cluster(self, wanted: VirtualCluster, path: Path) -> None:
        self.chain(wanted.filters, "virtual cluster", (*path, "filters"))
        self.no_name_twice([(each, (*path, "without", place)) for place, each in enumerate(wanted.without)])
        for place, each in enumerate(wanted.without):
            if each not in OPERATIONS:
                self.fault((*path, "without", place), f"operation {each!r} does not exist{nearest(each, OPERATIONS)}")
        self.target(wanted.target, (*path, "target"))

    def no_address_twice(self) -> None:
        found = [
            (entry, ("virtualClusters", place, "gateways", number))
            for place, each in enumerate(self.file.virtual_clusters)
            for number, entry in enumerate(each.gateways)
        ]
        for entry, path in found:
            self.entry(entry, path)
        self.no_name_twice(
            [(f"host {entry.host.lower()}" if entry.host else f"prefix {entry.prefix}", path) for entry, path in found]
        )

    def entry(self, entry: Entry, path: Path) -> None:
        if entry.host is not None and (not entry.host or set(entry.host) & set("/:@ *")):
            self.fault(
                (*path, "host"), f"invalid host {entry.host!r}: expected a host name without scheme, port and path."
            )
        prefix = entry.prefix
        if prefix is None:
            return
        parts = prefix.split("/")
        if parts[0] or len(parts) < 2 or not all(parts[1:]) or {".", ".."} & set(parts) or set(prefix) & set("?#% "):
            self.fault(
                (*path, "prefix"),
                f"invalid prefix {prefix!r}: expected /NAME or /NAME/NAME without a slash at the end.",
            )
        elif f"{prefix}/".startswith(f"{RESERVED}/"):
            self.fault((*path, "prefix"), f"{RESERVED} is reserved for the gateway itself: choose another prefix.")

    # -- The whole graph -----------------------------------------------------------------------------------------------

    def no_cycle(self) -> None:
        """Checks that a request cannot reach the same router twice.

        Each route is followed once, so each cycle is reported once.
        """
        done: set[str] = set()

        def follow(name: str, way: list[str]) -> None:
            if name in way:
                path = [*way[way.index(name) :], name]
                line = self.document.line(("routerDefinitions", self.place(name)))
                self.faults.append(
                    Fault(line, f"Routers form a cycle: {' -> '.join(path)}. Remove one of these routes.")
                )
                return
            if name in done or name not in self.routers:
                return
            for route in self.routers[name].routes:
                if route.target.router is not None:
                    follow(route.target.router, [*way, name])
            done.add(name)

        for name in sorted(self.routers):
            follow(name, [])

    def place(self, name: str) -> int:
        return next(place for place, each in enumerate(self.file.router_definitions) if each.name == name)

    def no_definition_unused(self) -> None:
        """Reports definitions that no virtual cluster uses: a mistake, or left over from an earlier file."""
        reached = self.reached()
        for kind, word in (
            ("clusterDefinitions", "cluster"),
            ("filterDefinitions", "filter"),
            ("routerDefinitions", "router"),
        ):
            for place, each in enumerate(dict(self.kinds())[kind]):
                if (word, each.name) not in reached:
                    self.fault(
                        (kind, place),
                        f"no virtual cluster uses the {word} {each.name!r}: use the {word}, or remove it.",
                    )

    def reached(self) -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()

        def follow(target: Target | None) -> None:
            if target is None:
                return
            if target.cluster is not None:
                found.add(("cluster", target.cluster))
            elif target.router is not None and ("router", target.router) not in found:
                found.add(("router", target.router))
                for route in self.routers[target.router].routes if target.router in self.routers else ():
                    found.update(("filter", name) for name in route.filters)
                    follow(route.target)

        for each in self.file.virtual_clusters:
            found.update(("filter", name) for name in each.filters)
            follow(each.target)
        return found


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
