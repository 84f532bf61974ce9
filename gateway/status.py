"""GET /gateway/graph: the running configuration, for the console.

The page needs no key. So the page contains names and states, but no addresses, topics, subjects or keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.configuration.graph import ClusterPlace, RouterPlace, VirtualClusterPlace, clusters
from gateway.metrics import ProcessCounts, summed
from gateway.proxy.upstreams import Cluster

Counts = dict[tuple[str, ...], tuple[int, int]]  # requests, and requests with 5xx, by the way of a route
NONE = 0, 0


def graph(sites: Mapping[str, VirtualClusterPlace], processes: Sequence[ProcessCounts]) -> dict[str, Any]:
    """Returns the virtual clusters with their routers, the clusters with their nodes, and the counters of all processes.

    The states of nodes are from the view of this process.
    """
    alive = [each for each in processes if each.status != "ended"]
    total = summed(processes)
    breakers = {(cluster, node): state for cluster, node, state in total.breakers}
    known = {each.name: each for site in sites.values() for each in clusters(site.root)}
    return {
        "processes": len(alive),
        "configurations": sorted({each.configuration for each in alive}),
        "virtual_clusters": [virtual_cluster(site, total) for site in sites.values()],
        "clusters": [shown(each, breakers) for each in known.values()],
    }


def virtual_cluster(site: VirtualClusterPlace, total: ProcessCounts) -> dict[str, Any]:
    counts = counted(site.name, total)
    return {
        "name": site.name,
        "filters": [each.name for each in site.filters],
        "in_flight": total.in_flight.get(site.name, 0),
        **numbers(counts, ()),
        "target": target(site.root, counts),
    }


def counted(name: str, total: ProcessCounts) -> Counts:
    """Counts each request of a virtual cluster for every route of its way.

    The empty way stands for the virtual cluster itself.
    """
    counts: Counts = {}
    for (virtual_cluster, _, route, _, _), row in total.requests:
        if virtual_cluster == name:
            way = tuple(route.split("/")) if route else ()
            for length in range(len(way) + 1):
                requests, errors = counts.get(way[:length], NONE)
                counts[way[:length]] = requests + int(sum(row[:-2])), errors + int(row[-1])
    return counts


def numbers(counts: Counts, way: tuple[str, ...]) -> dict[str, int]:
    requests, errors = counts.get(way, NONE)
    return {"requests": requests, "errors": errors}


def target(place: ClusterPlace | RouterPlace, counts: Counts) -> dict[str, Any]:
    if isinstance(place, ClusterPlace):
        return {"cluster": place.name}
    routes = [
        {
            "name": route.name,
            "filters": [each.name for each in route.filters],
            **numbers(counts, (*place.way, route.name)),
            "target": target(route.target, counts),
        }
        for route in place.routes.values()
    ]
    return {"router": place.name, "type": type(place.factory).__name__.removesuffix("Factory"), "routes": routes}


def shown(cluster: Cluster, breakers: Mapping[tuple[str, int], str]) -> dict[str, Any]:
    nodes = [
        {"id": node.id, "state": node.state, "breaker": breakers.get((cluster.name, node.id), node.breaker.state)}
        for node in cluster.nodes
    ]
    return {"name": cluster.name, "state": cluster.state, "nodes": nodes}
