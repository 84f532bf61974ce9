"""Checks that the parts of a gateway's file match. Every check runs, and one report contains all faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as Folder
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gateway.document import Document, Fault, Path
from gateway.operations import Operation
from gateway.shapes import (
    Cluster,
    Entry,
    File,
    Node,
    Place,
    Plugins,
    PluginType,
    RouterDefinition,
    Target,
    Timeouts,
    Tls,
    VirtualCluster,
)
from gateway.typed import convert, nearest, shown

OPERATIONS = frozenset(each.value for each in Operation)
RESERVED = "/gateway"  # the gateway's own pages, for example /gateway/health


def check(
    document: Document, file: File, plugins: Plugins, folder: Folder, faults: list[Fault], warnings: list[Fault]
) -> File:
    """Returns the file with typed plugin configurations, and with a cluster for each older `targetCluster`.

    Adds mistakes to `faults`. Adds older forms that still work to `warnings`.
    """
    return Check(document, file, plugins, folder, faults, warnings).run()


class Check:
    def __init__(
        self,
        document: Document,
        file: File,
        plugins: Plugins,
        folder: Folder,
        faults: list[Fault],
        warnings: list[Fault],
    ) -> None:
        self.document, self.file, self.plugins, self.folder = document, file, plugins, folder
        self.faults, self.warnings = faults, warnings
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
        inline: list[Cluster] = []
        virtual_clusters = [
            self.virtual_cluster(each, ("virtualClusters", place), inline)
            for place, each in enumerate(file.virtual_clusters)
        ]
        self.no_address_twice()
        self.no_cycle()
        self.no_definition_unused()
        return File(
            cluster_definitions=[*file.cluster_definitions, *inline],
            filter_definitions=filters,
            router_definitions=routers,
            virtual_clusters=virtual_clusters,
        )

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

    def cluster(self, cluster: Any, path: Path) -> None:
        """Checks a cluster, or an older target with the same fields."""
        self.no_name_twice([(node.id, (*path, "nodes", place, "id")) for place, node in enumerate(cluster.nodes)])
        for place, node in enumerate(cluster.nodes):
            self.node(node, (*path, "nodes", place, "url"))
        if cluster.tls is not None:
            self.tls(cluster.tls, (*path, "tls"))
            if not any(node.url.startswith("https://") for node in cluster.nodes):
                self.fault(
                    (*path, "tls"),
                    "tls has no effect, because no node has an https:// URL: remove tls, or use an https:// URL.",
                )

    def node(self, node: Node, path: Path) -> None:
        try:
            url = urlsplit(node.url)
            port = url.port
        except ValueError:
            return self.fault(path, f"invalid URL {node.url!r}: expected http://HOST:PORT.")
        plain = not (url.path.rstrip("/") or url.query or url.fragment or url.username or url.password)
        if url.scheme not in ("http", "https") or not url.hostname or port == 0 or not plain:
            self.fault(path, f"invalid node address {node.url!r}: expected http://HOST:PORT or https://HOST:PORT.")
        return None

    def tls(self, tls: Tls, path: Path) -> None:
        for name in ("ca", "certificate", "key"):
            file = getattr(tls, name)
            if file is not None and not (self.folder / file).is_file():
                self.fault((*path, name), f"file {self.folder / file} does not exist.")

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

    def virtual_cluster(self, wanted: VirtualCluster, path: Path, inline: list[Cluster]) -> VirtualCluster:
        """Returns the virtual cluster with a `target`. Adds a cluster for an older `targetCluster` to `inline`."""
        self.chain(wanted.filters, "virtual cluster", (*path, "filters"))
        self.no_name_twice([(each, (*path, "without", place)) for place, each in enumerate(wanted.without)])
        for place, each in enumerate(wanted.without):
            if each not in OPERATIONS:
                self.fault((*path, "without", place), f"operation {each!r} does not exist{nearest(each, OPERATIONS)}")
        if wanted.target is not None:
            self.target(wanted.target, (*path, "target"))
            return wanted
        older = wanted.target_cluster
        assert older is not None
        where = (*path, "targetCluster")
        self.cluster(older, where)
        text = f"{shown(where)}: targetCluster is the older form: define a cluster in clusterDefinitions, and name it in target."
        self.warnings.append(Fault(self.document.line(where), text))
        name = f"targetCluster of {wanted.name}"  # no definition can have this name
        inline.append(Cluster(name=name, nodes=older.nodes, tls=older.tls, timeouts=older.timeouts or Timeouts()))
        return msgspec.structs.replace(wanted, target=Target(cluster=name), target_cluster=None)

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


def shared_clusters(routers: dict[str, RouterDefinition], name: str) -> list[tuple[str, str, str]]:
    """Returns (cluster, route, route) for each two routes of a router that reach the same cluster, also through nested routers.

    A record would appear twice. A router that can handle this allows shared clusters.
    """

    def clusters(target: Target) -> set[str]:
        if target.cluster is not None:
            return {target.cluster}
        inner = routers[target.router].routes if target.router is not None else []
        return set().union(*(clusters(route.target) for route in inner))

    by_route = [(route.name, clusters(route.target)) for route in routers[name].routes]
    return [
        (cluster, first, second)
        for number, (first, of_first) in enumerate(by_route)
        for second, of_second in by_route[number + 1 :]
        for cluster in sorted(of_first & of_second)
    ]


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
